package main

import (
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// quantityPattern is what resource.ParseQuantity takes of a string.
const quantityPattern = `^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,9})?$`

// typesOf returns the schema of a Go type of Kubernetes with the types of its fields alone: one field of another type
// in one stored object would keep every client with Go types from reading the whole list. Null and unknown fields stay,
// as Go clients read them.
func typesOf[T any]() schema {
	return typeSchema(reflect.TypeFor[T](), nil)
}

// typeSchema returns the schema of t; within are the structs around it, and one that holds itself is left open.
func typeSchema(t reflect.Type, within []reflect.Type) schema {
	if t.Kind() == reflect.Pointer {
		return typeSchema(t.Elem(), within)
	}
	s := knownType(t)
	if s == nil {
		s = plainType(t, within)
	}
	s["nullable"] = true
	return s
}

// knownType returns the schema of a type that reads and writes JSON in a way of its own, or nil.
func knownType(t reflect.Type) schema {
	switch t {
	case reflect.TypeFor[resource.Quantity]():
		return quantity()
	case reflect.TypeFor[intstr.IntOrString]():
		return intOrString()
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime]():
		return moment()
	case reflect.TypeFor[metav1.Duration]():
		return schema{"type": "string"}
	case reflect.TypeFor[metav1.FieldsV1](), reflect.TypeFor[runtime.RawExtension]():
		return object(nil)
	case reflect.TypeFor[[]byte]():
		return schema{"type": "string", "format": "byte"}
	case reflect.TypeFor[metav1.OwnerReference](), reflect.TypeFor[metav1.ManagedFieldsEntry](),
		reflect.TypeFor[corev1.PersistentVolumeClaimStatus]():
		return schema{"type": "object"} // means nothing in a template: its fields are dropped
	}
	return nil
}

// intOrString takes integers of 32 bits alone: one that is greater, in one stored object, would keep every client with
// Go types from reading the whole list.
func intOrString() schema {
	return schema{"x-kubernetes-int-or-string": true, "minimum": int64(-1 << 31), "maximum": int64(1<<31 - 1)}
}

// momentPattern is what time.Parse takes of what an API server takes for a date-time. That would take t and z for T and
// Z too, any sign before the fraction, any offset, and anything behind a second T.
const momentPattern = `^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`

// moment takes a time as Go reads it.
func moment() schema {
	return schema{"type": "string", "format": "date-time", "pattern": momentPattern}
}

// quantity takes a string or any number. A number or a string is no schema type, and an integer or a string would
// refuse cpu: 0.5: so the others are refused one by one.
func quantity() schema {
	return schema{
		"x-kubernetes-preserve-unknown-fields": true,
		"pattern":                              quantityPattern,
		"minProperties":                        int64(1),
		"maxProperties":                        int64(0),
		"minItems":                             int64(1),
		"maxItems":                             int64(0),
		"not":                                  schema{"enum": []any{true, false}},
	}
}

// plainType returns the schema of a type that encoding/json reads by its kind.
func plainType(t reflect.Type, within []reflect.Type) schema {
	switch t.Kind() {
	case reflect.String:
		return schema{"type": "string"}
	case reflect.Bool:
		return schema{"type": "boolean"}
	case reflect.Int32:
		return schema{"type": "integer", "format": "int32"}
	case reflect.Int, reflect.Int64:
		return schema{"type": "integer", "format": "int64"}
	case reflect.Float32, reflect.Float64:
		return schema{"type": "number"}
	case reflect.Slice:
		return schema{"type": "array", "x-kubernetes-list-type": "atomic", "items": typeSchema(t.Elem(), within)}
	case reflect.Map:
		return schema{"type": "object", "additionalProperties": typeSchema(t.Elem(), within)}
	case reflect.Struct:
		for _, outer := range within {
			if outer == t {
				return object(nil)
			}
		}
		properties := map[string]any{}
		addFields(properties, t, append(within[:len(within):len(within)], t))
		return object(properties)
	}
	panic("no schema for the Go type " + t.String())
}

// addFields adds the JSON fields of the struct t; those of inlined structs are its own.
func addFields(properties map[string]any, t reflect.Type, within []reflect.Type) {
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "" && (field.Anonymous || strings.Contains(options, "inline")):
			inlined := field.Type
			if inlined.Kind() == reflect.Pointer {
				inlined = inlined.Elem()
			}
			addFields(properties, inlined, within)
		case name != "" && name != "-" && field.IsExported():
			properties[name] = typeSchema(field.Type, within)
		}
	}
}

// addTypes adds to node, a declaration of ours, what it does not declare of types. What it declares stays as it is.
func addTypes(node, types schema) schema {
	for key, value := range types {
		declared, has := node[key]
		ours, isSchema := declared.(map[string]any)
		theirs, _ := value.(map[string]any)
		switch {
		case key == "properties" && has:
			for name, property := range theirs {
				child, _ := property.(map[string]any)
				if own, declares := ours[name].(map[string]any); declares {
					addTypes(own, child)
				} else {
					ours[name] = child
				}
			}
		case (key == "items" || key == "additionalProperties") && has && isSchema:
			addTypes(ours, theirs)
		case key == "nullable":
			// Rules read what is declared here, and null is no value for them.
		case !has:
			node[key] = value
		}
	}
	return node
}
