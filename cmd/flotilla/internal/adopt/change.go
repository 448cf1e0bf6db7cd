package adopt

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/delivery"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/member-agent/apply"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
	"github.com/flotilla-dev/flotilla/member-agent/ownership"
)

// change is what adoption would change in one member.
type change struct {
	// Replicas that run there, 0 for a kind that has none: each member has the whole object.
	Replicas int64
	// Restarts reports whether pods would restart.
	Restarts bool
	// Fields that would change, as paths, sorted; limits of the rollout are left out.
	Fields []string
}

func (c *change) text(member string, key wire.Key) string {
	text := fmt.Sprintf("%s in %s: %s\n", key.Sentence(), member, c.pods(key.GroupKind()))
	for _, field := range c.Fields {
		text += "  would change: " + field + "\n"
	}
	return text
}

// pods says what becomes of the pods. The number of those of an object that each member has whole is not known here.
func (c *change) pods(kind schema.GroupKind) string {
	switch {
	case whole(kind) && c.Restarts:
		return "its pods would restart"
	case whole(kind):
		return "no pods would restart"
	case c.Restarts:
		return fmt.Sprintf("%d replicas, %d pods would restart", c.Replicas, c.Replicas)
	}
	return fmt.Sprintf("%d replicas, 0 pods would restart", c.Replicas)
}

// whole reports whether each member gets objects of the kind whole, without replicas that are divided.
func whole(kind schema.GroupKind) bool { return kinds.Workloads()[kind].Mode == kinds.PerMember }

// forecast asks the member's API server what the object would become there, in a dry run.
func forecast(ctx context.Context, m *member, object *unstructured.Unstructured) (*change, error) {
	manifest, err := manifestFor(m, object)
	if err != nil {
		return nil, err
	}
	next := manifest.DeepCopy() // the server's answer is written into it
	if m.native != nil {
		if err := m.client.Create(ctx, next, client.FieldOwner(apply.FieldManager), client.DryRunAll); err != nil {
			return nil, fmt.Errorf("try the object in %s: %w", m.name, err)
		}
		return compare(m.live, next)
	}
	patch, err := ownership.Replace(m.live, manifest, ownership.Previous{})
	if err != nil {
		return nil, err
	}
	err = m.client.Patch(ctx, next, client.RawPatch(types.JSONPatchType, patch),
		client.FieldOwner(apply.FieldManager), client.DryRunAll)
	if err != nil {
		return nil, fmt.Errorf("try the object in %s: %w", m.name, err)
	}
	return compare(m.live, next)
}

// manifestFor is what the hub would deliver to the member, with the numbers that run there.
func manifestFor(m *member, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	typed, err := typedOf(object)
	if err != nil {
		return nil, err
	}
	kind := kinds.Workloads()[object.GroupVersionKind().GroupKind()]
	data, err := delivery.Render(kind, typed, cellsOf(m), nil)
	if err != nil {
		return nil, err
	}
	manifest := &unstructured.Unstructured{}
	if err := json.Unmarshal(data, &manifest.Object); err != nil {
		return nil, fmt.Errorf("read the manifest for %s: %w", m.name, err)
	}
	return manifest, nil
}

func typedOf(object *unstructured.Unstructured) (client.Object, error) {
	typed := kinds.Workloads()[object.GroupVersionKind().GroupKind()].New()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed); err != nil {
		return nil, fmt.Errorf("read %s %s/%s: %w", object.GetKind(), object.GetNamespace(), object.GetName(), err)
	}
	return typed, nil
}

// cellsOf are the cells that the member would have: what runs there, and all permission.
func cellsOf(m *member) []topology.Cell {
	cell := func(subset string, n int64) topology.Cell {
		return topology.Cell{
			Cluster: m.name, Subset: subset, Replicas: int32(n),
			Granted: topology.Budget{Updated: int32(n), Unavailable: 1},
		}
	}
	if whole(m.live.GroupVersionKind().GroupKind()) {
		return []topology.Cell{cell("", 1)} // it runs there
	}
	if m.live.GetKind() != apps.UnitedDeploymentKind.Kind {
		return []topology.Cell{cell("", replicasOf(m.live))}
	}
	var cells []topology.Cell
	// A status that cannot be read has none.
	list, _, _ := unstructured.NestedSlice(m.live.Object, "status", "subsetStatuses")
	for _, s := range list {
		if status, ok := s.(map[string]any); ok {
			name, _, _ := unstructured.NestedString(status, "name")
			desired, _, _ := unstructured.NestedInt64(status, "desiredReplicas")
			cells = append(cells, cell(name, desired))
		}
	}
	return cells
}

