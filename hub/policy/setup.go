package policy

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/decision"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/store"
)

// Setup adds the controller of policies to the manager.
func Setup(mgr ctrl.Manager, rules kinds.Table, clk clock.PassiveClock, watching *store.Watching) error {
	w := &watches{client: mgr.GetClient()}
	policies := builder.TypedControllerManagedBy[Key](mgr).Named("policy").
		Watches(&topology.FederationPolicy{}, handler.TypedEnqueueRequestsFromMapFunc(policyKey(KindPolicy)),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&topology.ClusterFederationPolicy{}, handler.TypedEnqueueRequestsFromMapFunc(policyKey(KindClusterPolicy)),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&topology.WorkloadPlacement{}, handler.TypedEnqueueRequestsFromMapFunc(w.policiesBeside),
			builder.WithPredicates(policyOfPlacementChanged())).
		Watches(&topology.MemberCluster{}, handler.TypedEnqueueRequestsFromMapFunc(w.everyPolicy),
			builder.WithPredicates(placesChanged())).
		Watches(&corev1.Namespace{}, handler.TypedEnqueueRequestsFromMapFunc(w.policiesIn),
			builder.WithPredicates(predicate.LabelChangedPredicate{}))
	if err := policies.Complete(NewReconciler(mgr.GetClient(), clk, watching, rules)); err != nil {
		return fmt.Errorf("set up controller policy: %w", err)
	}
	return nil
}

// watches maps events to the policies that they concern.
type watches struct{ client client.Client }

func policyKey(kind string) handler.TypedMapFunc[client.Object, Key] {
	return func(_ context.Context, o client.Object) []Key {
		return []Key{{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName()}}
	}
}

// policiesBeside returns the policies that an object's namespace can fall under, policiesIn those of a namespace.
func (w *watches) policiesBeside(ctx context.Context, o client.Object) []Key {
	return w.policies(ctx, o.GetNamespace(), true)
}

func (w *watches) policiesIn(ctx context.Context, o client.Object) []Key {
	return w.policies(ctx, o.GetName(), false)
}

func (w *watches) policies(ctx context.Context, namespace string, global bool) []Key {
	policies, err := List(ctx, w.client, namespace)
	if err != nil {
		log.FromContext(ctx).Error(err, "list policies", "namespace", namespace)
		return nil
	}
	var keys []Key
	for _, p := range policies {
		switch {
		case p.Ref.Kind == KindPolicy:
			keys = append(keys, Key{Kind: p.Ref.Kind, Namespace: namespace, Name: p.Ref.Name})
		case global:
			keys = append(keys, Key{Kind: p.Ref.Kind, Name: p.Ref.Name})
		}
	}
	return keys
}

// placesChanged lets through what policies can name of a member: that it is there, its zones, its region.
func placesChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*topology.MemberCluster), e.ObjectNew.(*topology.MemberCluster)
		return decision.RegionOf(before) != decision.RegionOf(after) ||
			!slices.EqualFunc(before.Status.Zones, after.Status.Zones, func(a, b topology.Zone) bool { return a.Name == b.Name })
	}}
}

// everyPolicy returns all policies of both scopes.
func (w *watches) everyPolicy(ctx context.Context, _ client.Object) []Key {
	own, shared := &topology.FederationPolicyList{}, &topology.ClusterFederationPolicyList{}
	for _, list := range []client.ObjectList{own, shared} {
		if err := w.client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			log.FromContext(ctx).Error(err, "list policies")
			return nil
		}
	}
	var keys []Key
	for i := range own.Items {
		keys = append(keys, Key{KindPolicy, own.Items[i].Namespace, own.Items[i].Name})
	}
	for i := range shared.Items {
		keys = append(keys, Key{KindClusterPolicy, "", shared.Items[i].Name})
	}
	return keys
}

func policyOfPlacementChanged() predicate.Predicate {
	return predicate.Or(store.DeletionBegan(), predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld.(*topology.WorkloadPlacement), e.ObjectNew.(*topology.WorkloadPlacement)
			return ranOnHub(before) != ranOnHub(after) || !equality.Semantic.DeepEqual(before.Spec.Policy, after.Spec.Policy) ||
				!slices.EqualFunc(
					before.Spec.Limits,
					after.Spec.Limits,
					func(a, b topology.SubsetLimits) bool { return a.Subset == b.Subset },
				)
		},
	})
}
