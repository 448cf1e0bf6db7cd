package daemonset

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/pernode"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// report records the events of the pass and writes the status, if it changed.
func (r *Reconciler) report(ctx context.Context, s *scope) (bool, error) {
	r.Record(s.pass, s.done, s.plan.Actions)
	have, want := s.set.Status, s.status()
	return true, r.Report(ctx, s.pass, workload.Status{
		Have: &have, Want: &want,
		CountersOnly: have.ObservedGeneration == want.ObservedGeneration &&
			have.ObservedSequence == want.ObservedSequence && have.UpdateRevision == want.UpdateRevision &&
			have.CurrentRevision == want.CurrentRevision && conditions.SameStatus(have.Conditions, want.Conditions),
		Worked: s.done.Any() && len(s.Failed()) == 0 && s.Stalled == nil,
	})
}

// status returns the status that this pass observed.
func (s *scope) status() v1beta1.DaemonSetStatus {
	out := *s.set.Status.DeepCopy()
	if !s.Halted { // else the template has not been looked at
		out.ObservedGeneration, out.ObservedSequence = s.set.Generation, workload.Sequence(s.set)
	}
	if c := s.plan.Counts; s.facts.Nodes != nil { // else nothing says which nodes fit
		out.DesiredNumberScheduled, out.CurrentNumberScheduled = int32(c.Desired), int32(c.Current)
		out.UpdatedNumberScheduled, out.NumberMisscheduled = int32(c.Updated), int32(c.Misscheduled)
		out.NumberReady, out.NumberAvailable = int32(c.Ready), int32(c.Available)
		out.NumberUnavailable = int32(c.Desired - c.Available)
		out.NodeCounts = s.nodeCounts()
	}
	out.UpdateRevision, out.CurrentRevision = s.facts.Update.Hash, s.facts.Current.Hash
	if s.reachesAll() {
		out.CurrentRevision = out.UpdateRevision
	}
	out.CollisionCount = s.facts.Collisions
	out.Conditions = s.conditions(out)
	return out
}

// reachesAll reports whether all nodes have the update revision, and no node that comes has to get the previous one:
// because of the partition or the selector, or because a hub keeps it. Without nodes nothing has been reached.
func (s *scope) reachesAll() bool {
	kept, _ := workload.ReadPrevious(s.set) // a mistake in it is reported before
	c := s.plan.Counts
	return kept == nil && c.Desired > 0 && c.UpdatedAvailable == c.Desired && s.plan.Expected >= c.Desired &&
		rollingOf(s.set).Selector == nil
}

// nodeCounts returns the counts that the published counters lack.
func (s *scope) nodeCounts() *v1beta1.DaemonSetNodeCounts {
	c := s.plan.Counts
	return &v1beta1.DaemonSetNodeCounts{
		UpdatedAvailable: int32(c.UpdatedAvailable), Surging: int32(c.Surging),
		Withheld: int32(s.plan.Held[pernode.NotCreatable]), NotUpdatable: int32(c.Desired - c.Updatable),
		LostUnavailable: int32(c.LostUnavailable), LostOutdated: int32(c.LostOutdated),
	}
}

