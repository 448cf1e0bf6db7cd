package podprobemarker

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// report writes the status, if it changed.
func (r *Reconciler) report(ctx context.Context, s *scope) (bool, error) {
	want := s.marker.Status.DeepCopy()
	want.ObservedGeneration = s.marker.Generation
	if s.Leaving == nil {
		want.MatchedPods, want.Flotilla = int64(s.found.pods), s.found.counts(s.marker)
	}
	before := meta.FindStatusCondition(s.marker.Status.Conditions, v1beta1.ConditionReady)
	begins := false // writes are refused since this pass
	for _, c := range s.conditions() {
		if c.Type == v1beta1.ConditionReady && c.Reason == reasonMarksRefused &&
			(before == nil || before.Reason != c.Reason) {
			begins = true
			r.Events.Eventf(s.marker, nil, corev1.EventTypeWarning, c.Reason, "Retry", "%s",
				workload.Note(errors.New(c.Message)))
		}
		meta.SetStatusCondition(&want.Conditions, metav1.Condition{Type: c.Type, Status: metav1.ConditionStatus(c.Status),
			Reason: c.Reason, Message: c.Message, ObservedGeneration: s.marker.Generation,
			LastTransitionTime: metav1.NewTime(r.Clock.Now())})
	}
	same := !begins && s.marker.Status.ObservedGeneration == want.ObservedGeneration &&
		len(s.marker.Status.Conditions) == len(want.Conditions)
	return true, r.Report(ctx, s.pass, workload.Status{Have: &s.marker.Status, Want: want, CountersOnly: same})
}

// conditions returns Ready, Reconciling and Stalled.
func (s *scope) conditions() []conditions.Condition {
	ready := conditions.Condition{Type: v1beta1.ConditionReady, Status: corev1.ConditionFalse}
	reconciling := conditions.Condition{Type: v1beta1.ConditionReconciling, Status: corev1.ConditionFalse}
	stalled := conditions.Condition{Type: v1beta1.ConditionStalled, Status: corev1.ConditionFalse,
		Reason: conditions.ReasonNotStalled}
	if s.Leaving != nil {
		return conditions.Deleted([]conditions.Condition{ready, reconciling, stalled}, *s.Leaving)
	}
	cause, waits := s.found.cause()
	if s.Stalled == nil {
		s.Stalled = s.found.stalled()
	}
	switch {
	case s.Stalled != nil:
		ready.Reason, ready.Message, reconciling.Reason = s.Stalled.Reason, s.Stalled.Message, s.Stalled.Reason
		stalled.Status, stalled.Reason, stalled.Message = corev1.ConditionTrue, s.Stalled.Reason, s.Stalled.Message
	case waits:
		ready.Reason, ready.Message = cause.Reason, cause.Message
		reconciling.Status, reconciling.Reason, reconciling.Message = corev1.ConditionTrue, cause.Reason, cause.Message
	default:
		ready.Status, ready.Reason, ready.Message = corev1.ConditionTrue, cause.Reason, cause.Message
		reconciling.Reason = cause.Reason
	}
	return []conditions.Condition{ready, reconciling, stalled}
}
