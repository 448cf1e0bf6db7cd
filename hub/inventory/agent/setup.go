package agent

import (
	"context"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
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
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/contact"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/meter"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// Setup adds the controller of this inventory to the manager. table reads what members report.
func Setup(
	mgr ctrl.Manager,
	table kinds.Table,
	clk clock.PassiveClock,
	heard func() time.Time,
	news *contact.News,
	hubID string,
	measures *meter.Meter,
) error {
	twins := func(ctx context.Context, o client.Object) []ctrl.Request { return sameCluster(ctx, mgr.GetClient(), o) }
	all := func(ctx context.Context, _ client.Object) []ctrl.Request { return everyMember(ctx, mgr.GetClient()) }
	r := NewReconciler(mgr.GetClient(), mgr.GetAPIReader(), table, clk, heard, hubID)
	r.meter, r.news = measures, news
	err := ctrl.NewControllerManagedBy(mgr).Named("inventory").
		Watches(&topology.MemberCluster{}, handler.EnqueueRequestsFromMapFunc(twins),
			builder.WithPredicates(identityChanged())).
		Watches(&topology.MemberCluster{}, handler.EnqueueRequestsFromMapFunc(all), builder.WithPredicates(healthChanged())).
		Watches(&coordinationv1.Lease{}, handler.EnqueueRequestsFromMapFunc(leaseMember)).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(namespaceMember),
			builder.WithPredicates(onlyDeleted())).
		Watches(&work.Work{}, handler.EnqueueRequestsFromMapFunc(workMember), builder.WithPredicates(r.nonsense.changed())).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up controller inventory: %w", err)
	}
	return nil
}

// everyMember returns all members: whether one is given up depends on how many fail with it.
func everyMember(ctx context.Context, reader client.Reader) []ctrl.Request {
	members := &topology.MemberClusterList{}
	if err := reader.List(ctx, members, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "list MemberClusters")
		return nil
	}
	var requests []ctrl.Request
	for i := range members.Items {
		requests = append(requests, ctrl.Request{NamespacedName: types.NamespacedName{Name: members.Items[i].Name}})
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

// sameCluster returns the member and those with its cluster id, for one of them stands in the way of the others.
func sameCluster(ctx context.Context, reader client.Reader, o client.Object) []ctrl.Request {
	member := o.(*topology.MemberCluster)
	requests := []ctrl.Request{{NamespacedName: types.NamespacedName{Name: member.Name}}}
	same, err := ofCluster(ctx, reader, clusterID(member))
	if err != nil {
		log.FromContext(ctx).Error(err, "find the members of a cluster", "member", member.Name)
		return requests
	}
	for i := range same {
		if other := &same[i]; other.Name != member.Name {
			requests = append(requests, ctrl.Request{NamespacedName: types.NamespacedName{Name: other.Name}})
		}
	}
	return requests
}

// leaseMember returns the member whose Lease this is; other Leases are nobody's.
func leaseMember(_ context.Context, o client.Object) []ctrl.Request {
	if name, ok := wire.MemberOf(o.GetNamespace()); ok && name == o.GetName() {
		return []ctrl.Request{{NamespacedName: types.NamespacedName{Name: name}}}
	}
	return nil
}

func workMember(_ context.Context, o client.Object) []ctrl.Request {
	if name, ok := wire.MemberOf(o.GetNamespace()); ok {
		return []ctrl.Request{{NamespacedName: types.NamespacedName{Name: name}}}
	}
	return nil
}

func namespaceMember(_ context.Context, o client.Object) []ctrl.Request {
	if name, ok := wire.MemberOf(o.GetName()); ok {
		return []ctrl.Request{{NamespacedName: types.NamespacedName{Name: name}}}
	}
	return nil
}

// identityChanged lets through what the conditions depend on; zones and capacity, which agents report often, are not.
func identityChanged() predicate.Predicate {
	return predicate.Or(predicate.GenerationChangedPredicate{}, predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld.(*topology.MemberCluster), e.ObjectNew.(*topology.MemberCluster)
			return before.Status.ClusterID != after.Status.ClusterID ||
				before.Status.RefusedClusterID != after.Status.RefusedClusterID ||
				before.Status.Session != after.Status.Session || nonsenseOf(before) != nonsenseOf(after) ||
				before.Status.Orphaned != after.Status.Orphaned ||
				!slices.Equal(before.Status.Orphans, after.Status.Orphans)
		},
	})
}

func onlyDeleted() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(event.UpdateEvent) bool { return false },
	}
}