// replicasOf returns how many replicas an object asks for, 0 where its kind has none.
func replicasOf(object *unstructured.Unstructured) int64 {
	if whole(object.GroupVersionKind().GroupKind()) {
		return 0
	}
	replicas, found, err := unstructured.NestedInt64(object.Object, "spec", "replicas")
	if !found || err != nil {
		return 1 // the default of all kinds that have them
	}
	return replicas
}

// compare finds what differs between what stands and what would stand. It is pure.
func compare(live, next *unstructured.Unstructured) (*change, error) {
	c := &change{Replicas: replicasOf(live)}
	same, err := sameTemplates(live, next)
	if err != nil {
		return nil, err
	}
	c.Restarts = !same && (c.Replicas > 0 || whole(live.GroupVersionKind().GroupKind()))
	fields := map[string]bool{}
	differ("spec", live.Object["spec"], next.Object["spec"], fields)
	for _, path := range [][]string{{"metadata", "labels"}, {"metadata", "annotations"}} {
		before, _, _ := unstructured.NestedMap(live.Object, path...)
		after, _, _ := unstructured.NestedMap(next.Object, path...)
		differ(strings.Join(path, "."), any(before), any(after), fields)
	}
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		if !strings.Contains(field, "pdateStrategy") && !strings.Contains(field, topology.GroupVersion.Group) {
			c.Fields = append(c.Fields, field)
		}
	}
	return c, nil
}

// templates are where the kinds keep what pods are made from.
func templates() [][]string {
	return [][]string{
		{"spec", "template"},
		{"spec", "template", "cloneSetTemplate", "spec", "template"},
		{"spec", "template", "deploymentTemplate", "spec", "template"},
		{"spec", "template", "statefulSetTemplate", "spec", "template"},
		{"spec", "template", "advancedStatefulSetTemplate", "spec", "template"},
	}
}

// sameTemplates compares pod templates by meaning, as the member's controller does.
func sameTemplates(live, next *unstructured.Unstructured) (bool, error) {
	paths := templates()
	if live.GetKind() == apps.UnitedDeploymentKind.Kind {
		paths = paths[1:]
	} else {
		paths = paths[:1]
	}
	for _, path := range paths {
		before, had, _ := unstructured.NestedMap(live.Object, path...)
		after, has, _ := unstructured.NestedMap(next.Object, path...)
		if had != has {
			return false, nil
		}
		if !had {
			continue
		}
		a, err := canonical(before)
		if err != nil {
			return false, err
		}
		b, err := canonical(after)
		if err != nil || a != b {
			return false, err
		}
	}
	return true, nil
}

func canonical(template map[string]any) (string, error) {
	data, err := json.Marshal(template)
	if err != nil {
		return "", fmt.Errorf("encode a pod template: %w", err)
	}
	var typed corev1.PodTemplateSpec
	if err := json.Unmarshal(data, &typed); err != nil {
		return "", fmt.Errorf("read a pod template: %w", err)
	}
	text, err := history.Canonical(typed)
	if err != nil {
		return "", fmt.Errorf("compare a pod template: %w", err)
	}
	return string(text), nil
}

// empty tells whether a value says nothing: clients write {} for objects that nobody set.
func empty(v any) bool {
	object, ok := v.(map[string]any)
	return v == nil || ok && len(object) == 0
}

// differ collects the paths at which two values differ.
func differ(path string, a, b any, out map[string]bool) {
	if reflect.DeepEqual(a, b) || empty(a) && empty(b) {
		return
	}
	x, xOK := a.(map[string]any)
	y, yOK := b.(map[string]any)
	if xOK && yOK {
		keys := map[string]bool{}
		for key := range x {
			keys[key] = true
		}
		for key := range y {
			keys[key] = true
		}
		for key := range keys {
			differ(path+"."+key, x[key], y[key], out)
		}
		return
	}
	l, lOK := a.([]any)
	r, rOK := b.([]any)
	if lOK && rOK && len(l) == len(r) {
		for i := range l {
			differ(path+"["+strconv.Itoa(i)+"]", l[i], r[i], out)
		}
		return
	}
	out[path] = true
}
