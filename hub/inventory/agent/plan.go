package agent

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/orphans"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// facts are what a member's conditions depend on.
type facts struct {
	member *topology.MemberCluster
	hubID  string
	// twin is the name of an older member with the same cluster id, empty if there is none.
	twin string
	// nonsense says which numbers the member reported that cannot be true, the first by name of its Works; empty if none.
	nonsense string
	// together is how many members became NotReady together with this one, 0 if so few that each is given up by itself.
	together int
	// lease is what was seen of the agent's Lease.
	lease sighting
	now   time.Time
}

// sighting is what the hub has seen of a member's Lease.
type sighting struct {
	// exists: there is a Lease, held by the cluster that is pinned.
	exists bool
	// changed: renewTime has changed since this hub started.
	changed bool
	// former: it is older than the MemberCluster, and has not changed since this hub saw it: it may be left of a
	// membership that ended.
	former bool
	// since is when this hub first saw the present renewTime, by its own clock; later if it lost contact with its API
	// server meanwhile, for then it could not have seen a renewal.
	since time.Time
	// apart is by how much the agent's clock is ahead of the hub's, as far as that is told; 0 where they agree. compared:
	// enough renewals were seen to know.
	apart    time.Duration
	compared bool
}

// plan returns the id to pin ("" for none) and the conditions.
func plan(f facts) (pin string, conditions []metav1.Condition) {
	accepted := acceptedCondition(f)
	if accepted.Status == metav1.ConditionTrue && f.member.Spec.ClusterID == "" {
		pin = f.member.Status.ClusterID
	}
	conditions = []metav1.Condition{accepted, readyCondition(f)}
	for _, condition := range []func(facts) (metav1.Condition, bool){identityCondition, orphansCondition,
		plausibleCondition, silentCondition, heldCondition, clockCondition} {
		if c, ok := condition(f); ok {
			conditions = append(conditions, c)
		}
	}
	return pin, conditions
}

// clusterID is the pinned id, or before that what the agent told.
func clusterID(m *topology.MemberCluster) string { return wire.ClusterID(m) }

func acceptedCondition(f facts) metav1.Condition {
	m := f.member
	c := metav1.Condition{Type: topology.MemberAccepted, Status: metav1.ConditionFalse}
	id := clusterID(m)
	switch {
	case !m.Spec.Accepted:
		c.Reason = topology.ReasonNotAccepted
		c.Message = fmt.Sprintf(
			"MemberCluster %s waits for a person: let it take part with flotilla accept %s",
			m.Name,
			m.Name,
		)
		if m.Spec.ClusterID != "" {
			c.Message = fmt.Sprintf(
				"MemberCluster %s takes no part any more; set spec.accepted to true to let it take part again",
				m.Name,
			)
		}
	case id == "":
		c.Reason = topology.ReasonNeverConnected
		c.Message = fmt.Sprintf(
			"the agent of MemberCluster %s has not told the id of its cluster yet; start it with this hub's kubeconfig",
			m.Name,
		)
	case id == f.hubID:
		c.Reason = topology.ReasonHubIsMember
		c.Message = fmt.Sprintf(
			"MemberCluster %s is the hub's own cluster (id %s), which cannot join itself; delete it, and join other clusters",
			m.Name,
			id,
		)
	case f.twin != "":
		c.Reason = topology.ReasonDuplicateClusterID
		c.Message = fmt.Sprintf(
			"MemberCluster %s has the cluster id %s, which the older MemberCluster %s has already; delete one of the two, or "+
				"give a cloned cluster its own kube-system namespace uid",
			m.Name,
			id,
			f.twin,
		)
	default:
		c.Status, c.Reason = metav1.ConditionTrue, topology.ReasonAccepted
		c.Message = "the member takes part"
	}
	return c
}

