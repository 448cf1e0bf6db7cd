package harness

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/judge"
	"github.com/flotilla-dev/flotilla/e2e/kinds"
	"github.com/flotilla-dev/flotilla/hub/store"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// Workload names a user's object.
type Workload struct {
	schema.GroupVersionKind
	Namespace, Name string
}

// AdvancedCronJob names an AdvancedCronJob.
func AdvancedCronJob(namespace, name string) Workload {
	return Workload{apps.AdvancedCronJobKind, namespace, name}
}

// CloneSet names a CloneSet.
func CloneSet(namespace, name string) Workload { return Workload{apps.CloneSetKind, namespace, name} }

// BroadcastJob names a BroadcastJob.
func BroadcastJob(namespace, name string) Workload {
	return Workload{apps.BroadcastJobKind, namespace, name}
}

// DaemonSet names an advanced DaemonSet.
func DaemonSet(namespace, name string) Workload { return Workload{apps.DaemonSetKind, namespace, name} }

// StatefulSet names an advanced StatefulSet.
func StatefulSet(namespace, name string) Workload {
	return Workload{apps.StatefulSetKind, namespace, name}
}

// UnitedDeployment names a UnitedDeployment.
func UnitedDeployment(namespace, name string) Workload {
	return Workload{apps.UnitedDeploymentKind, namespace, name}
}

// String returns "<kind>/<name>", as kubectl takes it.
func (w Workload) String() string { return strings.ToLower(w.Kind) + "/" + w.Name }

// Key is the workload's key on the hub.
func (w Workload) Key() wire.Key {
	return wire.Key{Group: w.Group, Kind: w.Kind, Namespace: w.Namespace, Name: w.Name}
}

// Sentence returns "<Kind> <namespace>/<name>", as messages name a workload.
func (w Workload) Sentence() string { return w.Key().Sentence() }

// Get returns the object of the cluster.
func (c *Cluster) Get(ctx context.Context, w Workload) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(w.GroupVersionKind)
	if err := c.Client.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: w.Name}, object); err != nil {
		return nil, fmt.Errorf("get %s from %s: %w", w.Sentence(), c.Name, err)
	}
	return object, nil
}

// Placement returns the hub's decision for the workload, nil if there is none.
func (h *Harness) Placement(ctx context.Context, w Workload) (*topology.WorkloadPlacement, error) {
	p, _, err := store.FindPlacement(ctx, h.Hub.Client, w.Key())
	if err != nil {
		return nil, fmt.Errorf("get placement of %s: %w", w.Sentence(), err)
	}
	return p, nil
}

