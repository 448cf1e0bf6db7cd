package strict

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// maxFindings bounds the mistakes and the unknown fields of one value: a person corrects the first ones first.
	maxFindings = 16
	// maxShown is how many bytes of a wrong value are shown.
	maxShown = 64
)

// Findings are what a Go type does not take of a value.
type Findings struct {
	// Mistakes are values that cannot be decoded.
	Mistakes field.ErrorList
	// Unknown are paths of fields that the type does not have. Decoding ignores them.
	Unknown []string
}

// Check compares data, which is at path in its object, with the type of T. Null is taken anywhere, as decoding takes
// it. A field that is not spelled exactly as in the type is unknown.
func Check[T any](path *field.Path, data []byte) Findings {
	var f Findings
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		f.Mistakes = field.ErrorList{field.TypeInvalid(path, shown(data), "must be JSON: "+err.Error())}
		return f
	}
	f.check(path, value, reflect.TypeFor[T]())
	return f
}

// check compares a value with a type.
func (f *Findings) check(path *field.Path, value any, t reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if value == nil || len(f.Mistakes) >= maxFindings {
		return
	}
	if _, ok := reflect.New(t).Interface().(json.Unmarshaler); ok {
		f.decode(path, value, t)
		return
	}
	switch t.Kind() {
	case reflect.Struct:
		f.object(path, value, t)
	case reflect.Map:
		m, ok := value.(map[string]any)
		if !ok {
			f.mistake(path, value, "must be of type object")
		}
		for _, key := range slices.Sorted(maps.Keys(m)) {
			f.check(path.Key(key), m[key], t.Elem())
		}
	case reflect.Slice:
		f.list(path, value, t)
	default:
		f.scalar(path, value, t)
	}
}

// scalar compares a value with a string, a boolean or an integer. Values of other types are decoded.
func (f *Findings) scalar(path *field.Path, value any, t reflect.Type) {
	switch t.Kind() {
	case reflect.String:
		if _, ok := value.(string); !ok {
			f.mistake(path, value, "must be of type string")
		}
	case reflect.Bool:
		if _, ok := value.(bool); !ok {
			f.mistake(path, value, "must be of type boolean")
		}
	case reflect.Int, reflect.Int32, reflect.Int64:
		n, ok := value.(json.Number)
		if _, err := strconv.ParseInt(n.String(), 10, t.Bits()); !ok || err != nil {
			f.mistake(path, value, fmt.Sprintf("must be of type integer, of %d bits", t.Bits()))
		}
	default:
		f.decode(path, value, t)
	}
}

// object compares a value with a struct.
func (f *Findings) object(path *field.Path, value any, t reflect.Type) {
	m, ok := value.(map[string]any)
	if !ok {
		f.mistake(path, value, "must be of type object")
		return
	}
	known := map[string]reflect.Type{}
	addFields(known, t)
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if of, ok := known[key]; ok {
			f.check(path.Child(key), m[key], of)
		} else if len(f.Unknown) < maxFindings {
			f.Unknown = append(f.Unknown, path.Child(key).String())
		}
	}
}

// list compares a value with a slice. Bytes are text in base64.
func (f *Findings) list(path *field.Path, value any, t reflect.Type) {
	if t.Elem().Kind() == reflect.Uint8 {
		text, ok := value.(string)
		if _, err := base64.StdEncoding.DecodeString(text); !ok || err != nil {
			f.mistake(path, value, "must be base64")
		}
		return
	}
	items, ok := value.([]any)
	if !ok {
		f.mistake(path, value, "must be of type array")
	}
	for i, item := range items {
		f.check(path.Index(i), item, t.Elem())
	}
}

// decode has a type that reads JSON in its own way read the value.
func (f *Findings) decode(path *field.Path, value any, t reflect.Type) {
	data, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(data, reflect.New(t).Interface())
	}
	if err != nil {
		f.mistake(path, value, err.Error())
	}
}

func (f *Findings) mistake(path *field.Path, value any, detail string) {
	if text, ok := value.(string); ok {
		value = cut(text)
	} else {
		data, _ := json.Marshal(value) // it was decoded from JSON
		value = shown(data)
	}
	f.Mistakes = append(f.Mistakes, field.TypeInvalid(path, value, detail))
}

// shown returns JSON as the value of an error.
func shown(data []byte) any {
	if len(data) > maxShown || !json.Valid(data) {
		return cut(string(data))
	}
	return json.RawMessage(data)
}

func cut(text string) string {
	if len(text) > maxShown {
		return strings.ToValidUTF8(text[:maxShown], "") + "..."
	}
	return text
}

// addFields adds the JSON fields of the struct t to fields; those of inlined structs are its own.
func addFields(fields map[string]reflect.Type, t reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "" && (f.Anonymous || strings.Contains(options, "inline")):
			inlined := f.Type
			if inlined.Kind() == reflect.Pointer {
				inlined = inlined.Elem()
			}
			addFields(fields, inlined)
		case name != "" && name != "-" && f.IsExported():
			fields[name] = f.Type
		}
	}
}