func readyCondition(f facts) metav1.Condition {
	m := f.member
	c := metav1.Condition{Type: topology.MemberReady, Status: metav1.ConditionFalse}
	before := meta.FindStatusCondition(m.Status.Conditions, topology.MemberReady)
	expired := f.lease.exists && !f.now.Before(f.lease.since.Add(topology.LeaseDuration))
	// A Lease that has not changed since the hub started may be old: what was known of it before goes on.
	knownExpired := before != nil && before.Reason == topology.ReasonLeaseExpired && !f.lease.changed
	never := before == nil || before.Reason == topology.ReasonNeverConnected
	switch {
	case never && (!f.lease.exists || f.lease.former):
		c.Reason = topology.ReasonNeverConnected
		c.Message = fmt.Sprintf(
			"no Lease of the agent of MemberCluster %s was seen yet; start the agent, or look at its log",
			m.Name,
		)
	case !f.lease.exists, expired, knownExpired:
		c.Reason = topology.ReasonLeaseExpired
		c.Message = fmt.Sprintf(
			"the agent of MemberCluster %s has not renewed its Lease for %s; it gets nothing new until it does; look at the "+
				"agent, and at its way to the hub",
			m.Name,
			topology.LeaseDuration,
		)
	default:
		c.Status, c.Reason = metav1.ConditionTrue, topology.ReasonLeaseFresh
		c.Message = "the agent renews its Lease"
	}
	return c
}

// identityCondition tells of a refused cluster. It is written only from the first refusal on.
func identityCondition(f facts) (metav1.Condition, bool) {
	m := f.member
	c := metav1.Condition{Type: topology.MemberIdentity}
	if m.Status.RefusedClusterID != "" && m.Status.RefusedClusterID != clusterID(m) {
		c.Status, c.Reason = metav1.ConditionFalse, topology.ReasonClusterIDMismatch
		c.Message = fmt.Sprintf(
			"an agent of another cluster (id %s) came under the name MemberCluster %s, which is pinned to id %s, and was "+
				"refused; give that cluster a name of its own, or delete this MemberCluster and join again",
			m.Status.RefusedClusterID,
			m.Name,
			clusterID(m),
		)
		return c, true
	}
	if meta.FindStatusCondition(m.Status.Conditions, topology.MemberIdentity) == nil {
		return c, false
	}
	c.Status, c.Reason, c.Message = metav1.ConditionTrue, topology.ReasonPinned,
		"only the pinned cluster comes under this name"
	return c, true
}

// orphansCondition names objects that carry the hub's label and have no order. It is written only from the first one
// on.
func orphansCondition(f facts) (metav1.Condition, bool) {
	m := f.member
	c := metav1.Condition{Type: topology.MemberOrphans}
	if m.Status.Orphaned > 0 {
		c.Status, c.Reason = metav1.ConditionTrue, topology.ReasonOrphaned
		c.Message = orphans.Message(m, f.hubID)
		return c, true
	}
	if meta.FindStatusCondition(m.Status.Conditions, topology.MemberOrphans) == nil {
		return c, false
	}
	c.Status, c.Reason = metav1.ConditionFalse, topology.ReasonNoOrphans
	c.Message = "every object that carries the label of this hub has its order"
	return c, true
}

// plausibleCondition tells of reports that cannot be true. It is written only from the first one on.
func plausibleCondition(f facts) (metav1.Condition, bool) {
	m := f.member
	c := metav1.Condition{Type: topology.MemberPlausible}
	if f.nonsense != "" {
		c.Status, c.Reason = metav1.ConditionFalse, topology.ReasonNonsense
		c.Message = fmt.Sprintf(
			"MemberCluster %s reports %s; its numbers count as far as they can be true; look at who writes that status beside "+
				"its agent, or upgrade the agent",
			m.Name,
			f.nonsense,
		)
		return c, true
	}
	if meta.FindStatusCondition(m.Status.Conditions, topology.MemberPlausible) == nil {
		return c, false
	}
	c.Status, c.Reason, c.Message = metav1.ConditionTrue, topology.ReasonPlausible, "what the member reports can be true"
	return c, true
}

