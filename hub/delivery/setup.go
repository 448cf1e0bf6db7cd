package delivery

import (
	"context"
	"fmt"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/placement"
	"github.com/flotilla-dev/flotilla/hub/store"
	"github.com/flotilla-dev/flotilla/hub/tracing"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// workers is how many workloads are delivered at once; each writes its Works in parallel too.
const workers = 8

// Setup adds the controllers of this stage to the manager. rules is the table of the kinds that are placed; marks:
// agents of Karmada execute the Works.
func Setup(
	mgr ctrl.Manager,
	rules kinds.Table,
	clk clock.PassiveClock,
	hubID string,
	outcomes *placement.Outcomes,
	watching *store.Watching,
	tracer *tracing.Tracer,
	marks bool,
) error {
	ours := predicate.Or(
		predicate.GenerationChangedPredicate{},
		predicate.LabelChangedPredicate{},
		predicate.AnnotationChangedPredicate{},
		store.DeletionBegan(),
	)
	r := NewReconciler(mgr.GetClient(), mgr.GetAPIReader(), rules.Workloads(), clk, hubID, outcomes)
	r.tracer, r.marks = tracer, marks
	controllers := builder.TypedControllerManagedBy[wire.Key](mgr).Named("delivery").
		WithOptions(controller.TypedOptions[wire.Key]{MaxConcurrentReconciles: workers}).
		Watches(&topology.WorkloadPlacement{}, handler.TypedEnqueueRequestsFromMapFunc(store.OfPlacement),
			builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{},
				store.DeletionBegan())),
		).
		Watches(&work.Work{}, handler.TypedEnqueueRequestsFromMapFunc(store.OfWork), builder.WithPredicates(ours)).
		Watches(&topology.MemberCluster{}, handler.TypedEnqueueRequestsFromMapFunc(r.budgeted),
			builder.WithPredicates(formatsChanged()))
	for kind, rule := range rules.Workloads() {
		toKey := func(_ context.Context, o client.Object) []wire.Key {
			return []wire.Key{wire.KeyFor(kind, o)}
		}
		controllers = controllers.Watches(
			rule.New(),
			handler.TypedEnqueueRequestsFromMapFunc(toKey),
			builder.WithPredicates(ours),
		)
	}
	if err := controllers.Complete(r); err != nil {
		return fmt.Errorf("set up controller delivery: %w", err)
	}
	return setupCopies(mgr, rules, clk, hubID, outcomes, watching, marks)
}
