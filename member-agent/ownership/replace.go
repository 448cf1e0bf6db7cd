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

// Keys are names of labels and annotations.
type Keys struct{ Labels, Annotations []string }

// KeysOf returns the keys of an object; none for nil.
func KeysOf(object *unstructured.Unstructured) Keys {
	if object == nil {
		return Keys{}
	}
	return Keys{
		Labels:      slices.Sorted(maps.Keys(object.GetLabels())),
		Annotations: slices.Sorted(maps.Keys(object.GetAnnotations())),
	}
}

// With returns the keys of both.
func (k Keys) With(o Keys) Keys {
	return Keys{Labels: union(k.Labels, o.Labels), Annotations: union(k.Annotations, o.Annotations)}
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

func remove(path string) operation { return operation{"op": "remove", "path": path} }

// Replace returns the JSON patch that makes what belongs to the order equal to it, in one write. live is the object as it
// was seen last; the patch fails if another object has its name by now. It needs no resourceVersion: what others change
// meanwhile in the content is replaced, and the rest is theirs. previous are the labels and annotations of the order before:
// those that the new one does not have are removed.
func Replace(live, desired *unstructured.Unstructured, previous Keys) ([]byte, error) {
	steps := []operation{{"op": "test", "path": "/metadata/uid", "value": live.GetUID()}}
	content := map[string]any{}
	for _, field := range fieldsOf(desired) {
		if value, ok := desired.Object[field]; ok {
			content[field] = runtime.DeepCopyJSONValue(value)
		} else if _, stands := live.Object[field]; stands {
			steps = append(steps, remove("/"+escape(field)))
		}
	}
	for _, a := range assigned(desired.GroupVersionKind().GroupKind()) {
		if a.keep {
			keep(content, live.Object, a.path)
		}
	}
	for _, field := range slices.Sorted(maps.Keys(content)) {
		steps = append(steps, add("/"+escape(field), content[field]))
	}
	steps = append(steps, entries("/metadata/labels", live.GetLabels(), desired.GetLabels(), previous.Labels)...)
	steps = append(steps, entries("/metadata/annotations", live.GetAnnotations(), desired.GetAnnotations(), previous.Annotations)...)
	patch, err := json.Marshal(steps)
	if err != nil {
		return nil, fmt.Errorf("encode the patch of %s %s/%s: %w", desired.GetKind(), desired.GetNamespace(), desired.GetName(), err)
	}
	return patch, nil
}

// keep gives the content the value at path of the live object, where it has none. The content has the top-level field.
func keep(content, live map[string]any, path []string) {
	value, found, err := unstructured.NestedFieldCopy(live, path...)
	if _, top := content[path[0]]; !top || !found || err != nil {
		return
	}
	if _, has, err := unstructured.NestedFieldNoCopy(content, path...); has || err != nil {
		return
	}
	// It errs only where the order has another type on the way, which the API server refuses.
	_ = unstructured.SetNestedField(content, value, path...)
}

// entries returns the steps that bring want into the map at path, and take out what the order before had and this one has not.
func entries(path string, have, want map[string]string, previous []string) []operation {
	if len(have) == 0 {
		if len(want) == 0 {
			return nil
		}
		return []operation{add(path, want)}
	}
	var steps []operation
	for _, key := range slices.Sorted(maps.Keys(want)) {
		steps = append(steps, add(path+"/"+escape(key), want[key]))
	}
	for _, key := range previous {
		_, ordered := want[key]
		_, stands := have[key]
		if !ordered && stands {
			steps = append(steps, remove(path+"/"+escape(key)))
		}
	}
	return steps
}

// escape escapes a key for the path of a JSON patch (RFC 6901).
func escape(key string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(key) }