// silentCondition tells whether what the agent may still disrupt is lent to others. It is written only from the first
// silence on.
func silentCondition(f facts) (metav1.Condition, bool) {
	m := f.member
	c := metav1.Condition{Type: topology.MemberSilent}
	before := meta.FindStatusCondition(m.Status.Conditions, topology.MemberSilent)
	expired := f.lease.exists && !f.lease.former && !f.now.Before(f.lease.since.Add(topology.GrantsExpire))
	// What was known before this hub started goes on until the Lease is renewed, or is there again.
	if expired || silent(m) && !f.lease.changed {
		c.Status, c.Reason = metav1.ConditionTrue, topology.ReasonAllowancesReclaimed
		c.Message = fmt.Sprintf(
			"the agent of MemberCluster %s has not renewed its Lease for %s; what it may disrupt of rollouts is lent to other "+
				"members until it does; look at the agent, and at its way to the hub",
			m.Name,
			topology.GrantsExpire,
		)
		return c, true
	}
	if before == nil {
		return c, false
	}
	c.Status, c.Reason, c.Message = metav1.ConditionFalse, topology.ReasonHeard, "the agent renews its Lease again"
	return c, true
}

// silent tells whether the condition Silent stands as True.
func silent(m *topology.MemberCluster) bool {
	return meta.IsStatusConditionTrue(m.Status.Conditions, topology.MemberSilent)
}

// heldCondition tells of a failure of so many members that none of them is given up. It is written only from the first
// one on.
func heldCondition(f facts) (metav1.Condition, bool) {
	m := f.member
	c := metav1.Condition{Type: topology.MemberFailoverHeld}
	if f.together > 0 {
		c.Status, c.Reason = metav1.ConditionTrue, topology.ReasonMassFailure
		c.Message = fmt.Sprintf(
			"MemberCluster %s became NotReady together with others, a third or more of all members, so the hub suspects "+
				"itself and gives none of them up; look at the hub's network, and if nothing runs in the member any more, confirm "+
				"it with: flotilla fence %s --confirm",
			m.Name,
			m.Name,
		)
		return c, true
	}
	if meta.FindStatusCondition(m.Status.Conditions, topology.MemberFailoverHeld) == nil {
		return c, false
	}
	c.Status, c.Reason, c.Message = metav1.ConditionFalse, topology.ReasonNoMassFailure,
		"the member does not fail together with many others"
	return c, true
}

// clockCondition tells of a clock that is wrong. It is written only from the first time on. Which of the two is wrong,
// nobody knows here.
func clockCondition(f facts) (metav1.Condition, bool) {
	m := f.member
	c := metav1.Condition{Type: topology.MemberClockInSync}
	before := meta.FindStatusCondition(m.Status.Conditions, topology.MemberClockInSync)
	switch {
	case f.lease.apart != 0:
		way := "ahead of"
		if f.lease.apart < 0 {
			way = "behind"
		}
		c.Status, c.Reason = metav1.ConditionFalse, topology.ReasonClocksApart
		c.Message = fmt.Sprintf(
			"the clock of the agent of MemberCluster %s is %s %s the hub's; Leases and limits hold all the same, since each "+
				"goes by its own clock, but times in its reports are wrong, and certificates may count as expired; let the nodes "+
				"of both set their clocks by the same time servers (NTP)",
			m.Name,
			f.lease.apart.Abs(),
			way,
		)
	case before == nil:
		return c, false
	case !f.lease.compared: // what was known before this hub started goes on
		return *before, true
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, topology.ReasonClocksAgree,
			"the clocks of the agent and of the hub agree"
	}
	return c, true
}

// unanswered tells whether the agent has written a session that the hub has not acknowledged. Only the pinned cluster
// writes one.
func unanswered(m *topology.MemberCluster) bool {
	return m.Spec.ClusterID != "" && m.Status.Session != m.Spec.AcknowledgedSession
}

// next returns when the conditions can change without an event; 0 for never.
func next(f facts) time.Duration {
	if !f.lease.exists {
		return 0
	}
	if left := f.lease.since.Add(topology.LeaseDuration).Sub(f.now); left > 0 {
		return left
	}
	return max(f.lease.since.Add(topology.GrantsExpire).Sub(f.now), 0)
}
