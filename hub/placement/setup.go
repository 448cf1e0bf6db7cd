package placement

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/capacity"
	"github.com/flotilla-dev/flotilla/hub/checks"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/meter"
	"github.com/flotilla-dev/flotilla/hub/store"
	"github.com/flotilla-dev/flotilla/hub/tracing"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// workers is how many workloads are decided at once: a decision is computing and one write, so a few keep the API
// server busy.
const workers = 8

// Setup adds the controllers of this stage to the manager. rules is the table of the kinds that are placed.
// withKarmada: policies of Karmada on the same API server propagate objects too.
func Setup(
	mgr ctrl.Manager,
	rules kinds.Table,
	clk clock.PassiveClock,
	heard func() time.Time,
	news func(member string) time.Time,
	hubID string,
	outcomes *Outcomes,
	watching *store.Watching,
	measures *meter.Meter,
	asker *checks.Asker,
	tracer *tracing.Tracer,
	withKarmada bool,
) error {
	reservations := capacity.NewReservations()
	w := &watches{client: mgr.GetClient(), rules: rules, watching: watching, reservations: reservations}
	decisions := builder.TypedControllerManagedBy[wire.Key](mgr).Named("placement").
		WithOptions(controller.TypedOptions[wire.Key]{MaxConcurrentReconciles: workers}).
		WatchesRawSource(asker.Source()).
		Watches(&topology.WorkloadPlacement{}, handler.TypedEnqueueRequestsFromMapFunc(store.OfPlacement),
			builder.WithPredicates(placementChanged())).
		Watches(&work.Work{}, handler.TypedEnqueueRequestsFromMapFunc(store.OfWork),
			builder.WithPredicates(reportChanged(rules))).
		Watches(&work.Work{}, handler.TypedEnqueueRequestsFromMapFunc(w.toldSilent), builder.WithPredicates(orderChanged())).
		Watches(&topology.MemberCluster{}, handler.TypedEnqueueRequestsFromMapFunc(w.everyWorkload),
			builder.WithPredicates(memberChanged())).
		Watches(&topology.MemberCluster{}, handler.TypedEnqueueRequestsFromMapFunc(w.shortWorkloads),
			builder.WithPredicates(roomChanged())).
		Watches(&topology.ClusterFederationPolicy{}, handler.TypedEnqueueRequestsFromMapFunc(w.everyWorkload),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&topology.FederationPolicy{}, handler.TypedEnqueueRequestsFromMapFunc(w.workloadsBeside),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Namespace{}, handler.TypedEnqueueRequestsFromMapFunc(w.workloadsIn),
			builder.WithPredicates(predicate.Or(predicate.LabelChangedPredicate{}, store.DeletionBegan())))
	if withKarmada {
		decisions = w.watchRivals(decisions)
	}
	for _, rule := range rules.Workloads() {
		if divider := rule.Divider; divider != nil {
			decisions = decisions.Watches(divider.New(), handler.TypedEnqueueRequestsFromMapFunc(dividedBy(divider)),
				builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, store.DeletionBegan())))
		}
		decisions = decisions.Watches(
			rule.New(),
			handler.TypedEnqueueRequestsFromMapFunc(keyOfKind[client.Object](rule.GVK.GroupKind())),
			builder.WithPredicates(workloadChanged()),
		)
	}
	r := NewReconciler(
		mgr.GetClient(),
		mgr.GetAPIReader(),
		mgr.GetEventRecorder("flotilla-hub"),
		clk,
		heard,
		hubID,
		outcomes,
		watching,
		reservations,
		rules,
	)
	r.meter, r.asker, r.news, r.tracer, r.rivals = measures, asker, news, tracer, rivals(mgr, withKarmada)
	decider, err := decisions.Build(r)
	if err != nil {
		return fmt.Errorf("set up controller placement: %w", err)
	}
	watching.Add(decider.Watch, func(rule kinds.Kind) source.TypedSource[wire.Key] {
		return source.TypedKind(
			mgr.GetCache(),
			client.Object(rule.New()),
			handler.TypedEnqueueRequestsFromMapFunc(w.copiedOrNeeding(rule)),
			existenceChanged(),
		)
	})
	return nil
}
