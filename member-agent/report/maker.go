package report

import (
	"context"
	"encoding/json"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/spread"
)

// maker is what is known of an owner of pods. The zero value knows nothing.
type maker struct {
	// update is the name of the revision that a CloneSet brings its pods to, empty where that is not known.
	update string
	// atOnce is how many pods without a node keep the owner from making more, 0 where none do.
	atOnce int32
	// zones is how many pods a hub gave each zone, nil where it gave none.
	zones map[string]int32
	// spread is the member's part of a WorkloadSpread of a hub, nil where it gave none; subsets is how many pods it gave each of its
	// subsets.
	spread  *apps.WorkloadSpread
	subsets map[string]int32
}

// part is where in the member a pod was made for: a zone, or a subset of a WorkloadSpread of the hub; "" for none.
func (m *maker) part(pod *corev1.Pod) string {
	if m.spread == nil {
		return pod.Annotations[topology.AnnotationZone]
	}
	subset, _ := spread.Assigned(pod, m.spread)
	return subset
}

// numbers is how many pods each part is to have, nil where that is not known.
func (m *maker) numbers() map[string]int32 {
	if m.spread == nil {
		return m.zones
	}
	return m.subsets
}

// at is the place that is told of a part of a subset of a UnitedDeployment, "" for another kind.
func (m *maker) at(subset, part string) at {
	if m.spread == nil {
		return at{subset, part}
	}
	return at{subset: part}
}

// makerOf reads the owner of some of a member object's pods. What cannot be read is not known.
func (r *Reconciler) makerOf(ctx context.Context, live *unstructured.Unstructured, owner *metav1.OwnerReference) maker {
	name := types.NamespacedName{Namespace: live.GetNamespace(), Name: owner.Name}
	switch owner.Kind {
	case apps.CloneSetKind.Kind:
		set := &apps.CloneSet{}
		if owner.UID == live.GetUID() {
			if runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, set) != nil {
				return maker{}
			}
		} else if r.Pods.Get(ctx, name, set) != nil {
			return maker{}
		}
		return makerOfCloneSet(set)
	case "StatefulSet":
		set := &appsv1.StatefulSet{}
		if r.Pods.Get(ctx, name, set) == nil && set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement {
			return maker{atOnce: 1}
		}
	}
	return maker{}
}

func makerOfCloneSet(set *apps.CloneSet) maker {
	m := maker{update: set.Status.UpdateRevision}
	replicas := int32(1) // the default of the kind
	if set.Spec.Replicas != nil {
		replicas = *set.Spec.Replicas
	}
	if limit := set.Spec.ScaleStrategy.MaxUnavailable; limit != nil {
		if limits, err := budget.Resolve(budget.Strategy{ScaleMaxUnavailable: limit}, replicas); err == nil {
			m.atOnce = limits.ScaleMaxUnavailable
		}
	}
	if text := set.Annotations[topology.AnnotationZones]; text != "" && json.Unmarshal([]byte(text), &m.zones) != nil {
		m.zones = nil
	}
	if ws, err := spread.OfHub(set); err == nil && ws != nil { // else its controller does not go by it
		m.spread, m.subsets = ws, map[string]int32{}
		for i := range ws.Spec.Subsets {
			if limit := ws.Spec.Subsets[i].MaxReplicas; limit != nil { // the hub gives a number to each
				m.subsets[ws.Spec.Subsets[i].Name] = limit.IntVal
			}
		}
	}
	return m
}

// unmade returns how many of the desired pods the owner of pods does not make while some of them, stuck by part, have no node.
func (m maker) unmade(pods []*corev1.Pod, desired int32, stuck map[string]int32) map[string]int32 {
	var waiting int32
	for _, n := range stuck {
		waiting += n
	}
	missing := desired - int32(len(pods))
	if m.atOnce == 0 || waiting < m.atOnce || missing <= 0 || gaps(pods) {
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

// gaps tells whether a StatefulSet lacks pods below its last one: those are made at once.
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
