package snapshot

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/flotilla-dev/flotilla/hub/policy"
)

// checker holds values to a schema: all of it, or the bounds of values alone.
type checker struct {
	whole bool
	rules rules
}

// check refuses values that a schema does not take: those that are not in its list, too small or large, too short or
// long, of another pattern, what is missing, and what a rule by CEL refuses. The sentences are those of an API server.
// Types are checked where the object is decoded.
func (c checker) check(path string, value any, openAPI map[string]any) []error {
	mistakes := checkValue(path, value, openAPI)
	if c.whole {
		mistakes = append(mistakes, c.rules.check(path, value, openAPI)...)
	}
	switch v := value.(type) {
	case map[string]any:
		properties, _ := openAPI["properties"].(map[string]any)
		for _, name := range texts(openAPI["required"]) {
			if _, there := v[name]; !there && c.whole {
				mistakes = append(mistakes, &Mistake{Path: joined(path, name), Problem: "Required value"})
			}
		}
		more, _ := openAPI["additionalProperties"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(v)) {
			property, known := properties[name].(map[string]any)
			if !known {
				property = more
			}
			if v[name] != nil && property != nil {
				mistakes = append(mistakes, c.check(joined(path, name), v[name], property)...)
			}
		}
	case []any:
		items, _ := openAPI["items"].(map[string]any)
		for i := range v {
			mistakes = append(mistakes, c.check(fmt.Sprintf("%s[%d]", path, i), v[i], items)...)
		}
	}
	return mistakes
}

// checkValue judges a value itself, without what is in it.
func checkValue(path string, value any, openAPI map[string]any) []error {
	var mistakes []error
	refuse := func(format string, args ...any) {
		mistakes = append(mistakes, &Mistake{Path: path, Problem: fmt.Sprintf(format, args...)})
	}
	if allowed, ok := openAPI["enum"].([]any); ok && !slices.Contains(allowed, value) {
		refuse("Unsupported value: %s: supported values: %s", quoted(value), listed(allowed))
	}
	if number, ok := numberOf(value); ok {
		if least, bound := numberOf(openAPI["minimum"]); bound && number < least {
			refuse("Invalid value: %v: should be greater than or equal to %v", value, openAPI["minimum"])
		}
		if most, bound := numberOf(openAPI["maximum"]); bound && number > most {
			refuse("Invalid value: %v: should be less than or equal to %v", value, openAPI["maximum"])
		}
	}
	length, kind, unit := lengthOf(value)
	if kind == "" {
		return mistakes
	}
	if least, bound := numberOf(openAPI["min"+kind]); bound && float64(length) < least {
		refuse("Invalid value: it has %d %s, and should have at least %v", length, unit, openAPI["min"+kind])
	}
	if most, bound := numberOf(openAPI["max"+kind]); bound && float64(length) > most {
		refuse("Invalid value: it has %d %s, and may have at most %v", length, unit, openAPI["max"+kind])
	}
	if text, ok := value.(string); ok {
		pattern, _ := openAPI["pattern"].(string)
		if matches, err := regexp.MatchString(pattern, text); err == nil && !matches {
			refuse("Invalid value: %s: should match '%s'", quoted(value), pattern)
		}
	}
	return mistakes
}

// lengthOf returns how long a value is, by which bounds of a schema that is judged, and of what; "" for a value without
// a length.
func lengthOf(value any) (length int, kind, unit string) {
	switch v := value.(type) {
	case string:
		return utf8.RuneCountInString(v), "Length", "characters"
	case []any:
		return len(v), "Items", "items"
	case map[string]any:
		return len(v), "Properties", "properties"
	}
	return 0, "", ""
}

func numberOf(value any) (float64, bool) {
	switch v := value.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

func texts(list any) []string {
	items, _ := list.([]any)
	var out []string
	for _, item := range items {
		if text, ok := item.(string); ok {
			out = append(out, text)
		}
	}
	return out
}

func listed(values []any) string {
	var out []string
	for _, v := range values {
		out = append(out, quoted(v))
	}
	return strings.Join(out, ", ")
}

func quoted(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(data)
}

func joined(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// checkSpec checks what a person writes of an object; its status is of the hub. Of workloads only values are checked:
// that something is missing, or breaks a rule, is left to the server.
func (r *Reader) checkSpec(name string, object map[string]any, gvk schema.GroupVersionKind) error {
	properties, _ := r.schemas[gvk]["properties"].(map[string]any)
	spec, _ := properties["spec"].(map[string]any)
	if object["spec"] == nil || spec == nil {
		return nil
	}
	c := checker{whole: gvk.Kind == policy.KindPolicy || gvk.Kind == policy.KindClusterPolicy, rules: r.rulesOf}
	mistakes := c.check("spec", withoutNulls(object["spec"], spec), spec)
	for i, mistake := range mistakes {
		m := &Mistake{}
		if errors.As(mistake, &m) {
			m.Problem = fmt.Sprintf("%s: %s: %s; correct the field", name, m.Path, m.Problem)
		}
		mistakes[i] = mistake
	}
	return errors.Join(mistakes...)
}

// withoutNulls returns a value as an API server takes it: a field that is null, and that its schema does not let be
// null, is not there.
func withoutNulls(value any, openAPI map[string]any) any {
	switch v := value.(type) {
	case map[string]any:
		properties, _ := openAPI["properties"].(map[string]any)
		more, _ := openAPI["additionalProperties"].(map[string]any)
		out := make(map[string]any, len(v))
		for name, field := range v {
			property, known := properties[name].(map[string]any)
			if !known {
				property = more
			}
			if field == nil && property != nil && property["nullable"] != true {
				continue
			}
			out[name] = withoutNulls(field, property)
		}
		return out
	case []any:
		items, _ := openAPI["items"].(map[string]any)
		out := make([]any, len(v))
		for i := range v {
			out[i] = withoutNulls(v[i], items)
		}
		return out
	}
	return value
}
