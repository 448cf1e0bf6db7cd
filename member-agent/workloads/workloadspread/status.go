package workloadspread

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// Reasons of Ready where nothing hinders, and where a write failed.
const (
	// ReasonInForce: the pods of the target are spread.
	ReasonInForce = "InForce"
	// ReasonWriteFailed: a pod could not be changed or deleted; it is tried again.
	ReasonWriteFailed = "WriteFailed"
)

// report records events of what was done, and writes the status if it changed.
func (r *reconciler) report(ctx context.Context, s *scope) (bool, error) {
	status := statusOf(s.seen, s.todo, s.failed)
	r.record(s, status)
	return true, r.Report(ctx, s.pass, workload.Status{Have: &s.ws.Status, Want: status})
}

// statusOf returns the status that this pass observed.
func statusOf(o *observed, p *plan, failed error) *v1beta1.WorkloadSpreadStatus {
	status := o.ws.Status.DeepCopy()
	status.ObservedGeneration = o.ws.Generation
	status.SubsetStatuses, status.VersionedSubsetStatuses = p.subsets, p.versions
	for _, c := range summary(o, p, failed) {
		c.ObservedGeneration = o.ws.Generation
		c.LastTransitionTime = metav1.NewTime(o.now)
		meta.SetStatusCondition(&status.Conditions, c)
	}
	return status
}

// summary returns Ready, Reconciling and Stalled.
func summary(o *observed, p *plan, failed error) []metav1.Condition {
	stalled := cmp.Or(o.stalled, p.refused)
	waiting := o.waiting
	if failed != nil {
		waiting = &conditions.Cause{Reason: ReasonWriteFailed, Message: short(failed)}
	}
	ready := metav1.Condition{Type: v1beta1.ConditionReady, Status: metav1.ConditionTrue, Reason: ReasonInForce,
		Message: inForce(o, p)}
	reconciling := metav1.Condition{Type: v1beta1.ConditionReconciling, Status: metav1.ConditionFalse,
		Reason: ReasonInForce, Message: "nothing is on its way"}
	stuck := metav1.Condition{Type: v1beta1.ConditionStalled, Status: metav1.ConditionFalse,
		Reason: conditions.ReasonNotStalled, Message: "nothing waits for a person"}
	if cause := cmp.Or(stalled, waiting); cause != nil {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, cause.Reason, cause.Message
	}
	switch {
	case stalled != nil:
		stuck.Status, stuck.Reason, stuck.Message = metav1.ConditionTrue, stalled.Reason, stalled.Message
		reconciling.Reason, reconciling.Message = stalled.Reason, "it waits for a person"
	case waiting != nil:
		reconciling.Status, reconciling.Reason, reconciling.Message = metav1.ConditionTrue, waiting.Reason, waiting.Message
	}
	return []metav1.Condition{ready, reconciling, stuck}
}

// inForce tells how many pods are where they are to be.
func inForce(o *observed, p *plan) string {
	switch {
	case p.outside == 0:
		return "all pods are in the subsets, within their limits"
	case o.target.Costly():
		return fmt.Sprintf("%d of %d pods are in no subset, or beyond the maxReplicas of theirs: they are removed first "+
			"when the target is scaled in", p.outside, p.total)
	}
	return fmt.Sprintf("%d of %d pods are in no subset, or beyond the maxReplicas of theirs; they run on", p.outside,
		p.total)
}

// record makes the events of the pass.
func (r *reconciler) record(s *scope, status *v1beta1.WorkloadSpreadStatus) {
	o, p, removed, failed := s.seen, s.todo, s.removed, s.failed
	for i, c := range p.schedulable {
		if c == nil {
			continue
		}
		name := p.subsets[i].Name
		switch have := schedulableOf(o.ws, name); {
		case c.Status == metav1.ConditionFalse && (have == nil || !have.LastTransitionTime.Equal(&c.LastTransitionTime)):
			r.Events.Eventf(o.ws, nil, corev1.EventTypeWarning, "SubsetClosed", "Close", "subset %s is closed: %s", name,
				c.Message)
		case c.Status == metav1.ConditionTrue && have != nil && have.Status == metav1.ConditionFalse:
			r.Events.Eventf(o.ws, nil, corev1.EventTypeNormal, "SubsetOpened", "Open", "subset %s is open again", name)
		}
	}
	if removed > 0 {
		r.Events.Eventf(o.ws, nil, corev1.EventTypeNormal, "SuccessfulDelete", "Delete",
			"deleted %d pods that waited for a node in closed subsets", removed)
	}
	if failed != nil {
		r.Events.Eventf(o.ws, nil, corev1.EventTypeWarning, ReasonWriteFailed, "Retry", "%s", short(failed))
	}
	now := meta.FindStatusCondition(status.Conditions, v1beta1.ConditionStalled)
	if now.Status == metav1.ConditionTrue && !meta.IsStatusConditionTrue(o.ws.Status.Conditions,
		v1beta1.ConditionStalled) {
		r.Events.Eventf(o.ws, nil, corev1.EventTypeWarning, now.Reason, "Stall", "%s", now.Message)
	}
}

// longest is how much of an error a condition and an event show: the first failures say it all.
const longest = 1000

func short(err error) string {
	text := err.Error()
	return text[:min(len(text), longest)]
}
