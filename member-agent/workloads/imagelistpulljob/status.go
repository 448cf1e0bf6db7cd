package imagelistpulljob

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// The reasons of conditions beside those of all kinds.
const (
	reasonPulled     = "Pulled"
	reasonPulling    = "Pulling"
	reasonPullFailed = "PullFailed"
	reasonNodesDone  = "NodesDone"
	// reasonFailedCreateJob says that an ImagePullJob cannot be created or deleted.
	reasonFailedCreateJob = "FailedCreateJob"
)

// report records the events of the pass and writes the status, if it changed.
func (r *Reconciler) report(ctx context.Context, s *scope) (bool, error) {
	for condition, err := range s.Failed() {
		r.Events.Eventf(s.job, nil, corev1.EventTypeWarning, condition, "Retry", "%s", workload.Note(err))
	}
	have, now := &s.job.Status, metav1.NewTime(r.Clock.Now())
	want := have.DeepCopy()
	if s.Leaving == nil {
		want = s.plan.Status.DeepCopy()
	}
	want.ObservedGeneration = s.job.Generation
	if have.CompletionTime == nil || s.Leaving != nil {
		for _, c := range s.conditions(want) {
			c.ObservedGeneration, c.LastTransitionTime = s.job.Generation, now
			meta.SetStatusCondition(&want.Conditions, c)
		}
	}
	counters := slices.EqualFunc(have.Conditions, want.Conditions, func(a, b metav1.Condition) bool {
		return a.Type == b.Type && a.Status == b.Status && a.Reason == b.Reason
	}) && have.ObservedGeneration == want.ObservedGeneration && have.CompletionTime.Equal(want.CompletionTime)
	err := r.Report(ctx, s.pass, workload.Status{Have: have, Want: want, CountersOnly: counters})
	if err == nil && have.CompletionTime == nil && want.CompletionTime != nil && s.Leaving == nil {
		kind := corev1.EventTypeNormal
		if want.Succeeded < want.Desired {
			kind = corev1.EventTypeWarning
		}
		r.Events.Eventf(s.job, nil, kind, "JobComplete", "Complete", "%d of %d images are on all nodes", want.Succeeded,
			want.Desired)
	}
	return err == nil, err
}

// conditions returns Ready, Reconciling and Stalled.
func (s *scope) conditions(status *v1beta1.ImageListPullJobStatus) []metav1.Condition {
	ready := metav1.Condition{Type: v1beta1.ConditionReady, Status: metav1.ConditionFalse}
	reconciling := metav1.Condition{Type: v1beta1.ConditionReconciling, Status: metav1.ConditionFalse,
		Message: "nothing is in progress"}
	stalled := metav1.Condition{Type: v1beta1.ConditionStalled, Status: metav1.ConditionFalse,
		Reason: conditions.ReasonNotStalled, Message: "no one has to act"}
	cause := conditions.Cause{Reason: reasonPulling, Message: fmt.Sprintf(
		"%d of %d images are on all nodes, the pulls of %d have not ended", status.Succeeded, status.Desired,
		status.Desired-status.Completed)}
	never := s.job.Spec.CompletionPolicy.Type == v1beta1.NeverCompletionPolicyType
	switch {
	case s.Leaving != nil:
		cause = conditions.Cause{Reason: s.Leaving.Reason, Message: s.Leaving.Message}
		reconciling.Status = metav1.ConditionTrue
	case s.Failed()[reasonFailedCreateJob] != nil:
		cause = conditions.Cause{Reason: reasonFailedCreateJob,
			Message: workload.Text(s.Failed()[reasonFailedCreateJob])}
		reconciling.Status = metav1.ConditionTrue
	case s.plan.Held != nil:
		cause = *s.plan.Held
		stalled.Status, stalled.Reason, stalled.Message = metav1.ConditionTrue, cause.Reason, cause.Message
	case status.Completed < status.Desired:
		reconciling.Status = metav1.ConditionTrue
	case status.Succeeded < status.Desired:
		first := status.FailedImageStatuses[0]
		cause = conditions.Cause{Reason: reasonPullFailed, Message: fmt.Sprintf("%d of %d images are on all nodes; %s is "+
			"not: see ImagePullJob %s", status.Succeeded, status.Desired, first.Name, first.ImagePullJob)}
		stalled.Status, stalled.Reason, stalled.Message = metav1.ConditionTrue, cause.Reason, cause.Message
	case never:
		cause = conditions.Cause{Reason: reasonNodesDone, Message: "all images are on all nodes; completionPolicy.type is " +
			"Never, so the job waits for more nodes"}
		ready.Status = metav1.ConditionTrue
	default:
		cause = conditions.Cause{Reason: reasonPulled, Message: fmt.Sprintf("all %d images are on all nodes", status.Desired)}
		ready.Status = metav1.ConditionTrue
	}
	ready.Reason, ready.Message, reconciling.Reason = cause.Reason, cause.Message, cause.Reason
	if reconciling.Status == metav1.ConditionTrue {
		reconciling.Message = cause.Message
	}
	return []metav1.Condition{ready, reconciling, stalled}
}
