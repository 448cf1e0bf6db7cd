package history

import (
	"encoding/json"
	"fmt"
)

// payload is what a revision stores of an owner. The patch directive makes it a strategic merge patch that replaces
// the template, which is how other tools restore it.
type payload[T any] struct {
	Spec struct {
		Template T `json:"template"`
	} `json:"spec"`
}

const patchDirective = "$patch"

// Encode returns the data of a revision with this template.
func Encode[T any](template T) ([]byte, error) {
	fields, err := toMap(template)
	if err != nil {
		return nil, fmt.Errorf("encode template: %w", err)
	}
	fields[patchDirective] = "replace"
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
	fields, err := Fields(template)
	if err != nil {
		return nil, err
	}
	return json.Marshal(fields)
}

// Fields returns the canonical form of a template as decoded JSON.
func Fields[T any](template T) (map[string]any, error) {
	fields, err := toMap(template)
	if err != nil {
		return nil, fmt.Errorf("encode template: %w", err)
	}
	delete(fields, patchDirective)
	normalise(fields)
	return fields, nil
}

// CanonicalData returns the canonical bytes of a revision's data.
func CanonicalData[T any](data []byte) ([]byte, error) {
	template, err := Decode[T](data)
	if err != nil {
		return nil, err
	}
	return Canonical(template)
}

func toMap(v any) (map[string]any, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	fields := map[string]any{}
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, err
	}
	return fields, nil
}
