package history

import (
	"encoding/json"
	"fmt"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/history/normal"
)

// payload is what a revision stores of an owner. The patch directive makes it a strategic merge patch that replaces
// the template, which is how other tools restore it.
type payload[T any] struct {
	Spec struct {
		Template T `json:"template"`
	} `json:"spec"`
}

// Encode returns the data of a revision with this template.
func Encode[T any](template T) ([]byte, error) {
	fields, err := normal.Object(template)
	if err != nil {
		return nil, fmt.Errorf("encode template: %w", err)
	}
	stampMissing(fields)
	fields[normal.PatchDirective] = "replace"
	var out payload[map[string]any]
	out.Spec.Template = fields
	return json.Marshal(out)
}

// stampMissing writes "creationTimestamp":null into the metadata of every template in v that has no time. OpenKruise's
// managers write it, and compare revisions by their bytes: without it they would take the revision for another one and
// roll every pod of a workload that is handed back to them.
func stampMissing(v any) {
	switch v := v.(type) {
	case map[string]any:
		if metadata, ok := v["metadata"].(map[string]any); ok && v["spec"] != nil {
			if _, ok := metadata["creationTimestamp"]; !ok {
				metadata["creationTimestamp"] = nil
			}
		}
		for _, field := range v {
			stampMissing(field)
		}
	case []any:
		for _, item := range v {
			stampMissing(item)
		}
	}
}

// Decode returns the template that a revision's data holds.
func Decode[T any](data []byte) (T, error) {
	var in payload[T]
	if err := json.Unmarshal(data, &in); err != nil {
		return in.Spec.Template, fmt.Errorf("decode template: %w", err)
	}
	return in.Spec.Template, nil
}

// Canonical returns bytes that are equal for templates that mean the same: null fields are left out, and so are values
// that equal the API server's defaults of a pod.
func Canonical[T any](template T) ([]byte, error) {
	fields, err := normal.Fields(template)
	if err != nil {
		return nil, err
	}
	return json.Marshal(fields)
}

// CanonicalData returns the canonical bytes of a revision's data.
func CanonicalData[T any](data []byte) ([]byte, error) {
	template, err := Decode[T](data)
	if err != nil {
		return nil, err
	}
	return Canonical(template)
}
