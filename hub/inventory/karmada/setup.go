package karmada

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/hub/wire/karmada"
)

// Setup adds the controller of this inventory to the manager.
func Setup(mgr ctrl.Manager, clk clock.PassiveClock, hubID string) error {
	r := NewReconciler(mgr.GetClient(), mgr.GetCache(), mgr.GetAPIReader(), clk, hubID)
	all := func(ctx context.Context, _ client.Object) []ctrl.Request { return everyMember(ctx, mgr.GetClient()) }
	err := ctrl.NewControllerManagedBy(mgr).Named("inventory-karmada").
		Watches(karmada.Object(karmada.ClusterKind()), &handler.EnqueueRequestForObject{}).
		Watches(&topology.MemberCluster{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(notOurStatus())).
		Watches(&topology.MemberCluster{}, handler.EnqueueRequestsFromMapFunc(all), builder.WithPredicates(healthChanged())).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(namespaceMember),
			builder.WithPredicates(comesOrGoes())).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up controller inventory-karmada: %w", err)
	}
	return nil
}

// notOurStatus lets through what people change of a member, and not what this inventory writes into its status.
func notOurStatus() predicate.Predicate {
	return predicate.Or(predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{})
}

// everyMember returns all members: whether one is given up depends on how many fail with it.
func everyMember(ctx context.Context, reader client.Reader) []ctrl.Request {
	members := &topology.MemberClusterList{}
	if err := reader.List(ctx, members, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "list MemberClusters")
		return nil
	}
	requests := make([]ctrl.Request, len(members.Items))
	for i := range members.Items {
		requests[i].NamespacedName = types.NamespacedName{Name: members.Items[i].Name}
	}
	return requests
}

// healthChanged lets through what the failure of many depends on.
func healthChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false }, // each looks at all when it comes
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld.(*topology.MemberCluster), e.ObjectNew.(*topology.MemberCluster)
			return !slices.Equal(
				wire.HealthOf([]topology.MemberCluster{*before}),
				wire.HealthOf([]topology.MemberCluster{*after}),
			)
		},
	}
}

func namespaceMember(_ context.Context, o client.Object) []ctrl.Request {
	if name, ok := wire.MemberOf(o.GetName()); ok {
		return []ctrl.Request{{NamespacedName: types.NamespacedName{Name: name}}}
	}
	return nil
}

// comesOrGoes lets through namespaces that are made, and those whose deletion begins or ends.
func comesOrGoes() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			return (e.ObjectOld.GetDeletionTimestamp() == nil) != (e.ObjectNew.GetDeletionTimestamp() == nil)
		},
	}
}
