package ownership

import (
	"encoding/json"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Manager returns who wrote the field at path last, by the object's managedFields: the field manager, with the
// subresource that it wrote through, such as "kube-controller-manager (scale)". Inside of lists it is who wrote the
// list last. except is left out: the agent itself. It is empty where nobody is known.
func Manager(object *unstructured.Unstructured, path []string, except string) string {
	var name string
	var deepest int
	var last time.Time
	for _, entry := range object.GetManagedFields() {
		if entry.FieldsV1 == nil || entry.Subresource == "status" || entry.Manager == except {
			continue
		}
		var fields map[string]any
		if json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		depth := depthOf(fields, path)
		at := time.Time{}
		if entry.Time != nil {
			at = entry.Time.Time
		}
		if depth == 0 || depth < deepest || depth == deepest && at.Before(last) {
			continue
		}
		name, deepest, last = entry.Manager, depth, at
		if entry.Subresource != "" {
			name += " (" + entry.Subresource + ")"
		}
	}
	return name
}

// depthOf returns how many parts of the path the fields have, up to the first list.
func depthOf(fields map[string]any, path []string) int {
	for depth, part := range path {
		inner, ok := fields["f:"+part].(map[string]any)
		if strings.HasPrefix(part, "[") || !ok {
			return depth
		}
		fields = inner
	}
	return len(path)
}
