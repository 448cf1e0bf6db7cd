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
	fields[normal.PatchDirective] = "replace"
	var out payload[map[string]any]
	out.Spec.Template = fields
	return json.Marshal(out)
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
