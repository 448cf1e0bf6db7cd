package agent

import (
	"cmp"
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/store"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/topology/failover"
)

// leaseSeen is the hub's own memory of a Lease: the renewTime and when this hub first saw it.
type leaseSeen struct {
	renewTime metav1.MicroTime
	// before is the renewTime that was seen before: a cache that lags still shows it.
	before  metav1.MicroTime
	since   time.Time
	changed bool
	clock   comparison
	// member is the uid of the MemberCluster that it was seen for: one of the same name that is made later has been heard
	// of by nobody.
	member types.UID
}

func (r *Reconciler) gather(ctx context.Context, member *topology.MemberCluster) (facts, error) {
	f := facts{member: member, hubID: r.hubID, now: r.clock.Now()}
	same, err := ofCluster(ctx, r.client, clusterID(member))
	if err != nil {
		return f, err
	}
	f.twin = olderTwin(member, same)
	f.nonsense = cmp.Or(nonsenseOf(member), r.nonsense.first(member.Name))
	lease := &coordinationv1.Lease{}
	err = r.client.Get(ctx, types.NamespacedName{Namespace: wire.MemberNamespace(member.Name), Name: member.Name}, lease)
	if client.IgnoreNotFound(err) != nil {
		return f, fmt.Errorf("get Lease of MemberCluster %s: %w", member.Name, err)
	}
	if err == nil && lease.Spec.RenewTime != nil && heldBy(lease, clusterID(member)) {
		f.lease = r.see(member, lease, f.now)
		if err := r.lookAgain(ctx, &f); err != nil {
			return f, err
		}
	}
	return f, r.countFailed(ctx, &f)
}

// countFailed looks at how many members fail with one that is not heard of.
func (r *Reconciler) countFailed(ctx context.Context, f *facts) error {
	if !meta.IsStatusConditionFalse(f.member.Status.Conditions, topology.MemberReady) {
		return nil
	}
	members := &topology.MemberClusterList{}
	if err := r.client.List(ctx, members, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list MemberClusters: %w", err)
	}
	f.together = failover.Together(wire.HealthOf(members.Items))[f.member.Name]
	return nil
}

// ofCluster returns the members that have the cluster id, none for an empty one. It looks at no others: every renewal
// of a Lease comes by here.
func ofCluster(ctx context.Context, reader client.Reader, id string) ([]topology.MemberCluster, error) {
	if id == "" {
		return nil, nil
	}
	members := &topology.MemberClusterList{}
	if err := reader.List(ctx, members, client.MatchingFields{store.IndexMemberClusterID: id},
		client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list MemberClusters with the cluster id %s: %w", id, err)
	}
	return members.Items, nil
}

// lookAgain asks the API server itself for a Lease that seems to have expired: a cache that lost its watch would not
// know of a renewal.
func (r *Reconciler) lookAgain(ctx context.Context, f *facts) error {
	if !meta.IsStatusConditionTrue(f.member.Status.Conditions, topology.MemberReady) ||
		f.now.Before(f.lease.since.Add(topology.LeaseDuration)) {
		return nil
	}
	lease := &coordinationv1.Lease{}
	name := types.NamespacedName{Namespace: wire.MemberNamespace(f.member.Name), Name: f.member.Name}
	if err := r.live.Get(ctx, name, lease); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get Lease of MemberCluster %s from the API server: %w", f.member.Name, err)
	}
	if lease.Spec.RenewTime != nil && heldBy(lease, clusterID(f.member)) {
		f.lease = r.see(f.member, lease, f.now)
	}
	return nil
}

// heldBy tells whether the cluster with this id renews the Lease; a Lease without holder counts.
func heldBy(lease *coordinationv1.Lease, id string) bool {
	holder := lease.Spec.HolderIdentity
	return holder == nil || *holder == "" || id == "" || *holder == id
}

// olderTwin returns the name of a member with the same cluster id that goes before this one: the pinned before the
// unpinned, then the older, then the first by name. One that is not accepted by a person takes nothing away.
func olderTwin(member *topology.MemberCluster, members []topology.MemberCluster) string {
	id := clusterID(member)
	if id == "" {
		return ""
	}
	for i := range members {
		other := &members[i]
		if other.Name == member.Name || other.DeletionTimestamp != nil || !other.Spec.Accepted || clusterID(other) != id {
			continue
		}
		if goesBefore(other, member) {
			return other.Name
		}
	}
	return ""
}

func goesBefore(a, b *topology.MemberCluster) bool {
	if pinned := a.Spec.ClusterID != ""; pinned != (b.Spec.ClusterID != "") {
		return pinned
	}
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}

// see records the renewTime of a member's Lease and returns since when it stands.
func (r *Reconciler) see(member *topology.MemberCluster, lease *coordinationv1.Lease, now time.Time) sighting {
	r.mu.Lock()
	defer r.mu.Unlock()
	name, renewTime := member.Name, *lease.Spec.RenewTime
	last, ok := r.leases[name]
	if ok && last.member != member.UID {
		last, ok = leaseSeen{}, false
	}
	// The first one that a hub sees may be old, also the first after it was cut off: neither is news.
	since := ok && (r.heard == nil || !r.heard().After(last.since))
	if !ok || !last.renewTime.Equal(&renewTime) && !last.before.Equal(&renewTime) {
		last = leaseSeen{
			renewTime: renewTime,
			before:    last.renewTime,
			since:     now,
			changed:   ok,
			clock:     last.clock,
			member:    member.UID,
		}
		if ok { // the first one that a hub sees may be old
			last.clock.hear(renewTime.Sub(now))
		}
		r.leases[name] = last
		r.meter.Heard(name)
		if since {
			r.news.Hear(name, now)
		}
	}
	seen := sighting{
		exists: true, changed: last.changed, since: last.since, apart: last.clock.told, compared: last.clock.enough(),
		former: !last.changed && lease.CreationTimestamp.Before(&member.CreationTimestamp),
	}
	if r.heard != nil && r.heard().After(seen.since) {
		seen.since = r.heard()
	}
	return seen
}

func (r *Reconciler) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.leases, name)
	delete(r.asked, name)
	r.meter.Gone(name)
	r.news.Forget(name)
}
