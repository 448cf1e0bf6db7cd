package report

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/marks"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
)

// markedIndex is the cache index of active pods that probes marked. Most clusters have none, and then asking for them
// costs nothing.
const markedIndex = "report.marked"

const isMarked = "true"

func indexMarked(object client.Object) []string {
	pod, ok := object.(*corev1.Pod)
	if !ok || !podstate.Active(pod) {
		return nil
	}
	if record, err := marks.Of(pod); err != nil || len(record) == 0 {
		return nil
	}
	return []string{isMarked}
}

// states returns how many pods of a member object are in which state of their probes.
func (r *Reconciler) states(ctx context.Context, live *unstructured.Unstructured) ([]work.PodState, error) {
	kind, ok := r.Kinds.of(live)
	if !ok {
		return nil, nil
	}
	var list corev1.PodList
	if err := r.Pods.List(ctx, &list, client.InNamespace(live.GetNamespace()),
		client.MatchingFields{markedIndex: isMarked}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list pods of %s %s/%s: %w", live.GetKind(), live.GetNamespace(), live.GetName(), err)
	}
	if len(list.Items) == 0 {
		return nil, nil
	}
	selector, err := selectorOf(live)
	if err != nil {
		return nil, err
	}
	if kind.Maker == nil && selector.Empty() {
		return nil, nil // the kind does not select pods
	}
	counts := map[string]int32{}
	for i := range list.Items {
		pod := &list.Items[i]
		if !belongs(kind, live.GetUID(), pod) || kind.Maker == nil && !selector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		for _, state := range marks.States(pod) {
			counts[state]++
		}
	}
	return statesOf(counts), nil
}

// statesOf returns the counts in the order of their states. Where there are too many, those of the most pods are kept.
func statesOf(counts map[string]int32) []work.PodState {
	var out []work.PodState
	for _, state := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, work.PodState{State: state, Pods: counts[state]})
	}
	if len(out) > work.MostStates {
		slices.SortStableFunc(out, func(a, b work.PodState) int { return cmp.Compare(b.Pods, a.Pods) })
		out = out[:work.MostStates]
		slices.SortFunc(out, func(a, b work.PodState) int { return cmp.Compare(a.State, b.State) })
	}
	return out
}

// statesChanged lets through pods whose states of probes changed, and pods with such states that come or go.
func statesChanged() predicate.Predicate {
	marked := func(object client.Object) bool { return len(indexMarked(object)) > 0 }
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return marked(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := marked(e.ObjectOld), marked(e.ObjectNew)
			if !before || !after {
				return before != after
			}
			old, ok := e.ObjectOld.(*corev1.Pod)
			pod, same := e.ObjectNew.(*corev1.Pod)
			return ok && same && !slices.Equal(sortedStates(old), sortedStates(pod))
		},
		DeleteFunc:  func(e event.DeleteEvent) bool { return marked(e.Object) },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

func sortedStates(pod *corev1.Pod) []string {
	states := marks.States(pod)
	slices.Sort(states)
	return states
}
