package uniteddeployment

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	kruise "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// Reasons of the conditions that OpenKruise publishes.
const (
	// ReasonRevisionUpdated: UnitedDeploymentUpdated, with the revision in its message.
	ReasonRevisionUpdated = "UnitedDeploymentRevisionUpdated"
	// ReasonWriteFailed: SubsetFailure, a child could not be written; it is tried again.
	ReasonWriteFailed = "WriteFailed"
)

// Reasons that the children give: their controllers say so, the message repeats what they say.
const (
	// ReasonChildStalled: the controller of a child waits for a person.
	ReasonChildStalled = "ChildStalled"
	// ReasonChildFailed: the controller of a child failed and tries again.
	ReasonChildFailed = "ChildFailed"
)

// report writes the status if it changed.
func (r *reconciler) report(ctx context.Context, s *scope) (bool, error) {
	status := s.ud.Status.DeepCopy()
	fillStatus(status, s.seen, s.todo, s.failed, r.Clock.Now())
	return true, r.Report(ctx, s.pass, workload.Status{Have: &s.ud.Status, Want: status})
}

// fillStatus brings the status to what was observed and planned.
func fillStatus(status *kruise.UnitedDeploymentStatus, o *observed, p *plan, failed error, now time.Time) {
	old := &o.ud.Status
	facts := conditions.Facts{Desired: orOne(o.ud.Spec.Replicas), OnDelete: onDelete(o.ud)}
	switch {
	case p.leaving != nil:
		status.SubsetStatuses = leavingRows(old.SubsetStatuses, p.others)
	case p.refused != nil:
		status.SubsetStatuses = refusedRows(old.SubsetStatuses, p.others)
	default:
		status.SubsetStatuses = plannedRows(o, p, &facts)
	}
	existing := addUp(status)
	facts.Replicas = status.Replicas
	facts.Stalled, facts.Failed = causes(p, failed)
	if o.collisions != nil && (*o.collisions > 0 || old.CollisionCount != nil) {
		status.CollisionCount = o.collisions
	}
	if selector, err := metav1.LabelSelectorAsSelector(o.ud.Spec.Selector); err == nil {
		status.LabelSelector = selector.String()
		if s := scheduleOf(o.ud); s != nil && s.reserve {
			// Autoscalers and kubectl scale read sets, not "!=".
			status.LabelSelector += "," + LabelReservedPod + " notin (" + reservedValue + ")"
		}
	}
	done := carriedOut(o, p, failed)
	if p.leaving != nil {
		status.ObservedGeneration = o.ud.Generation
		cause := conditions.Cause{Reason: p.leaving.Reason,
			Message: fmt.Sprintf("%s; it has %d pods", p.leaving.Message, status.Replicas)}
		summary := conditions.Deleted(conditions.Summarise(facts, conditions.NamesOf("UnitedDeployment")), cause)
		status.Conditions = conditions.Merge(status.Conditions, now,
			append(summary, conditions.Remove(string(kruise.SubsetFailure)))...)
		return
	}
	if p.refused == nil {
		status.UpdatedRevision = o.revision
		if status.CurrentRevision == "" || done && status.UpdatedReplicas == existing && status.Replicas == facts.Desired {
			status.CurrentRevision = o.revision
		}
	}
	if done || (facts.Stalled != nil && facts.Stalled.Reason != ReasonChildStalled && len(p.problems) == 0) {
		status.ObservedGeneration = o.ud.Generation
	}
	if followed(p) {
		status.ObservedSequence = workload.Sequence(o.ud)
	}
	status.Conditions = conditions.Merge(status.Conditions, now, published(o, p, &facts, failed)...)
	status.Conditions = conditions.Merge(status.Conditions, now,
		conditions.Summarise(facts, conditions.NamesOf("UnitedDeployment"))...)
}

// addUp fills the sums of the subsets, and returns how many pods exist.
func addUp(status *kruise.UnitedDeploymentStatus) (existing int32) {
	status.Replicas, status.ReadyReplicas, status.UpdatedReplicas, status.UpdatedReadyReplicas, status.ReservedPods = 0,
		0, 0, 0, 0
	for _, row := range status.SubsetStatuses {
		existing += row.Replicas
		// As published: the sums of ready and updated pods have all pods, that of replicas leaves the reserved ones out, and
		// the rows of the subsets count them.
		status.Replicas += max(0, row.Replicas-row.ReservedPods)
		status.ReadyReplicas += row.ReadyReplicas
		status.UpdatedReplicas += row.UpdatedReplicas
		status.UpdatedReadyReplicas += row.UpdatedReadyReplicas
		status.ReservedPods += row.ReservedPods
	}
	return existing
}

