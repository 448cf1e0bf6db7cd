package ownership

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Previous is what is known of the orders before the present one. The zero value knows nothing.
type Previous struct {
	// Labels and Annotations are the keys that those orders had.
	Labels, Annotations []string
	// fields are the top-level fields of content that those orders had.
	fields []string
	// template is the pod template of a Job as JSON, as it was ordered last; empty for other kinds.
	template string
}

// PreviousOf returns what the next order has to know of an order that was carried out; the zero value for nil.
func PreviousOf(object *unstructured.Unstructured) Previous {
	if object == nil {
		return Previous{}
	}
	return Previous{
		Labels:      slices.Sorted(maps.Keys(object.GetLabels())),
		Annotations: slices.Sorted(maps.Keys(object.GetAnnotations())),
		fields:      slices.Sorted(slices.Values(orderedFields(object))),
		template:    jobTemplate(object),
	}
}

// With adds the keys and fields of an order that may have been carried out in part.
func (p Previous) With(o Previous) Previous {
	p.Labels, p.Annotations, p.fields = union(p.Labels, o.Labels), union(p.Annotations, o.Annotations),
		union(p.fields, o.fields)
	return p
}

// jobTemplate returns the pod template of a Job as JSON; empty for other kinds.
func jobTemplate(object *unstructured.Unstructured) string {
	if object.GroupVersionKind().GroupKind() != jobKind {
		return ""
	}
	template, found, err := unstructured.NestedFieldNoCopy(object.Object, "spec", "template")
	if !found || err != nil {
		return ""
	}
	data, err := json.Marshal(template) // keys are sorted
	if err != nil {
		return "" // what was decoded from JSON can be encoded
	}
	return string(data)
}

func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// operation is one step of a JSON patch.
type operation map[string]any

func add(path string, value any) operation {
	return operation{"op": "add", "path": path, "value": value} // replaces what the path has
}

func test(path string, value any) operation {
	return operation{"op": "test", "path": path, "value": value} // null also stands for an absent field
}

// erase removes what the path has, if it has anything: a step that removes an absent field fails.
func erase(path string) []operation {
	return []operation{add(path, ""), {"op": "remove", "path": path}}
}

// Replace returns the JSON patch that makes what belongs to the order equal to it, in one write. live is the object as
// it was seen last, which may be older than the object that the patch meets: what belongs to the order is then replaced
// or removed all the same. The patch fails if another object has the name by now, or if a value has changed that is
// kept from live. Repeat it from a fresh read then. previous is what the orders before had: labels, annotations and
// top-level fields that the new one does not have are removed.
func Replace(live, desired *unstructured.Unstructured, previous Previous) ([]byte, error) {
	steps := []operation{test("/metadata/uid", live.GetUID())}
	content := map[string]any{}
	var absent []string
	for _, field := range union(fieldsOf(desired), previous.fields) {
		if value, ok := desired.Object[field]; ok {
			content[field] = runtime.DeepCopyJSONValue(value)
		} else {
			absent = append(absent, field)
		}
	}
	if template := jobTemplate(desired); template != "" && template == previous.template {
		// It is immutable, and a webhook or a queue may have changed it when the Job was created or released. A template that
		// was ordered anew is not kept: the API server refuses it.
		unstructured.RemoveNestedField(content, "spec", "template")
		steps = append(steps, keep(content, live.Object, []string{"spec", "template"})...)
	}
	for _, a := range assigned(desired.GroupVersionKind().GroupKind()) {
		if a.keep {
			steps = append(steps, keep(content, live.Object, a.path)...)
		}
	}
	for _, field := range absent {
		steps = append(steps, erase("/"+escape(field))...)
	}
	for _, field := range slices.Sorted(maps.Keys(content)) {
		steps = append(steps, add("/"+escape(field), content[field]))
	}
	steps = append(steps, entries("/metadata/labels", live.GetLabels(), desired.GetLabels(), previous.Labels)...)
	steps = append(
		steps,
		entries("/metadata/annotations", live.GetAnnotations(), desired.GetAnnotations(), previous.Annotations)...)
	patch, err := json.Marshal(steps)
	if err != nil {
		return nil, fmt.Errorf(
			"encode the patch of %s %s/%s: %w",
			desired.GetKind(),
			desired.GetNamespace(),
			desired.GetName(),
			err,
		)
	}
	return patch, nil
}

// keep gives the content the value at path of the live object, where it has none, and returns the step that fails if
// the object has another value by now. The content has the top-level field.
func keep(content, live map[string]any, path []string) []operation {
	value, found, err := unstructured.NestedFieldCopy(live, path...)
	if _, top := content[path[0]]; !top || !found || err != nil {
		return nil
	}
	if _, has, err := unstructured.NestedFieldNoCopy(content, path...); has || err != nil {
		return nil
	}
	if unstructured.SetNestedField(content, value, path...) != nil {
		return nil // the order has another type on the way, which the API server refuses
	}
	var pointer strings.Builder
	for _, part := range path {
		pointer.WriteString("/" + escape(part))
	}
	return []operation{test(pointer.String(), value)}
}

// entries returns the steps that bring want into the map at path, and take out what the order before had and this one
// has not.
func entries(path string, have, want map[string]string, previous []string) []operation {
	if len(have) == 0 && len(want) == 0 {
		return nil
	}
	if len(have) == 0 {
		return []operation{test(path, nil), add(path, want)} // what another writer added meanwhile is not replaced
	}
	var steps []operation
	for _, key := range slices.Sorted(maps.Keys(want)) {
		steps = append(steps, add(path+"/"+escape(key), want[key]))
	}
	for _, key := range previous {
		if _, ordered := want[key]; !ordered {
			steps = append(steps, erase(path+"/"+escape(key))...)
		}
	}
	return steps
}

// escape escapes a key for the path of a JSON patch (RFC 6901).
func escape(key string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(key) }
