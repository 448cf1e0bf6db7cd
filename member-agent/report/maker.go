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
)

// maker is what is known of an owner of pods. The zero value knows nothing.
type maker struct {
	// update is the name of the revision that a CloneSet brings its pods to, empty where that is not known.
	update string
	// atOnce is how many pods without a node keep the owner from making more, 0 where none do.
	atOnce int32
	// zones is how many pods a hub gave each zone, nil where it gave none.
	zones map[string]int32
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
	return m
}

// unmade returns how many of the desired pods the owner of pods does not make while some of them, stuck by zone, have no node.
func (m maker) unmade(pods []*corev1.Pod, desired int32, stuck map[string]int32) map[string]int32 {
	var waiting int32
	for _, n := range stuck {
		waiting += n
	}
	missing := desired - int32(len(pods))
	if m.atOnce == 0 || waiting < m.atOnce || missing <= 0 || gaps(pods) {
		return nil
	}
	if m.zones == nil {
		return map[string]int32{"": missing}
	}
	active := map[string]int32{}
	for _, pod := range pods {
		active[pod.Annotations[topology.AnnotationZone]]++
	}
	out := map[string]int32{}
	for zone := range stuck { // those of other zones are made when these are gone
		if n := min(m.zones[zone]-active[zone], missing); n > 0 {
			out[zone] = n
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
