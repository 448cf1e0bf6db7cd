package kinds

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/e2e/judge"
)

// Kind is what the tests need of a kind of workloads.
type Kind struct {
	schema.GroupVersionKind
	NewList func() client.ObjectList
	// Specs are the paths in spec of what holds a pod template beside its update strategy; new objects use the first one.
	Specs [][]string
	// Spec returns what the spec of a new object with this label app has beside its replicas, its selector and Specs[0].
	Spec func(app string) map[string]any
	// Partition returns the change of spec that lets so many quarters of the pods keep the previous revision.
	Partition func(quarters int) map[string]any
	// MinReady returns the change of what is at Specs[0] that lets pods be ready for so many seconds before they are
	// available.
	MinReady func(seconds int) map[string]any
	// Surges reports whether the kind has maxSurge.
	Surges bool
	// Unique reports whether no two pods of an object have one name in all clusters.
	Unique bool
	// KeepsUpdated reports whether a partition that is raised brings no pod back to the previous revision.
	KeepsUpdated bool
	// Subsets returns the change of spec that gives the first subset a number of replicas, nil for none. The function is
	// nil for kinds without subsets.
	Subsets func(replicas any) map[string]any
	// Desired reads an object on the hub, nil for one whose limits the judge does not know.
	Desired func(client.Object) *judge.Desired
	// Cell reads an object in a member. It is nil for kinds whose pods are those of other cells.
	Cell func(object client.Object, gone bool) *judge.Cell
	// Controller is for kinds with Cell: it runs behind faults.
	Controller Controller
}

// Controller is what the tests need of the controller of a kind, to run it behind faults.
type Controller struct {
	// Definition is the name of the kind's definition.
	Definition string
	Setup      func(context.Context, ctrl.Manager) error
	// Loosen changes an object so that it permits twice the unavailable pods. A controller that reads it so is to be found
	// out.
	Loosen func(client.Object)
	// Strategies are those of the objects that users change.
	Strategies []Strategy
}

// Strategy is an update strategy.
type Strategy struct {
	Name string
	// Rolling are the fields of the rolling update, Partitions what a user sets its partition to, beside nothing.
	Rolling    map[string]any
	Partitions []any
}

// WithControllers returns the kinds whose controllers run behind faults.
func WithControllers() []Kind {
	return slices.DeleteFunc(All(), func(k Kind) bool { return k.Cell == nil })
}

// All returns the table.
func All() []Kind { return []Kind{CloneSet(), StatefulSet(), UnitedDeployment()} }

// Of returns the entry of a kind.
func Of(kind schema.GroupKind) (Kind, bool) {
	all := All()
	i := slices.IndexFunc(all, func(k Kind) bool { return k.GroupKind() == kind })
	if i < 0 {
		return Kind{}, false
	}
	return all[i], true
}

// Inner returns the change of spec that makes this change where the pod template of new objects is.
func (k Kind) Inner(change map[string]any) map[string]any {
	return nested(change, k.Specs[0])
}

// Rolling returns the change of spec that sets fields of the rolling update.
func (k Kind) Rolling(fields map[string]any) map[string]any {
	return k.Inner(map[string]any{"updateStrategy": map[string]any{"rollingUpdate": fields}})
}

// Object returns a new object of the kind, whose pods have the label app=<name>; inner are the parts of what is at
// Specs[0].
func (k Kind) Object(namespace, name string, replicas int,
	inner ...map[string]any) (*unstructured.Unstructured, error) {
	spec := map[string]any{"replicas": replicas, "selector": map[string]any{"matchLabels": map[string]any{"app": name}}}
	merge(spec, k.Spec(name))
	for _, part := range inner {
		merge(spec, k.Inner(part))
	}
	data, err := json.Marshal(map[string]any{
		"apiVersion": k.GroupVersion().String(), "kind": k.Kind,
		"metadata": map[string]any{"namespace": namespace, "name": name}, "spec": spec,
	})
	if err != nil {
		return nil, fmt.Errorf("write %s %s/%s: %w", k.Kind, namespace, name, err)
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(data); err != nil {
		return nil, fmt.Errorf("read %s %s/%s: %w", k.Kind, namespace, name, err)
	}
	return object, nil
}

// merge puts the fields of one tree into another, which has none of its leaves.
func merge(into, from map[string]any) {
	for field, value := range from {
		inner, isTree := value.(map[string]any)
		if have, ok := into[field].(map[string]any); ok && isTree {
			merge(have, inner)
		} else {
			into[field] = value
		}
	}
}

// nested puts a value under a path of fields.
func nested(value map[string]any, path []string) map[string]any {
	for _, field := range slices.Backward(path) {
		value = map[string]any{field: value}
	}
	return value
}
