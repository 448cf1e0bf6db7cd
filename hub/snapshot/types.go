package snapshot

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// typeMistakes returns a mistake for each field that the type of an object does not have, and for each value of another
// type. Decoding itself stops at the first one.
func typeMistakes(name string, object map[string]any, typed any) []error {
	return types{name}.check("", object, reflect.TypeOf(typed).Elem())
}

// types checks an object of a name.
type types struct{ name string }

func (c types) wrong(path string, value any, want string) []error {
	return []error{&Mistake{Path: path, Foreign: unrendered(value), Problem: fmt.Sprintf(
		"%s cannot be read: %s is %s, but must be %s; correct the field", c.name, path, shown(value), want)}}
}

// unrendered tells a value of a template that is not filled in from others.
func unrendered(value any) Foreign {
	if text, ok := value.(string); ok && strings.Contains(text, "{{") {
		return ForeignTemplate
	}
	return ""
}

func (c types) check(path string, value any, t reflect.Type) []error {
	if value == nil {
		return nil
	}
	if t.Kind() == reflect.Pointer {
		return c.check(path, value, t.Elem())
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) && !alwaysDecodes(t) {
		return c.custom(path, value, t)
	}
	switch t.Kind() {
	case reflect.Struct:
		return c.fields(path, value, t)
	case reflect.Map:
		entries, ok := value.(map[string]any)
		if !ok {
			return c.wrong(path, value, "an object")
		}
		var mistakes []error
		for _, key := range slices.Sorted(maps.Keys(entries)) {
			mistakes = append(mistakes, c.check(joined(path, key), entries[key], t.Elem())...)
		}
		return mistakes
	case reflect.Slice:
		return c.list(path, value, t)
	}
	return c.scalar(path, value, t)
}

// alwaysDecodes reports whether a type takes any value, and keeps what it cannot decode.
func alwaysDecodes(t reflect.Type) bool {
	switch t {
	case reflect.TypeFor[apps.PodTemplate](), reflect.TypeFor[apps.NativeStatefulSetSpec](),
		reflect.TypeFor[apps.NativeDeploymentSpec]():
		return true
	}
	return false
}

// custom lets a type that reads itself, such as a quantity, read the value.
func (c types) custom(path string, value any, t reflect.Type) []error {
	data, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(data, reflect.New(t).Interface())
	}
	if err == nil {
		return nil
	}
	return []error{
		&Mistake{
			Path:    path,
			Foreign: unrendered(value),
			Problem: fmt.Sprintf("%s cannot be read: %s is %s: %s; correct the field",
				c.name, path, shown(value), strings.TrimPrefix(err.Error(), "json: ")),
		},
	}
}

func (c types) fields(path string, value any, t reflect.Type) []error {
	fields, ok := value.(map[string]any)
	if !ok {
		return c.wrong(path, value, "an object")
	}
	known := map[string]reflect.Type{}
	fieldsOf(t, known)
	var mistakes []error
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		field := joined(path, key)
		if of, ok := known[key]; ok {
			mistakes = append(mistakes, c.check(field, fields[key], of)...)
			continue
		}
		mistakes = append(mistakes, &Mistake{Path: field, Problem: fmt.Sprintf(
			"%s has an unknown field %q; correct its name, or remove it (its value is %s)", c.name, field, shown(fields[key]))})
	}
	return mistakes
}

// fieldsOf adds the fields of a struct by their names in JSON, those of embedded structs among them.
func fieldsOf(t reflect.Type, known map[string]reflect.Type) {
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-" || !field.IsExported():
		case name == "" && field.Anonymous && field.Type.Kind() == reflect.Struct:
			fieldsOf(field.Type, known)
		case name != "":
			known[name] = field.Type
		default:
			known[field.Name] = field.Type
		}
	}
}

func (c types) list(path string, value any, t reflect.Type) []error {
	if t.Elem().Kind() == reflect.Uint8 {
		return c.custom(path, value, t)
	}
	items, ok := value.([]any)
	if !ok {
		return c.wrong(path, value, "a list")
	}
	var mistakes []error
	for i := range items {
		mistakes = append(mistakes, c.check(fmt.Sprintf("%s[%d]", path, i), items[i], t.Elem())...)
	}
	return mistakes
}

func (c types) scalar(path string, value any, t reflect.Type) []error {
	ok, want := true, ""
	switch t.Kind() {
	case reflect.String:
		_, ok = value.(string)
		want = "a string: write it in quotes"
	case reflect.Bool:
		_, ok = value.(bool)
		want = "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		number, whole := wholeNumber(value)
		ok, want = whole && !reflect.Zero(t).OverflowInt(number), "a whole number"
		if whole {
			want = fmt.Sprintf("a number of %d bits", t.Bits())
		}
	case reflect.Float32, reflect.Float64:
		_, ok = numberOf(value)
		want = "a number"
	}
	if ok {
		return nil
	}
	return c.wrong(path, value, want)
}

func wholeNumber(value any) (int64, bool) {
	switch v := value.(type) {
	case int64:
		return v, true
	case float64:
		return int64(v), v == math.Trunc(v) && math.Abs(v) < 1<<53
	}
	return 0, false
}
