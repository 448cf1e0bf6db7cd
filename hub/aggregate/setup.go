package aggregate

import (
	"context"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/meter"
	"github.com/flotilla-dev/flotilla/hub/placement"
	"github.com/flotilla-dev/flotilla/hub/store"
	"github.com/flotilla-dev/flotilla/hub/tracing"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// workers is how many workloads are summed at once: a sum is one write at most.
const workers = 8

// Setup adds the controller of this stage to the manager. rules is the table of the kinds that are placed.
func Setup(
	mgr ctrl.Manager,
	rules kinds.Table,
	clk clock.PassiveClock,
	hubID string,
	outcomes *placement.Outcomes,
	measures *meter.Meter,
	tracer *tracing.Tracer,
) error {
	r := NewReconciler(mgr.GetClient(), rules, clk, hubID, outcomes)
	r.meter, r.tracer = measures, tracer
	w := &watches{client: mgr.GetClient(), rules: rules}
	controllers := builder.TypedControllerManagedBy[wire.Key](mgr).Named("aggregate").
		WithOptions(controller.TypedOptions[wire.Key]{MaxConcurrentReconciles: workers}).
		WatchesRawSource(outcomes.Source(w.concerned)).
		Watches(&topology.WorkloadPlacement{}, handler.TypedEnqueueRequestsFromMapFunc(store.OfPlacement),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&work.Work{}, handler.TypedEnqueueRequestsFromMapFunc(w.workloadsOfWork),
			builder.WithPredicates(statusChanged(rules))).
		Watches(&topology.MemberCluster{}, handler.TypedEnqueueRequestsFromMapFunc(w.workloadsOf),
			builder.WithPredicates(readyChanged()))
	for kind, rule := range rules.Workloads() {
		toKey := func(_ context.Context, o client.Object) []wire.Key {
			return []wire.Key{wire.KeyFor(kind, o)}
		}
		controllers = controllers.Watches(
			rule.New(),
			handler.TypedEnqueueRequestsFromMapFunc(toKey),
			builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, statusEdited(rule, r.written.Is))),
		)
	}
	if err := controllers.Complete(r); err != nil {
		return fmt.Errorf("set up controller aggregate: %w", err)
	}
	return nil
}

type watches struct {
	client client.Client
	rules  kinds.Table
}

// concerned returns a key, and where it is that of a whole object those of the workloads that need the object.
func (w *watches) concerned(ctx context.Context, key wire.Key) []wire.Key {
	keys := []wire.Key{key}
	if w.rules[key.GroupKind()].Mode != kinds.Copy {
		return keys
	}
	dependents := &topology.WorkloadPlacementList{}
	if err := w.client.List(ctx, dependents, client.MatchingFields{store.IndexPlacementDependency: key.String()},
		client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "list placements with a dependency", "dependency", key.String())
	}
	for i := range dependents.Items {
		keys = append(keys, wire.KeyOfPlacement(&dependents.Items[i]))
	}
	return keys
}

func (w *watches) workloadsOfWork(ctx context.Context, o client.Object) []wire.Key {
	if key, ok := wire.KeyOf(o); ok {
		return w.concerned(ctx, key)
	}
	return nil
}

// workloadsOf returns the workloads that have Works for a member.
func (w *watches) workloadsOf(ctx context.Context, o client.Object) []wire.Key {
	works := &work.WorkList{}
	if err := w.client.List(ctx, works, client.InNamespace(wire.MemberNamespace(o.GetName())),
		client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "list Works", "member", o.GetName())
		return nil
	}
	var keys []wire.Key
	for i := range works.Items {
		if key, ok := wire.KeyOf(&works.Items[i]); ok && w.rules[key.GroupKind()].Mode != kinds.Copy {
			keys = append(keys, key)
		}
	}
	return keys
}

// statusChanged lets through what agents report: the numbers, whether the object stands, and what stands in its way.
// Works that are created or patched by the hub say nothing new.
func statusChanged(rules kinds.Table) predicate.Predicate {
	causes := func(w *work.Work) memberCauses {
		key, _ := wire.KeyOf(w)
		return causesOf(rules, rules[key.GroupKind()], w)
	}
	reportOf := func(o client.Object) *work.Report {
		report, _ := rules.ReportOf(o.(*work.Work))
		return report
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return reportOf(e.Object) != nil },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld.(*work.Work), e.ObjectNew.(*work.Work)
			return !equality.Semantic.DeepEqual(reportOf(before), reportOf(after)) ||
				!equality.Semantic.DeepEqual(before.Status.Conditions, after.Status.Conditions) ||
				!reflect.DeepEqual(causes(before), causes(after))
		},
	}
}

// statusEdited lets through a status of a user's object that this process did not write. ours tells of a version
// whether it did; where an event overtakes the answer to its own write, one sum is made for nothing.
func statusEdited(kind kinds.Kind, ours func(wire.Key, string) bool) predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			key := wire.KeyFor(kind.GVK.GroupKind(), e.ObjectNew)
			return !ours(key, e.ObjectNew.GetResourceVersion()) &&
				!equality.Semantic.DeepEqual(kind.StatusOf(e.ObjectOld), kind.StatusOf(e.ObjectNew))
		},
	}
}

func readyChanged() predicate.Predicate {
	ready := func(o client.Object) bool {
		return meta.IsStatusConditionTrue(o.(*topology.MemberCluster).Status.Conditions, topology.MemberReady)
	}
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool { return ready(e.ObjectOld) != ready(e.ObjectNew) },
	}
}
