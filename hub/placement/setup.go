package placement

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/checks"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/meter"
	"github.com/flotilla-dev/flotilla/hub/store"
	"github.com/flotilla-dev/flotilla/hub/tracing"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// workers is how many workloads are decided at once: a decision is computing and one write, so a few keep the API server
// busy.
const workers = 8

// Setup adds the controllers of this stage to the manager. rules is the table of the kinds that are placed. withKarmada: policies of Karmada on the same API server propagate objects too.
func Setup(mgr ctrl.Manager, rules kinds.Table, clk clock.PassiveClock, heard func() time.Time, news func(member string) time.Time, hubID string, verdicts *Verdicts, watching *Watching, measures *meter.Meter, asker *checks.Asker, tracer *tracing.Tracer, withKarmada bool) error {
	ledger := NewLedger(clk)
	w := &watches{client: mgr.GetClient(), rules: rules, watching: watching, ledger: ledger}
	decisions := builder.TypedControllerManagedBy[wire.Key](mgr).Named("placement").
		WithOptions(controller.TypedOptions[wire.Key]{MaxConcurrentReconciles: workers}).
		WatchesRawSource(asker.Source()).
		Watches(&topology.WorkloadPlacement{}, handler.TypedEnqueueRequestsFromMapFunc(placementKey), builder.WithPredicates(placementChanged())).
		Watches(&work.Work{}, handler.TypedEnqueueRequestsFromMapFunc(workKey), builder.WithPredicates(reportChanged(rules))).
		Watches(&work.Work{}, handler.TypedEnqueueRequestsFromMapFunc(w.toldSilent), builder.WithPredicates(orderChanged())).
		Watches(&topology.MemberCluster{}, handler.TypedEnqueueRequestsFromMapFunc(w.everyWorkload), builder.WithPredicates(memberChanged())).
		Watches(&topology.MemberCluster{}, handler.TypedEnqueueRequestsFromMapFunc(w.shortWorkloads), builder.WithPredicates(roomChanged())).
		Watches(&topology.ClusterFederationPolicy{}, handler.TypedEnqueueRequestsFromMapFunc(w.everyWorkload), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&topology.FederationPolicy{}, handler.TypedEnqueueRequestsFromMapFunc(w.workloadsBeside), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Namespace{}, handler.TypedEnqueueRequestsFromMapFunc(w.workloadsIn),
			builder.WithPredicates(predicate.Or(predicate.LabelChangedPredicate{}, deletionBegan())))
	if withKarmada {
		decisions = w.watchRivals(decisions)
	}
	for _, rule := range kinds.Divided() {
		if divider := rule.Divider; divider != nil {
			decisions = decisions.Watches(divider.New(), handler.TypedEnqueueRequestsFromMapFunc(dividedBy(divider)),
				builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, deletionBegan())))
		}
		decisions = decisions.Watches(rule.New(), handler.TypedEnqueueRequestsFromMapFunc(keyOfKind[client.Object](rule.GVK.GroupKind())), builder.WithPredicates(workloadChanged()))
	}
	r := NewReconciler(mgr.GetClient(), mgr.GetAPIReader(), mgr.GetEventRecorder("flotilla-hub"), clk, heard, hubID, verdicts, watching, ledger, rules)
	r.meter, r.asker, r.news, r.tracer, r.rivals = measures, asker, news, tracer, rivals(mgr, withKarmada)
	decider, err := decisions.Build(r)
	if err != nil {
		return fmt.Errorf("set up controller placement: %w", err)
	}
	watching.Add(decider.Watch, func(rule kinds.Kind) source.TypedSource[wire.Key] {
		return source.TypedKind(mgr.GetCache(), client.Object(rule.New()), handler.TypedEnqueueRequestsFromMapFunc(w.copiedOrNeeding(rule)), existenceChanged())
	})
	policies := builder.TypedControllerManagedBy[PolicyKey](mgr).Named("policy").
		Watches(&topology.FederationPolicy{}, handler.TypedEnqueueRequestsFromMapFunc(policyKey(KindPolicy)), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&topology.ClusterFederationPolicy{}, handler.TypedEnqueueRequestsFromMapFunc(policyKey(KindClusterPolicy)), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&topology.WorkloadPlacement{}, handler.TypedEnqueueRequestsFromMapFunc(w.policiesBeside), builder.WithPredicates(policyOfPlacementChanged())).
		Watches(&topology.MemberCluster{}, handler.TypedEnqueueRequestsFromMapFunc(w.everyPolicy), builder.WithPredicates(placesChanged())).
		Watches(&corev1.Namespace{}, handler.TypedEnqueueRequestsFromMapFunc(w.policiesIn), builder.WithPredicates(predicate.LabelChangedPredicate{}))
	if err := policies.Complete(NewPolicyReconciler(mgr.GetClient(), clk, watching, rules)); err != nil {
		return fmt.Errorf("set up controller policy: %w", err)
	}
	return nil
}

