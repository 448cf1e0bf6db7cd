package placement

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/capacity"
	"github.com/flotilla-dev/flotilla/hub/decision"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/store"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/hub/wire/karmada"
)

// watches maps events to what they concern.
type watches struct {
	client       client.Client
	rules        kinds.Table
	watching     *store.Watching
	reservations *capacity.Reservations
}

// copiedOrNeeding returns the key of an object of a copied kind, and those of the workloads that were placed with it.
func (w *watches) copiedOrNeeding(rule kinds.Kind) handler.TypedMapFunc[client.Object, wire.Key] {
	return func(ctx context.Context, o client.Object) []wire.Key {
		own := wire.KeyFor(rule.GVK.GroupKind(), o)
		placements := &topology.WorkloadPlacementList{}
		if err := w.client.List(ctx, placements, client.MatchingFields{store.IndexPlacementDependency: own.String()},
			client.UnsafeDisableDeepCopy); err != nil {
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

// dividedBy returns the workload that a divider names.
func dividedBy(divider *kinds.Divider) handler.TypedMapFunc[client.Object, wire.Key] {
	return func(_ context.Context, o client.Object) []wire.Key {
		if key, ok := divider.Target(o); ok {
			return []wire.Key{key}
		}
		return nil
	}
}

// everyWorkload returns all workloads of federated namespaces, and the cluster-scoped ones that are federated.
func (w *watches) everyWorkload(ctx context.Context, _ client.Object) []wire.Key {
	namespaces := &corev1.NamespaceList{}
	if err := w.client.List(ctx, namespaces, client.MatchingLabels{topology.LabelFederated: "true"},
		client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "list federated namespaces")
		return nil
	}
	var keys []wire.Key
	for i := range namespaces.Items {
		keys = append(keys, w.list(ctx, namespaces.Items[i].Name)...)
	}
	return append(keys, w.list(ctx, "")...)
}

// shortWorkloads returns the workloads that miss replicas: only those can use room that a member reports, so that a
// report wakes no others.
func (w *watches) shortWorkloads(ctx context.Context, o client.Object) []wire.Key {
	w.reservations.Seen(o.GetName(), surveyedAt(o.(*topology.MemberCluster)))
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

// list returns the workloads of a namespace; without one, the cluster-scoped ones that are federated.
func (w *watches) list(ctx context.Context, namespace string) []wire.Key {
	var keys []wire.Key
	for kind, rule := range w.rules {
		if !w.watching.Watched(rule) || rule.ClusterScoped != (namespace == "") {
			continue
		}
		options := []client.ListOption{client.InNamespace(namespace), client.UnsafeDisableDeepCopy}
		if rule.ClusterScoped {
			options = append(options, client.MatchingLabels{topology.LabelFederated: "true"})
		}
		list := rule.NewList()
		err := w.client.List(ctx, list, options...)
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

// workloadChanged lets through what a decision depends on; status is not.
func workloadChanged() predicate.Predicate {
	return predicate.Or(
		predicate.GenerationChangedPredicate{},
		predicate.LabelChangedPredicate{},
		predicate.AnnotationChangedPredicate{},
		deletionChanged(),
	)
}

func placementChanged() predicate.Predicate {
	return predicate.Or(
		predicate.GenerationChangedPredicate{},
		predicate.AnnotationChangedPredicate{},
		store.DeletionBegan(),
		ownersChanged(),
	)
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
			return before.Sequence != after.Sequence || before.HubID != after.HubID ||
				!equality.Semantic.DeepEqual(before.InUse, after.InUse) ||
				!equality.Semantic.DeepEqual(before.Unschedulable, after.Unschedulable) ||
				!slices.Equal(before.States, after.States) ||
				!slices.Equal(before.HandedOver, after.HandedOver) || cutOf(before) != cutOf(after) ||
				!equality.Semantic.DeepEqual(before.Halted, after.Halted)
		},
	}
}

// memberChanged lets through what decisions depend on of a member; capacity is not among it.
func memberChanged() predicate.Predicate {
	return predicate.Or(
		predicate.GenerationChangedPredicate{},
		predicate.LabelChangedPredicate{},
		store.DeletionBegan(),
		predicate.Funcs{
			UpdateFunc: func(e event.UpdateEvent) bool {
				before, after := e.ObjectOld.(*topology.MemberCluster), e.ObjectNew.(*topology.MemberCluster)
				return !equality.Semantic.DeepEqual(memberFacts(before), memberFacts(after))
			},
		},
	)
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

func memberFacts(m *topology.MemberCluster) decision.Member {
	facts := decision.MembersFor([]topology.MemberCluster{*m}, &topology.ClusterSelector{})[0]
	facts.Capacity.Zones = nil
	return facts
}

// toldSilent returns the workload of a Work whose member is silent: what the member held is lent to others once its
// lower order stands there. Orders to members that answer change nothing by being written.
func (w *watches) toldSilent(ctx context.Context, o client.Object) []wire.Key {
	name, ok := wire.MemberOf(o.GetNamespace())
	if !ok {
		return nil
	}
	member := &topology.MemberCluster{}
	if err := w.client.Get(ctx, client.ObjectKey{Name: name}, member, client.UnsafeDisableDeepCopy); err != nil {
		if client.IgnoreNotFound(err) != nil {
			log.FromContext(ctx).Error(err, "get MemberCluster", "member", name)
		}
		return nil
	}
	if !meta.IsStatusConditionTrue(member.Status.Conditions, topology.MemberSilent) {
		return nil
	}
	return store.OfWork(ctx, o)
}

// orderChanged lets through Works whose order changed.
func orderChanged() predicate.Predicate {
	return predicate.Funcs{
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool { return wire.SequenceOf(e.ObjectOld) != wire.SequenceOf(e.ObjectNew) },
	}
}

// rivals is where the policies of Karmada are read, nil where there is no Karmada. They are not of our scheme: the
// manager's client would ask the API server for them each time, its cache does not.
func rivals(mgr ctrl.Manager, withKarmada bool) client.Reader {
	if !withKarmada {
		return nil
	}
	return mgr.GetCache()
}

// watchRivals looks at all workloads that a policy of Karmada can select when one comes, changes or goes.
func (w *watches) watchRivals(controllers *builder.TypedBuilder[wire.Key]) *builder.TypedBuilder[wire.Key] {
	for _, kind := range karmada.PolicyKinds() {
		controllers = controllers.Watches(karmada.Object(kind), handler.TypedEnqueueRequestsFromMapFunc(w.rivalled),
			builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, store.DeletionBegan())))
	}
	return controllers
}

// rivalled returns the workloads beside a policy of a namespace, and all for one of the whole control plane.
func (w *watches) rivalled(ctx context.Context, o client.Object) []wire.Key {
	if o.GetNamespace() == "" {
		return w.everyWorkload(ctx, o)
	}
	return w.workloadsBeside(ctx, o)
}