// conditions returns the conditions that go with the counters of status.
func (s *scope) conditions(status v1beta1.DaemonSetStatus) []v1beta1.DaemonSetCondition {
	c := s.plan.Counts
	facts := conditions.Facts{
		Desired: int32(s.plan.wanted()), ExpectedUpdated: int32(s.plan.Expected),
		Replicas: int32(c.Current), Updated: int32(c.Updated),
		Available: int32(c.Available), UpdatedAvailable: int32(c.UpdatedAvailable),
		Paused:    s.facts.paused(),
		OnDelete:  s.facts.onDelete(),
		HubSilent: s.facts.Budget.Expired,
		Stalled:   s.Stalled,
		Held:      s.held(),
		Waiting:   s.plan.Waiting.Message(),
		Revision:  status.UpdateRevision,
		KeptBy:    s.keptBy(),
	}
	want, failed := s.Failures(string(v1beta1.DaemonSetConditionFailedCreatePod),
		string(v1beta1.DaemonSetConditionFailedUpdatePod))
	facts.Failed = failed
	for i := range want {
		isKept := func(c v1beta1.DaemonSetCondition) bool { return string(c.Type) == want[i].Type }
		if want[i].Status == "" && slices.ContainsFunc(s.set.Status.Conditions, isKept) {
			// It stays, so that a reader sees that there was a failure, and that it is over.
			want[i].Status, want[i].Reason = corev1.ConditionFalse, reasonSucceeded
		}
	}
	summary := conditions.Summarise(facts, conditions.NamesOf("DaemonSet"))
	switch {
	case s.Leaving != nil:
		summary = conditions.Deleted(summary, s.Left(int32(c.Current)))
	case s.facts.Nodes != nil && c.Desired == 0 && facts.Complete() && s.Stalled == nil:
		summary[0].Reason, summary[0].Message = reasonNoNodeFits, s.misfits()
	}
	return conditions.Merge(s.set.Status.Conditions, s.facts.Now, append(want, summary...)...)
}

const (
	// reasonSucceeded says that a failure is over.
	reasonSucceeded = "Succeeded"
	// reasonNoNodeFits says that no pod is to run, since no node fits the template.
	reasonNoNodeFits = "NoNodeFits"
	// reasonNodesLost says that nothing is left to do but on nodes that nobody waits for.
	reasonNodesLost = "NodesLost"
	// reasonBurstReplicas says that burstReplicas holds the creation and deletion of all pods.
	reasonBurstReplicas = "BurstReplicasZero"
)

// held says why pods are not created, deleted or updated, beside the limits of the update; nil if there is no reason.
func (s *scope) held() *conditions.Cause {
	c := s.plan.Counts
	burst := s.plan.Held[pernode.Burst]
	switch {
	case burst > 0 && len(s.plan.Create)+len(s.plan.Delete) == 0:
		return &conditions.Cause{Reason: reasonBurstReplicas, Message: fmt.Sprintf(
			"burstReplicas is 0, so %d pods are neither created nor deleted: raise it", burst)}
	case c.LostUnavailable+c.LostOutdated > 0 && c.Available+c.LostUnavailable >= s.plan.wanted() &&
		c.Updated+c.LostOutdated >= s.plan.Expected:
		return &conditions.Cause{Reason: reasonNodesLost, Message: fmt.Sprintf(
			"%d of %d pods are available and %d updated; the other nodes have been NotReady for %s, and are not waited for: "+
				"repair or delete them", c.Available, c.Desired, c.Updated, pernode.LostAfter)}
	}
	return nil
}

// keptBy names what keeps nodes on their revision, for messages.
func (s *scope) keptBy() string {
	rolling := rollingOf(s.set)
	switch {
	case rolling.Selector == nil:
		return "the partition"
	case s.plan.Counts.Updatable > s.plan.Expected:
		return "the partition, and the selector of nodes,"
	}
	return "the selector of nodes"
}

// misfits says why no node fits.
func (s *scope) misfits() string {
	n := s.facts.Fitness
	if len(s.facts.Nodes) == 0 {
		return "the cluster has no nodes, so no pod is to run"
	}
	return fmt.Sprintf("no node fits the template, so no pod is to run: of %d nodes, nodeName, nodeSelector or node "+
		"affinity exclude %d, and %d have taints that are not tolerated", len(s.facts.Nodes), n[pernode.Unmatched],
		n[pernode.Evicting]+n[pernode.Tainted])
}

// Reporting is what reports to a hub ask about DaemonSets. An order is observed by its sequence, because a budget alone
// does not change the generation.
func Reporting() workload.Reporting {
	return workload.Reporting{
		Use: func(live *unstructured.Unstructured) ([]work.SubsetUse, error) {
			set, err := workload.Decode(live, &v1beta1.DaemonSet{})
			if err != nil {
				return nil, err
			}
			return []work.SubsetUse{work.DaemonSetUse(&set.Status)}, nil
		},
		Observed: func(live *unstructured.Unstructured) bool {
			return workload.Observed(live) && workload.ObservedSequence(live)
		},
		Restarts: true,
	}
}
