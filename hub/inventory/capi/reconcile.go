package capi

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// manager is the field manager of what is written on the hub, in the management cluster and in members, and who fences.
const manager = client.FieldOwner("flotilla-capi")

const (
	// lookAfter is how often a member is looked at in which nothing happens: what somebody removed of its agent is made
	// again.
	lookAfter = 10 * time.Minute
	// startAfter is how often one is looked at whose agent is not heard of: its token runs out in an hour.
	startAfter = time.Minute
	// firstRetry and lastRetry bound the pauses between attempts on a cluster that cannot join: each is as long as the
	// trouble has lasted.
	firstRetry, lastRetry = 5 * time.Second, time.Minute
	// leaveAfter is how often the progress of a drain is looked at.
	leaveAfter = 2 * time.Second
)

// Reconciler makes members of Clusters, one Cluster at a time.
type Reconciler struct {
	// hub reads past the cache: what is there of members is decided on as it stands.
	hub client.Client
	// management reads Machines from the cache, managementLive everything past it.
	management     client.Client
	managementLive client.Reader
	dial           Dial
	events         events.EventRecorder
	clock          clock.PassiveClock
	options        Options
}

// Reconcile gathers what there is of a Cluster and its member, lets it join or leave, and tells how that stands.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	f, err := r.gather(ctx, req.NamespacedName)
	if err != nil || f == nil || paused(f.cluster) {
		return ctrl.Result{}, err
	}
	var v *verdict
	switch {
	case wants(f.cluster):
		v, err = r.join(ctx, f)
	case holds(f.cluster):
		if v, err = r.leave(ctx, f); v == nil {
			return ctrl.Result{}, err // it has left, or nobody knows whether
		}
	default:
		return ctrl.Result{}, nil
	}
	err = errors.Join(err, r.hooks(ctx, f, !holds(f.cluster)))
	if v == nil || err != nil {
		return ctrl.Result{}, err
	}
	after := r.after(f, v)
	return ctrl.Result{RequeueAfter: after}, r.report(ctx, f, v)
}

// join makes a member of the Cluster, as far as that goes.
func (r *Reconciler) join(ctx context.Context, f *facts) (*verdict, error) {
	if v := f.nameObstacle(); v != nil {
		return v, nil
	}
	if err := r.claim(ctx, f); err != nil {
		return nil, err
	}
	if err := r.fence(ctx, f); err != nil {
		return nil, err
	}
	there, v, err := r.reach(ctx, f)
	if v != nil || err != nil {
		return v, err
	}
	sight, err := there.Look(ctx)
	if err != nil {
		return unreachable(f, err), nil
	}
	if v := f.idObstacle(sight.ClusterID); v != nil {
		return v, nil
	}
	member, err := r.carry(ctx, f)
	if err != nil {
		return nil, err
	}
	member, v, err = r.equip(ctx, f, there, sight, member)
	if v != nil || err != nil {
		return v, err
	}
	if !sight.Installed {
		err = there.Install(ctx)
	}
	if zones := f.zones(); err == nil && len(zones) > 0 {
		_, err = there.SetZones(ctx, zones)
	}
	if err != nil {
		return unreachable(f, err), nil
	}
	return f.standing(member), nil
}

// after is when a Cluster is looked at again if nothing happens before.
func (r *Reconciler) after(f *facts, v *verdict) time.Duration {
	switch v.reason {
	case topology.ReasonMemberJoined, topology.ReasonMemberDismissed:
		return lookAfter
	case topology.ReasonAgentStarting:
		return startAfter
	case topology.ReasonMemberDraining:
		return leaveAfter
	}
	had := meta.FindStatusCondition(f.cluster.Status.Conditions, topology.ClusterJoined)
	if had == nil {
		return firstRetry
	}
	return min(max(f.now.Sub(had.LastTransitionTime.Time), firstRetry), lastRetry)
}
