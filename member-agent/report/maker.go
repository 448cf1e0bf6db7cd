package report

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/spread"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// maker is what is known of an owner of pods.
type maker struct{ workload.Maker }

// part is where in the member a pod was made for: a zone, or a subset of a WorkloadSpread of the hub; "" for none.
func (m *maker) part(pod *corev1.Pod) string {
	if m.Spread == nil {
		return pod.Annotations[topology.AnnotationZone]
	}
	subset, _ := spread.Assigned(pod, m.Spread)
	return subset
}

// numbers is how many pods each part is to have, nil if that is not known.
func (m *maker) numbers() map[string]int32 {
	if m.Spread == nil {
		return m.Zones
	}
	return m.Subsets
}

// at is the place that is reported for a part of a subset, "" for a workload without subsets.
func (m *maker) at(subset, part string) at {
	if m.Spread == nil {
		return at{subset, part}
	}
	return at{subset: part}
}

// makerOf reads the owner of some of a member object's pods. What cannot be read is not known.
func (r *Reconciler) makerOf(ctx context.Context, live *unstructured.Unstructured, owner *metav1.OwnerReference) maker {
	name := types.NamespacedName{Namespace: live.GetNamespace(), Name: owner.Name}
	if owner.Kind == "StatefulSet" && workload.IsKind(owner, schema.GroupKind{Group: appsv1.GroupName, Kind: owner.Kind}) {
		set := &appsv1.StatefulSet{}
		if r.Pods.Get(ctx, name, set) == nil && set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement {
			return maker{workload.Maker{AtOnce: 1}}
		}
	}
	for group, kind := range r.Kinds {
		if kind.Maker == nil || !workload.IsKind(owner, group) {
			continue
		}
		object := kind.New()
		var err error
		if owner.UID == live.GetUID() {
			_, err = workload.Decode(live, object)
		} else {
			err = r.Pods.Get(ctx, name, object)
		}
		if err == nil {
			return maker{kind.Maker(object)}
		}
	}
	return maker{}
}

// unmade returns how many of the desired pods the owner of pods does not make while some of them, stuck by part, have
// no node.
func (m maker) unmade(pods []*corev1.Pod, desired int32, stuck map[string]int32) map[string]int32 {
	var waiting int32
	for _, n := range stuck {
		waiting += n
	}
	missing := desired - int32(len(pods))
	if m.AtOnce == 0 || waiting < m.AtOnce || missing <= 0 || gaps(pods) {
		return nil
	}
	numbers := m.numbers()
	if numbers == nil {
		return map[string]int32{"": missing}
	}
	active := map[string]int32{}
	for _, pod := range pods {
		active[m.part(pod)]++
	}
	out := map[string]int32{}
	for part := range stuck { // those of other parts are made when these are gone
		if n := min(numbers[part]-active[part], missing); n > 0 {
			out[part] = n
		}
	}
	return out
}

// gaps reports whether a StatefulSet lacks pods below its last one: those are made at once.
func gaps(pods []*corev1.Pod) bool {
	if metav1.GetControllerOfNoCopy(pods[0]).Kind != "StatefulSet" {
		return false
	}
	first, last := ordinal(pods[0]), ordinal(pods[0])
	for _, pod := range pods {
		first, last = min(first, ordinal(pod)), max(last, ordinal(pod))
	}
	return last-first+1 != len(pods)
}
