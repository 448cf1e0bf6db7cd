package report

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podname"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
	"github.com/flotilla-dev/flotilla/topology/handover"
)

// addPods adds to a report what the Work asks about pods, and returns how long until there may be more to report, 0
// where time alone changes nothing. last is the report before, nil for none.
func (r *Reconciler) addPods(
	ctx context.Context, w *work.Work, live *unstructured.Unstructured, last, next *work.Report,
) (again time.Duration, err error) {
	if next.Unschedulable, again, err = r.unschedulable(ctx, live, criticalOf(w), next.InUse); err != nil {
		return 0, err
	}
	if next.States, err = r.states(ctx, live); err != nil {
		return 0, err
	}
	restarts, err := r.toRestart(ctx, live, next)
	if err != nil {
		return 0, err
	}
	if restarts {
		again = podstate.Sooner(again, lookAtRestarts)
	}
	var left time.Duration
	if next.NotReady, left, err = r.reasons(ctx, live, next.HubID); err != nil {
		return 0, err
	}
	return podstate.Sooner(again, left), r.handOver(ctx, w, live, last, next)
}

// handOver adds to a report the values of pods that the Work asks for, and which pods were created with values that the
// object has for them. last is the report before, nil for none.
func (r *Reconciler) handOver(
	ctx context.Context, w *work.Work, live *unstructured.Unstructured, last, next *work.Report,
) error {
	kind, ok := r.Kinds.of(live)
	if !ok || kind.Ordinals == nil {
		return nil
	}
	asked := handover.Asked(w)
	given, err := handover.Given(live)
	if asked == nil && (err != nil || len(given) == 0) {
		return nil // the kind's controller reports what cannot be read
	}
	own, err := kind.Ordinals(live)
	if err != nil {
		return fmt.Errorf("read the ordinals of %s %s/%s: %w", live.GetKind(), live.GetNamespace(), live.GetName(), err)
	}
	pods, err := r.podsByOrdinal(ctx, kind, live)
	if err != nil {
		return err
	}
	for _, ordinal := range slices.Sorted(maps.Keys(given)) {
		if pod := pods[ordinal]; pod != nil && handover.Received(pod) {
			next.HandedOver = append(next.HandedOver, ordinal)
		}
	}
	if asked != nil {
		var before *topology.HandOverValues
		if last != nil && last.HubID == next.HubID {
			before = last.HandOver
		}
		next.HandOver = valuesOf(asked, own, pods, before)
	}
	return nil
}

// podsByOrdinal returns the active pods of an object.
func (r *Reconciler) podsByOrdinal(
	ctx context.Context, kind workload.Reporting, live *unstructured.Unstructured,
) (map[int32]*corev1.Pod, error) {
	selector, err := selectorOf(live)
	if err != nil {
		return nil, err
	}
	var list corev1.PodList
	if err := r.Pods.List(ctx, &list, client.InNamespace(live.GetNamespace()),
		client.MatchingLabelsSelector{Selector: selector}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list pods of %s %s/%s: %w", live.GetKind(), live.GetNamespace(), live.GetName(), err)
	}
	pods := map[int32]*corev1.Pod{}
	for i := range list.Items {
		pod := &list.Items[i]
		if ordinal, ok := podname.Ordinal(live.GetName(), pod.Name); ok && podstate.Active(pod) &&
			belongs(kind, live.GetUID(), pod) {
			pods[ordinal] = pod
		}
	}
	return pods, nil
}

// valuesOf returns the values of the pods of an object that is to have these ordinals. A pod that is not Ready may not
// have had the time to set its values, and one that is gone has none: then the last ones count for those that lack. It
// is pure.
func valuesOf(
	asked *topology.HandOver, own func(ordinal int32) bool, pods map[int32]*corev1.Pod, last *topology.HandOverValues,
) *topology.HandOverValues {
	values := map[int32]map[string]string{}
	for ordinal, pod := range pods {
		values[ordinal] = handover.Pick(asked, pod)
	}
	if last != nil {
		for _, before := range last.Pods {
			if pod := pods[before.Ordinal]; pod != nil && podstate.Ready(pod) {
				continue
			}
			if values[before.Ordinal] == nil {
				values[before.Ordinal] = map[string]string{}
			}
			for name, value := range before.Values {
				if _, has := values[before.Ordinal][name]; !has && handover.Names(asked, name) {
					values[before.Ordinal][name] = value
				}
			}
		}
	}
	var out []topology.OrdinalValues
	for _, ordinal := range slices.Sorted(maps.Keys(values)) {
		if own(ordinal) {
			out = append(out, topology.OrdinalValues{Ordinal: ordinal, Values: values[ordinal]})
		}
	}
	return handover.Fit(out)
}

// valuesChanged lets through pods of which a report on values can differ.
func valuesChanged() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*corev1.Pod)
			after, same := e.ObjectNew.(*corev1.Pod)
			return ok && same && (podstate.Ready(before) != podstate.Ready(after) ||
				!maps.Equal(before.Labels, after.Labels) || !maps.Equal(before.Annotations, after.Annotations))
		},
		DeleteFunc:  func(event.DeleteEvent) bool { return false }, // its last values still count
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// askedAbout returns the Works that ask for values of a pod, or have some for it.
func (r *Reconciler) askedAbout(ctx context.Context, pod client.Object) []ctrl.Request {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return nil
	}
	hasOrdinals := false
	for kind, reporting := range r.Kinds {
		hasOrdinals = hasOrdinals || reporting.Ordinals != nil && workload.IsKind(owner, kind)
	}
	if !hasOrdinals {
		return nil
	}
	return slices.DeleteFunc(r.worksOf(ctx, pod), func(request ctrl.Request) bool {
		w, err := r.Hub.Work(ctx, request.NamespacedName)
		return err != nil || w == nil || handover.Asked(w) == nil && !handover.Received(pod)
	})
}