// followed reports whether the children of all subsets have what the hub's order gives them, and their controllers have
// seen it. What the order permits holds then. A child that goes with its subset has no part in that, however long its
// pods stay.
func followed(p *plan) bool {
	return p.refused == nil && !slices.ContainsFunc(p.subsets, func(s subsetPlan) bool { return s.settling })
}

// carriedOut reports whether all children are as planned and their controllers have seen it.
func carriedOut(o *observed, p *plan, failed error) bool {
	if failed != nil || p.refused != nil || len(p.drain) > 0 || p.waits {
		return false
	}
	if slices.ContainsFunc(p.subsets, func(s subsetPlan) bool { return s.settling }) {
		return false
	}
	return !slices.ContainsFunc(p.others, func(c *child) bool { return !c.terminating() && !seen(c, o.known) })
}

// causes returns why nothing moves, or what failed and is tried again.
func causes(p *plan, failed error) (stalled, retried *conditions.Cause) {
	switch {
	case p.refused != nil:
		return &conditions.Cause{Reason: p.refused.reason, Message: p.refused.message}, nil
	case refusedOnly(failed):
		return &conditions.Cause{Reason: ReasonChildRefused,
			Message: failed.Error() + "; correct spec.template or the patch of the subset"}, nil
	case failed != nil:
		return nil, &conditions.Cause{Reason: ReasonWriteFailed, Message: failed.Error()}
	case len(p.problems) > 0:
		messages := make([]string, 0, len(p.problems))
		for _, bad := range p.problems {
			messages = append(messages, bad.message)
		}
		return &conditions.Cause{Reason: p.problems[0].reason, Message: strings.Join(messages, "; ")}, nil
	}
	stalled = told(p, ReasonChildStalled, func(c *child) *conditions.Cause { return c.stalled })
	return stalled, told(p, ReasonChildFailed, func(c *child) *conditions.Cause { return c.failed })
}

// children returns the children in the order of the subsets, behind them those that no subset keeps and that are not
// being deleted.
func (p *plan) children() []*child {
	var all []*child
	for i := range p.subsets {
		if live := p.subsets[i].live; live != nil {
			all = append(all, live)
		}
	}
	for _, c := range p.others {
		if !c.terminating() {
			all = append(all, c)
		}
	}
	return all
}

// told returns what the children say of themselves, the first of them in that order; nil if none says it.
func told(p *plan, reason string, says func(*child) *conditions.Cause) *conditions.Cause {
	var all *conditions.Cause
	more := 0
	for _, c := range p.children() {
		if says(c) == nil {
			continue
		}
		if all != nil {
			more++
			continue
		}
		cause := says(c)
		all = &conditions.Cause{Reason: reason, Message: fmt.Sprintf("%s of subset %q: %s: %s", c.name(), c.subset,
			cause.Reason, cause.Message)}
	}
	if more > 0 {
		all.Message += fmt.Sprintf("; and %d more", more)
	}
	return all
}

// published returns OpenKruise's own conditions.
func published(o *observed, p *plan, facts *conditions.Facts, failed error) []conditions.Condition {
	failure := conditions.Remove(string(kruise.SubsetFailure))
	if cause := cmp.Or(facts.Stalled, facts.Failed); cause != nil {
		failure.Status, failure.Reason, failure.Message = corev1.ConditionTrue, cause.Reason, cause.Message
	}
	if p.refused != nil {
		return []conditions.Condition{failure}
	}
	provisioned := conditions.Condition{Type: string(kruise.SubsetProvisioned), Status: corev1.ConditionTrue}
	updated := conditions.Condition{Type: string(kruise.SubsetUpdated), Status: corev1.ConditionTrue}
	if failed != nil && len(p.create) > 0 {
		provisioned.Status, provisioned.Reason = corev1.ConditionFalse, ReasonWriteFailed
	}
	if failed != nil && len(p.change)+len(p.drain) > 0 {
		updated.Status, updated.Reason = corev1.ConditionFalse, ReasonWriteFailed
	}
	revision := conditions.Condition{Type: string(kruise.UnitedDeploymentUpdated), Status: corev1.ConditionTrue,
		Reason: ReasonRevisionUpdated, Message: "updated to revision " + o.revision}
	all := []conditions.Condition{provisioned, updated, failure, revision}
	if o.ud.Status.UpdatedRevision != o.revision {
		// Its time tells when the revision changed, so a new revision is a new condition.
		all = slices.Insert(all, 0, conditions.Remove(string(kruise.UnitedDeploymentUpdated)))
	}
	return all
}

