package capi

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/store"
)

// gather returns nil for a Cluster that is not there. The Cluster is read last of what Cluster API has: a Machine that
// is seen to be deleted because of it is not taken for one that is replaced.
func (r *Reconciler) gather(ctx context.Context, name types.NamespacedName) (*facts, error) {
	f := &facts{cluster: &clusterv1.Cluster{}, now: r.clock.Now()}
	machines := &clusterv1.MachineList{}
	if err := r.management.List(ctx, machines, client.InNamespace(name.Namespace),
		client.MatchingLabels{clusterv1.ClusterNameLabel: name.Name}); err != nil {
		return nil, fmt.Errorf("list Machines of Cluster %s: %w", name, err)
	}
	f.machines = machines.Items
	if err := r.managementLive.Get(ctx, name, f.cluster); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil, nil
		}
		return nil, fmt.Errorf("read Cluster %s: %w", name, err)
	}
	if !wants(f.cluster) && !holds(f.cluster) {
		return f, nil // it is none of ours
	}
	// Past the cache: a member is looked at seldom, and nothing hangs on the moment at which a MachinePool goes.
	pools := &clusterv1.MachinePoolList{}
	if err := r.managementLive.List(ctx, pools, client.InNamespace(name.Namespace),
		client.MatchingLabels{clusterv1.ClusterNameLabel: name.Name}); err != nil {
		return nil, fmt.Errorf("list MachinePools of Cluster %s: %w", name, err)
	}
	f.pools = pools.Items
	members := &topology.MemberClusterList{}
	if err := r.hub.List(ctx, members); err != nil {
		return nil, fmt.Errorf("list MemberClusters: %w", err)
	}
	f.members = members.Items
	var err error
	f.hubID, err = store.HubID(ctx, r.hub)
	return f, err
}