// watches maps events to what they concern.
type watches struct {
	client   client.Client
	rules    kinds.Table
	watching *Watching
	ledger   *Ledger
}

// copiedOrNeeding returns the key of an object of a copied kind, and those of the workloads that were placed with it.
func (w *watches) copiedOrNeeding(rule kinds.Kind) handler.TypedMapFunc[client.Object, wire.Key] {
	return func(ctx context.Context, o client.Object) []wire.Key {
		own := wire.KeyFor(rule.GVK.GroupKind(), o)
		placements := &topology.WorkloadPlacementList{}
		if err := w.client.List(ctx, placements, client.MatchingFields{store.IndexPlacementDependency: own.String()}, client.UnsafeDisableDeepCopy); err != nil {
			log.FromContext(ctx).Error(err, "list placements with a dependency", "dependency", own.String())
		}
		keys := []wire.Key{own}
		for i := range placements.Items {
			keys = append(keys, wire.KeyOfPlacement(&placements.Items[i]))
		}
		return keys
	}
}

// existenceChanged lets through what a decision depends on of an object that is copied or needed; what it holds is not.
func existenceChanged() predicate.Predicate {
	return predicate.Or(predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{}, deletionChanged())
}

func keyOfKind[object client.Object](kind schema.GroupKind) handler.TypedMapFunc[object, wire.Key] {
	return func(_ context.Context, o object) []wire.Key {
		return []wire.Key{wire.KeyFor(kind, o)}
	}
}

func placementKey(_ context.Context, o client.Object) []wire.Key {
	return []wire.Key{wire.KeyOfPlacement(o.(*topology.WorkloadPlacement))}
}

// dividedBy returns the workload that a divider names.
func dividedBy(divider *kinds.Divider) handler.TypedMapFunc[client.Object, wire.Key] {
	return func(_ context.Context, o client.Object) []wire.Key {
		if key, ok := divider.Target(o); ok {
			return []wire.Key{key}
		}
		return nil
	}
}

func workKey(_ context.Context, o client.Object) []wire.Key {
	if key, ok := wire.OwnerOf(o); ok {
		return []wire.Key{key}
	}
	return nil
}

func policyKey(kind string) handler.TypedMapFunc[client.Object, PolicyKey] {
	return func(_ context.Context, o client.Object) []PolicyKey {
		return []PolicyKey{{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName()}}
	}
}

// everyWorkload returns all workloads of federated namespaces.
func (w *watches) everyWorkload(ctx context.Context, _ client.Object) []wire.Key {
	namespaces := &corev1.NamespaceList{}
	if err := w.client.List(ctx, namespaces, client.MatchingLabels{topology.LabelFederated: "true"}, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "list federated namespaces")
		return nil
	}
	var keys []wire.Key
	for i := range namespaces.Items {
		keys = append(keys, w.list(ctx, namespaces.Items[i].Name)...)
	}
	return keys
}

// shortWorkloads returns the workloads that miss replicas: only those can use room that a member reports, so that a report
// wakes no others.
func (w *watches) shortWorkloads(ctx context.Context, o client.Object) []wire.Key {
	w.ledger.Seen(o.GetName(), surveyedAt(o.(*topology.MemberCluster)))
	placements := &topology.WorkloadPlacementList{}
	if err := w.client.List(ctx, placements, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "list placements")
		return nil
	}
	var keys []wire.Key
	for i := range placements.Items {
		if p := &placements.Items[i]; len(p.Spec.Unplaced) > 0 {
			keys = append(keys, wire.KeyOfPlacement(p))
		}
	}
	return keys
}

// surveyedAt is when a member's agent looked at its room, zero where it does not say so.
func surveyedAt(m *topology.MemberCluster) time.Time {
	if m.Status.SurveyedAt == nil {
		return time.Time{}
	}
	return m.Status.SurveyedAt.Time
}

// workloadsBeside returns the workloads of an object's namespace, workloadsIn those of a namespace.
func (w *watches) workloadsBeside(ctx context.Context, o client.Object) []wire.Key {
	return w.list(ctx, o.GetNamespace())
}

func (w *watches) workloadsIn(ctx context.Context, o client.Object) []wire.Key {
	return w.list(ctx, o.GetName())
}