// plannedRows returns the status of each subset, in the order of the spec, and behind them removed ones that still
// exist. It counts in facts only what the plan asks for: a pod too many in one subset does not stand for one missing in
// another.
func plannedRows(o *observed, p *plan, facts *conditions.Facts) []kruise.SubsetStatus {
	rows := make([]kruise.SubsetStatus, 0, len(p.subsets))
	waiting, paused := false, true
	for i := range p.subsets {
		s := &p.subsets[i]
		row := kruise.SubsetStatus{Name: s.name, DesiredReplicas: s.desired, Partition: s.partition, ReservedPods: s.reserved}
		if s.schedulable != nil {
			row.Conditions = []kruise.SubsetCondition{*s.schedulable}
		}
		if s.live != nil {
			addPods(&row, s.live)
			updated := updatedOf(o, s.live)
			row.UpdatedReplicas, row.UpdatedReadyReplicas, row.UpdatedAvailableReplicas = updated.updated,
				updated.updatedReady, updated.updatedAvailable
			row.CanGoBack = s.live.canGoBack
			facts.Available += min(s.live.pods.available, s.counted())
		}
		expected := s.expected()
		if facts.OnDelete {
			expected = min(row.UpdatedReplicas, expected) // whoever deletes pods decides how many
		}
		facts.Updated += min(row.UpdatedReplicas, expected)
		facts.UpdatedAvailable += min(row.UpdatedAvailableReplicas, expected)
		if row.UpdatedReplicas < expected {
			waiting, paused = true, paused && s.paused
		}
		facts.ExpectedUpdated += expected
		rows = append(rows, row)
	}
	facts.HubSilent = o.budget.Expired
	facts.Paused = waiting && paused && !facts.HubSilent
	for _, c := range p.others {
		i := slices.IndexFunc(rows, func(row kruise.SubsetStatus) bool { return row.Name == c.subset })
		if i < 0 {
			i, rows = len(rows), append(rows, kruise.SubsetStatus{Name: c.subset})
		}
		addPods(&rows[i], c)
	}
	return rows
}

// refusedRows keeps what was decided before and counts the pods anew.
func refusedRows(old []kruise.SubsetStatus, children []*child) []kruise.SubsetStatus {
	rows := slices.Clone(old)
	for i := range rows {
		rows[i].Replicas, rows[i].ReadyReplicas, rows[i].AvailableReplicas = 0, 0, 0
		for _, c := range children {
			if c.subset == rows[i].Name {
				addPods(&rows[i], c)
			}
		}
	}
	return rows
}

func addPods(row *kruise.SubsetStatus, c *child) {
	row.Replicas += c.pods.replicas
	row.ReadyReplicas += c.pods.ready
	row.AvailableReplicas += c.pods.available
}

// updatedOf returns the counters of updated pods of a child. They mean the newest revision only once its controller has
// seen the template of it; until then what was reported of that revision before holds.
func updatedOf(o *observed, c *child) counters {
	if c.revision != o.revision {
		return counters{}
	}
	if seen(c, o.known) {
		return c.pods
	}
	if o.ud.Status.UpdatedRevision != o.revision {
		return counters{}
	}
	i := slices.IndexFunc(o.ud.Status.SubsetStatuses, func(row kruise.SubsetStatus) bool { return row.Name == c.subset })
	if i < 0 {
		return counters{}
	}
	row := o.ud.Status.SubsetStatuses[i]
	return counters{updated: row.UpdatedReplicas, updatedReady: row.UpdatedReadyReplicas,
		updatedAvailable: min(row.UpdatedReplicas, c.pods.updatedAvailable)}
}

// leavingRows counts the pods anew. Updated pods are no more than there are.
func leavingRows(old []kruise.SubsetStatus, children []*child) []kruise.SubsetStatus {
	rows := refusedRows(old, children)
	for i := range rows {
		row := &rows[i]
		row.UpdatedReplicas, row.ReservedPods = min(row.UpdatedReplicas, row.Replicas), min(row.ReservedPods, row.Replicas)
		row.UpdatedReadyReplicas = min(row.UpdatedReadyReplicas, row.ReadyReplicas)
		row.UpdatedAvailableReplicas = min(row.UpdatedAvailableReplicas, row.AvailableReplicas)
	}
	return rows
}

// Reporting is what the report to the hub asks about UnitedDeployments.
func Reporting() workload.Reporting {
	return workload.Reporting{
		InSubsets: true,
		Use: func(live *unstructured.Unstructured) ([]work.SubsetUse, error) {
			ud, err := workload.Decode(live, &kruise.UnitedDeployment{})
			return work.UnitedDeploymentUse(&ud.Status), err
		},
		Observed: workload.ObservedSequence,
	}
}
