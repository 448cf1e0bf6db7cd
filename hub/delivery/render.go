package delivery

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
)

// maxManifest is the largest manifest that is delivered, in bytes: a Work must stay well below the 1.5 MiB that etcd
// takes, with its status.
const maxManifest = 512 * 1024

// Render returns the manifest of a member: the user's object with the numbers of that member's cells, in the order of
// the placement. divider is the object by which the replicas were divided, nil for none. The same input gives the same
// bytes.
func Render(kind kinds.Kind, object client.Object, cells []topology.Cell, divider client.Object) ([]byte, error) {
	order := &kinds.Order{Cells: cells}
	if divider != nil {
		order.Divider = divider
	}
	return render(kind, object, order, "")
}

// render is [Render] of an order, with the template of the pods that must not be updated, empty for none.
func render(kind kinds.Kind, object client.Object, order *kinds.Order, before string) ([]byte, error) {
	manifest, err := kind.Render(object, order)
	if err != nil {
		return nil, err
	}
	annotations := manifest.Annotations
	if before != "" {
		annotations = withAll(annotations, map[string]string{topology.AnnotationTemplateBefore: before})
	}
	if order.Budget != nil {
		budget, err := json.Marshal(order.Budget)
		if err != nil {
			return nil, fmt.Errorf(
				"encode the budget of %s %s/%s: %w",
				kind.GVK.Kind,
				object.GetNamespace(),
				object.GetName(),
				err,
			)
		}
		annotations = withAll(annotations, map[string]string{topology.AnnotationBudget: string(budget)})
	}
	return encode(kind.GVK, object, annotations, manifest.Spec)
}

// encode makes the whole manifest: the user's labels and annotations without what is the hub's own, and the spec
// without what the Go types write for fields that nobody set.
func encode(kind schema.GroupVersionKind, o client.Object, annotations map[string]string, spec any) ([]byte, error) {
	tree, err := treeOf(spec)
	if err != nil {
		return nil, fmt.Errorf("encode the spec of %s %s/%s: %w", kind.Kind, o.GetNamespace(), o.GetName(), err)
	}
	meta := map[string]any{"name": o.GetName()}
	if namespace := o.GetNamespace(); namespace != "" {
		meta["namespace"] = namespace
	}
	if labels := carried(o.GetLabels(), nil); len(labels) > 0 {
		meta["labels"] = labels
	}
	if all := carried(o.GetAnnotations(), annotations); len(all) > 0 {
		meta["annotations"] = all
	}
	data, err := json.Marshal(
		map[string]any{"apiVersion": kind.GroupVersion().String(), "kind": kind.Kind, "metadata": meta, "spec": tree},
	)
	if err != nil {
		return nil, fmt.Errorf("encode %s %s/%s: %w", kind.Kind, o.GetNamespace(), o.GetName(), err)
	}
	return data, nil
}

// treeOf returns a value as JSON has it, pruned.
func treeOf(v any) (map[string]any, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	tree := map[string]any{}
	if err := json.Unmarshal(data, &tree); err != nil {
		return nil, err
	}
	prune(tree)
	return tree, nil
}

// maxStrategy is the largest update strategy that a Work tells, in bytes: an API server takes 256 KiB of all
// annotations of an object.
const maxStrategy = 16 * 1024

// strategyOf returns the update strategy of the user's object as JSON. It is empty if the kind has none, or if it is
// too large.
func strategyOf(kind kinds.Kind, object client.Object) (string, error) {
	if kind.UpdateStrategy == nil {
		return "", nil
	}
	tree, err := treeOf(kind.UpdateStrategy(object))
	if err != nil {
		return "", fmt.Errorf("encode the update strategy of %s/%s: %w", object.GetNamespace(), object.GetName(), err)
	}
	data, err := json.Marshal(tree)
	if err != nil || len(data) > maxStrategy {
		return "", err
	}
	return string(data), nil
}

// carried returns the user's labels or annotations that go to members, and what the hub adds.
func carried(users, added map[string]string) map[string]string {
	out := map[string]string{}
	for key, value := range users {
		if key != corev1.LastAppliedConfigAnnotation && !strings.HasPrefix(key, topology.GroupVersion.Group+"/") {
			out[key] = value
		}
	}
	maps.Copy(out, added)
	return out
}

// emptyByType reports whether the Go types write a field as {} that nobody set. An API server would drop or keep it,
// and either way it would have an owner. The agent's ownership.said has its own list, on which stored digests depend.
func emptyByType(field string) bool {
	switch field {
	case "metadata", "strategy", "status", "resources", "scaleStrategy", "updateStrategy", "scheduleStrategy",
		"nodeSelectorTerm", "volumeClaimUpdateStrategy":
		return true
	}
	return false
}

// emptiedByUsers reports whether a field outside of pod templates means the same empty as absent, and loses its last
// field one by one, as rollingUpdate does when a pause ends. Server-side apply of {} over a value makes it null, which
// an API server refuses for a custom resource; an absent field is removed.
func emptiedByUsers(field string) bool {
	switch field {
	case "rollingUpdate", "inPlaceUpdateStrategy", "priorityStrategy", "lifecycle", "preDelete", "inPlaceUpdate",
		"preNormal":
		return true
	}
	return false
}

// prune removes nulls, and empty objects in the fields above. A subset's patch stays as the user wrote it: a null in it
// removes something.
func prune(v any) any { return pruneWithin(v, false) }

// pruneWithin is prune of a part; pod: of a pod's spec, whose fields are the user's own.
func pruneWithin(v any, pod bool) any {
	switch t := v.(type) {
	case map[string]any:
		if _, containers := t["containers"]; containers {
			pod = true
		}
		for key, value := range t {
			if key == "patch" && value != nil {
				continue
			}
			value = pruneWithin(value, pod)
			object, isObject := value.(map[string]any)
			empty := isObject && len(object) == 0 && (emptyByType(key) || !pod && emptiedByUsers(key))
			if value == nil || empty {
				delete(t, key)
				continue
			}
			t[key] = value
		}
	case []any:
		for i := range t {
			t[i] = pruneWithin(t[i], pod)
		}
	}
	return v
}