func (w *watches) list(ctx context.Context, namespace string) []wire.Key {
	var keys []wire.Key
	for kind, rule := range w.rules {
		if !w.watching.Watched(rule) {
			continue // nobody needs the kind
		}
		list := rule.NewList()
		err := w.client.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy)
		if err == nil {
			err = meta.EachListItem(list, func(o runtime.Object) error {
				object := o.(client.Object)
				keys = append(keys, wire.KeyFor(kind, object))
				return nil
			})
		}
		if err != nil {
			log.FromContext(ctx).Error(err, "list workloads", "kind", kind, "namespace", namespace)
		}
	}
	return keys
}

// policiesBeside returns the policies that an object's namespace can fall under, policiesIn those of a namespace.
func (w *watches) policiesBeside(ctx context.Context, o client.Object) []PolicyKey {
	return w.policies(ctx, o.GetNamespace(), true)
}

func (w *watches) policiesIn(ctx context.Context, o client.Object) []PolicyKey {
	return w.policies(ctx, o.GetName(), false)
}

func (w *watches) policies(ctx context.Context, namespace string, global bool) []PolicyKey {
	policies, err := listPolicies(ctx, w.client, namespace)
	if err != nil {
		log.FromContext(ctx).Error(err, "list policies", "namespace", namespace)
		return nil
	}
	var keys []PolicyKey
	for _, p := range policies {
		switch {
		case p.Ref.Kind == KindPolicy:
			keys = append(keys, PolicyKey{Kind: p.Ref.Kind, Namespace: namespace, Name: p.Ref.Name})
		case global:
			keys = append(keys, PolicyKey{Kind: p.Ref.Kind, Name: p.Ref.Name})
		}
	}
	return keys
}

// workloadChanged lets through what a decision depends on; status is not.
func workloadChanged() predicate.Predicate {
	return predicate.Or(predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{}, deletionChanged())
}

func placementChanged() predicate.Predicate {
	return predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, deletionBegan(), ownersChanged())
}

func deletionBegan() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			return (e.ObjectOld.GetDeletionTimestamp() == nil) != (e.ObjectNew.GetDeletionTimestamp() == nil)
		},
	}
}

// reportChanged lets through news of what members have in use. Works that are created have no report yet.
func reportChanged(rules kinds.Table) predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			if _, told := foundBy(rules, e.ObjectNew.(*work.Work)); told {
				if _, before := foundBy(rules, e.ObjectOld.(*work.Work)); !before {
					return true
				}
			}
			if wire.IsCheck(e.ObjectNew) {
				return !equality.Semantic.DeepEqual(runOf(e.ObjectOld.(*work.Work)), runOf(e.ObjectNew.(*work.Work)))
			}
			before, _ := rules.ReportOf(e.ObjectOld.(*work.Work))
			after, _ := rules.ReportOf(e.ObjectNew.(*work.Work))
			if before == nil || after == nil {
				return before != after
			}
			return before.Sequence != after.Sequence || before.HubID != after.HubID || !equality.Semantic.DeepEqual(before.InUse, after.InUse) ||
				!equality.Semantic.DeepEqual(before.Unschedulable, after.Unschedulable)
		},
	}
}

// memberChanged lets through what decisions depend on of a member; capacity is not among it.
func memberChanged() predicate.Predicate {
	return predicate.Or(predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}, deletionBegan(), predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld.(*topology.MemberCluster), e.ObjectNew.(*topology.MemberCluster)
			return !equality.Semantic.DeepEqual(memberFacts(before), memberFacts(after))
		},
	})
}

// roomChanged lets through reports of other amounts.
func roomChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false }, // its other facts wake everybody
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld.(*topology.MemberCluster), e.ObjectNew.(*topology.MemberCluster)
			return !equality.Semantic.DeepEqual(before.Status.Zones, after.Status.Zones)
		},
	}
}

func memberFacts(m *topology.MemberCluster) Member {
	facts := membersFor([]topology.MemberCluster{*m}, &topology.ClusterSelector{})[0]
	facts.Rooms = nil
	return facts
}

func policyOfPlacementChanged() predicate.Predicate {
	return predicate.Or(deletionBegan(), predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld.(*topology.WorkloadPlacement), e.ObjectNew.(*topology.WorkloadPlacement)
			return ranOnHub(before) != ranOnHub(after) || !equality.Semantic.DeepEqual(before.Spec.Policy, after.Spec.Policy) ||
				!slices.EqualFunc(before.Spec.Limits, after.Spec.Limits, func(a, b topology.SubsetLimits) bool { return a.Subset == b.Subset })
		},
	})
}
