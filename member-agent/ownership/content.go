package ownership

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// digestVersion changes when equal objects get other digests. A digest of another version says nothing.
const digestVersion = "1:"

var jobKind = schema.GroupKind{Group: batchv1.GroupName, Kind: "Job"}

// fieldsOf returns the top-level fields of an object that belong to an order, sorted. Controllers of the member add
// image pull secrets to each ServiceAccount: its fields belong to an order that has them.
func fieldsOf(desired *unstructured.Unstructured) []string {
	fields := map[string]bool{}
	for _, field := range orderedFields(desired) {
		fields[field] = true
	}
	switch desired.GroupVersionKind().GroupKind() {
	case schema.GroupKind{Kind: "ConfigMap"}:
		fields["data"], fields["binaryData"], fields["immutable"] = true, true, true
	case schema.GroupKind{Kind: "Secret"}:
		fields["data"], fields["immutable"] = true, true
	}
	return slices.Sorted(maps.Keys(fields))
}

// orderedFields returns the top-level fields of content that an order has.
func orderedFields(desired *unstructured.Unstructured) []string {
	var fields []string
	for field := range desired.Object {
		switch field {
		case "apiVersion", "kind", "metadata", "status":
		default:
			fields = append(fields, field)
		}
	}
	return fields
}

// Known reports whether all is known that a server, or another controller, assigns in objects of a kind, so that their
// content can be replaced.
func Known(kind schema.GroupKind) bool {
	switch kind.Group {
	case "apps", "apps.kruise.io", batchv1.GroupName:
		return true
	case "":
		return slices.Contains([]string{"ConfigMap", "Secret", "Service", "ServiceAccount"}, kind.Kind)
	}
	return false
}

// assignment is a field that a server, or another controller, decides where the order does not have it.
type assignment struct {
	// path of the field; * stands for each item of a list.
	path []string
	// keep: a write without the field would be refused, or change it. The API server itself keeps the others.
	keep bool
}

// assigned returns the assignments of a kind.
func assigned(kind schema.GroupKind) []assignment {
	// Without replicas in the order, an autoscaler in the member decides.
	all := []assignment{{path: []string{"spec", "replicas"}, keep: true}}
	switch kind {
	case schema.GroupKind{Kind: "Service"}:
		for _, field := range []string{"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "healthCheckNodePort"} {
			all = append(all, assignment{path: []string{"spec", field}})
		}
		all = append(all, assignment{path: []string{"spec", "ports", "*", "nodePort"}})
		all = append(all, assignment{path: []string{"spec", "loadBalancerClass"}, keep: true})
	case jobKind:
		all = append(all, assignment{path: []string{"spec", "selector"}, keep: true})
		all = append(all, assignment{path: []string{"spec", "suspend"}, keep: true})
		for _, label := range []string{batchv1.ControllerUidLabel, batchv1.JobNameLabel, "controller-uid", "job-name"} {
			all = append(all, assignment{path: []string{"spec", "template", "metadata", "labels", label}, keep: true})
		}
	}
	return all
}

// Content returns what of an object belongs to the order, without what a server assigned. The result shares nothing
// with the object.
func Content(object, desired *unstructured.Unstructured) map[string]any {
	content := map[string]any{}
	for _, field := range fieldsOf(desired) {
		if value, ok := object.Object[field]; ok {
			content[field] = runtime.DeepCopyJSONValue(value)
		}
	}
	for _, a := range assigned(desired.GroupVersionKind().GroupKind()) {
		drop(content, desired.Object, a.path)
	}
	return content
}

// drop removes the field at path from the value where the order does not have it.
func drop(value, ordered any, path []string) {
	if path[0] == "*" {
		items, _ := value.([]any)
		orderedItems, _ := ordered.([]any)
		for i := range items {
			var item any
			if i < len(orderedItems) {
				item = orderedItems[i]
			}
			drop(items[i], item, path[1:])
		}
		return
	}
	fields, ok := value.(map[string]any)
	if !ok {
		return
	}
	orderedFields, _ := ordered.(map[string]any)
	if len(path) > 1 {
		drop(fields[path[0]], orderedFields[path[0]], path[1:])
		return
	}
	if _, has := orderedFields[path[0]]; !has {
		delete(fields, path[0])
	}
}

// emptyByType reports whether clients written in Go send a field as {} that nobody set. Stored digests depend on it.
func emptyByType(field string) bool {
	switch field {
	case "metadata", "strategy", "resources", "scaleStrategy", "updateStrategy", "scheduleStrategy":
		return true
	}
	return false
}

// said removes, in place, what says nothing: nulls, and empty objects in the fields above. Elsewhere an empty object
// can have a meaning, as a label selector has.
func said(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, field := range v {
			if key == "patch" {
				continue // of a subset: a null in it removes something
			}
			field = said(field)
			fields, isObject := field.(map[string]any)
			if field == nil || isObject && len(fields) == 0 && emptyByType(key) {
				delete(v, key)
				continue
			}
			v[key] = field
		}
	case []any:
		for i := range v {
			v[i] = said(v[i])
		}
	}
	return value
}

// Digest returns a fingerprint of what of an object belongs to the order. object is as an API server gives it, desired
// what was ordered. It errs only for an object that cannot be encoded.
func Digest(object, desired *unstructured.Unstructured) (string, error) {
	data, err := json.Marshal(said(Content(object, desired))) // keys are sorted
	if err != nil {
		return "", fmt.Errorf("encode %s %s/%s: %w", object.GetKind(), object.GetNamespace(), object.GetName(), err)
	}
	sum := sha256.Sum256(data)
	return digestVersion + hex.EncodeToString(sum[:16]), nil
}