// Works returns the names of the Works of a workload, as "<member namespace>/<name>", sorted.
func (h *Harness) Works(ctx context.Context, w Workload) ([]string, error) {
	list := &work.WorkList{}
	if err := h.Hub.Client.List(ctx, list); err != nil {
		return nil, fmt.Errorf("list Works: %w", err)
	}
	var names []string
	for i := range list.Items {
		if list.Items[i].Annotations[topology.AnnotationWorkload] == w.Key().String() {
			names = append(names, list.Items[i].Namespace+"/"+list.Items[i].Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// Conditions returns status.conditions of any object.
func Conditions(object *unstructured.Unstructured) ([]metav1.Condition, error) {
	raw, _, err := unstructured.NestedSlice(object.Object, "status", "conditions")
	if err != nil {
		return nil, err
	}
	var list []metav1.Condition
	for _, r := range raw {
		fields, ok := r.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("condition %v is no object", r)
		}
		var c metav1.Condition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &c); err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, nil
}

// sums are the counters of a status, or of pods.
type sums struct {
	Replicas, Ready, Updated, UpdatedReady int64
}

func (s *sums) add(pod judge.PodView, image string) {
	s.Replicas++
	if pod.Ready {
		s.Ready++
	}
	if pod.Image == image {
		s.Updated++
		if pod.Ready {
			s.UpdatedReady++
		}
	}
}

// sumsOf reads the counters of a status; updated is the field that counts updated pods.
func sumsOf(status map[string]any) sums {
	number := func(field string) int64 {
		n, _, _ := unstructured.NestedInt64(status, field)
		return n
	}
	return sums{number("replicas"), number("readyReplicas"), number("updatedReplicas"), number("updatedReadyReplicas")}
}

// templateImage is the first image of a workload's pod template.
func templateImage(object *unstructured.Unstructured) (string, error) {
	kind, known := kinds.Of(object.GroupVersionKind().GroupKind())
	for _, path := range kind.Specs {
		path = append(append([]string{"spec"}, path...), "template", "spec", "containers")
		containers, found, err := unstructured.NestedSlice(object.Object, path...)
		if err != nil || !found || len(containers) == 0 {
			continue
		}
		container, _ := containers[0].(map[string]any)
		image, _, err := unstructured.NestedString(container, "image")
		return image, err
	}
	return "", fmt.Errorf("%s %s has no pod template, or its kind is not in package kinds (%t)", object.GetKind(),
		object.GetName(), known)
}

// settled says in what a workload is not at rest with this number of replicas, "" if it is: Ready for its generation,
// and every counter of its status the sum of its members' pods.
func (h *Harness) settled(ctx context.Context, c *Cluster, w Workload, replicas int) (string, error) {
	object, err := c.Get(ctx, w)
	if err != nil {
		return "", err
	}
	status, _, _ := unstructured.NestedMap(object.Object, "status")
	if observed, _, _ := unstructured.NestedInt64(status, "observedGeneration"); observed != object.GetGeneration() {
		return fmt.Sprintf("observedGeneration %d, generation %d", observed, object.GetGeneration()), nil
	}
	conditions, err := Conditions(object)
	if err != nil {
		return "", err
	}
	for _, wanted := range []struct{ kind, status string }{{apps.ConditionReady, "True"},
		{apps.ConditionReconciling, "False"}, {apps.ConditionStalled, "False"}} {
		i := slices.IndexFunc(conditions, func(have metav1.Condition) bool { return have.Type == wanted.kind })
		if i < 0 || string(conditions[i].Status) != wanted.status {
			return fmt.Sprintf("%s is not %s: %+v", wanted.kind, wanted.status, conditions), nil
		}
	}
	return h.sumsDiffer(object, status, w, replicas)
}

// sumsDiffer compares a status with the pods; the pods of a workload are those of its namespace whose name begins with
// the workload's: suites give each workload a name that no other of the namespace begins with.
func (h *Harness) sumsDiffer(object *unstructured.Unstructured, status map[string]any, w Workload,
	replicas int) (string, error) {
	image, err := templateImage(object)
	if err != nil {
		return "", err
	}
	var all sums
	subsets := map[string]sums{}
	for _, pod := range h.PodsOf(w) {
		all.add(pod, image)
		one := subsets[pod.Subset]
		one.add(pod, image)
		subsets[pod.Subset] = one
	}
	if all.Replicas != int64(replicas) {
		return fmt.Sprintf("%d pods, want %d", all.Replicas, replicas), nil
	}
	if have := sumsOf(status); have != all {
		return fmt.Sprintf("status says %+v, the pods say %+v", have, all), nil
	}
	if _, has := status["availableReplicas"]; has {
		if n, _, _ := unstructured.NestedInt64(status, "availableReplicas"); n != all.Ready {
			return fmt.Sprintf("status says %d are available, %d pods are ready", n, all.Ready), nil
		}
	}
	list, _, err := unstructured.NestedSlice(status, "subsetStatuses")
	for _, entry := range list {
		fields, _ := entry.(map[string]any)
		name, _, _ := unstructured.NestedString(fields, "name")
		if have := sumsOf(fields); have != subsets[name] {
			return fmt.Sprintf("status of subset %s says %+v, the pods say %+v", name, have, subsets[name]), nil
		}
		delete(subsets, name)
	}
	if kind, _ := kinds.Of(w.GroupKind()); kind.Subsets != nil && len(subsets) > 0 {
		return fmt.Sprintf("pods of subsets that the status does not name: %v", slices.Sorted(maps.Keys(subsets))), nil
	}
	return "", err
}

// PodsOf returns the pods of a workload in all members.
func (h *Harness) PodsOf(w Workload) []judge.PodView {
	return slices.DeleteFunc(h.Pods.Pods(w.Namespace),
		func(p judge.PodView) bool { return !strings.HasPrefix(p.Name, w.Name+"-") })
}

// Count counts pods by what key returns of each.
func Count(pods []judge.PodView, key func(judge.PodView) string) map[string]int {
	counts := map[string]int{}
	for _, pod := range pods {
		counts[key(pod)]++
	}
	return counts
}

// ByCluster returns the cluster of the pod. It is a key for Count, as ByZone and BySubset are.
func ByCluster(p judge.PodView) string { return p.Cluster }

// ByZone returns the zone of the pod's node.
func ByZone(p judge.PodView) string { return p.Zone }

// BySubset returns the subset of the pod.
func BySubset(p judge.PodView) string { return p.Subset }

// federatedNamespace is a namespace whose workloads are the hub's.
func federatedNamespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: name + "-",
		Labels: map[string]string{topology.LabelFederated: "true"}}}
}
