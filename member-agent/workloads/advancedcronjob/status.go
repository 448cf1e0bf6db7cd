package advancedcronjob

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/cron"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

const (
	// conditionTicksMissed is True from when ticks were missed until a job is started without another one being missed.
	conditionTicksMissed = "TicksMissed"
	// reasonSkipped says that later ticks had come when the controller looked: the newest was started.
	reasonSkipped = "Skipped"
	// reasonScheduled says that the next tick is waited for.
	reasonScheduled = "Scheduled"
)

// report records the events of the pass and writes the status, if it changed. The ticks of a pass are written at once.
func (r *Reconciler) report(ctx context.Context, s *scope) (bool, error) {
	if m := s.plan.Missed; m.Count > 0 {
		r.Events.Eventf(s.cron, nil, corev1.EventTypeWarning, "MissedSchedule", "Schedule", "%s", missed(m))
	}
	for condition, err := range s.Failed() {
		r.Events.Eventf(s.cron, nil, corev1.EventTypeWarning, condition, "Retry", "%s", workload.Note(err))
	}
	have, want := s.cron.Status, s.status()
	return true, r.Report(ctx, s.pass, workload.Status{Have: &have, Want: &want})
}

// status returns the status that this pass observed.
func (s *scope) status() v1beta1.AdvancedCronJobStatus {
	out := *s.cron.Status.DeepCopy()
	out.ObservedGeneration, out.ObservedSchedule = s.cron.Generation, &s.plan.Observed
	switch t := &s.cron.Spec.Template; {
	case t.BroadcastJobTemplate != nil:
		out.Type = v1beta1.BroadcastJobTemplateType
	case t.ImageListPullJobTemplate != nil:
		out.Type = v1beta1.ImageListPullJobTemplateType
	default:
		out.Type = v1beta1.JobTemplateType
	}
	out.Active = nil
	for _, job := range s.plan.Active {
		out.Active = append(out.Active, reference(job))
	}
	started := s.plan.Started
	if s.Memory.started.After(started) {
		started = s.Memory.started
	}
	out.LastScheduleTime = later(out.LastScheduleTime, started)
	out.LastMissedTime = later(out.LastMissedTime, s.plan.Missed.Newest)
	out.Conditions = conditions.Merge(s.cron.Status.Conditions, s.facts.Now, s.conditions()...)
	return out
}

// later returns the later one of two times: what is recorded never moves back.
func later(recorded *metav1.Time, t time.Time) *metav1.Time {
	if t.IsZero() || recorded != nil && !t.After(recorded.Time) {
		return recorded
	}
	return &metav1.Time{Time: t}
}

// conditions returns the conditions of this pass.
func (s *scope) conditions() []conditions.Condition {
	list, failed := s.Failures(conditionFailedCreateJob)
	if m := s.plan.Missed; m.Count > 0 {
		list = append(list, conditions.Condition{Type: conditionTicksMissed, Status: corev1.ConditionTrue,
			Reason: causeOf(m), Message: missed(m)})
	} else if s.started() && !s.missedBefore() {
		list = append(list, conditions.Remove(conditionTicksMissed))
	}
	ready := conditions.Condition{Type: v1beta1.ConditionReady, Status: corev1.ConditionTrue, Reason: reasonScheduled}
	reconciling := conditions.Condition{Type: v1beta1.ConditionReconciling, Status: corev1.ConditionFalse,
		Reason: reasonScheduled}
	stalled := conditions.Condition{Type: v1beta1.ConditionStalled, Status: corev1.ConditionFalse,
		Reason: conditions.ReasonNotStalled}
	switch {
	case s.Stalled != nil:
		ready.Status, ready.Reason, ready.Message = corev1.ConditionFalse, s.Stalled.Reason, s.Stalled.Message
		reconciling.Reason = s.Stalled.Reason
		stalled.Status, stalled.Reason, stalled.Message = corev1.ConditionTrue, s.Stalled.Reason, s.Stalled.Message
	case failed != nil:
		ready.Status, ready.Reason, ready.Message = corev1.ConditionFalse, failed.Reason, failed.Message
		reconciling.Status, reconciling.Reason, reconciling.Message = corev1.ConditionTrue, failed.Reason, failed.Message
	case paused(s.cron):
		ready.Reason, ready.Message = conditions.ReasonPaused, "no job is started, because spec.paused is true"
		reconciling.Reason = conditions.ReasonPaused
	case s.facts.Held != nil:
		held := s.facts.Held
		ready.Status, ready.Reason, ready.Message = corev1.ConditionFalse, held.Reason, held.Message
		reconciling.Status, reconciling.Reason, reconciling.Message = corev1.ConditionTrue, held.Reason, held.Message
	default:
		ready.Message = fmt.Sprintf("the next tick is at %s", s.plan.Next.UTC().Format(time.RFC3339))
	}
	list = append(list, ready, reconciling, stalled)
	if s.Leaving != nil {
		list = conditions.Deleted(list, *s.Leaving)
	}
	return list
}

// missedBefore reports whether the tick before the one that this pass started was missed.
func (s *scope) missedBefore() bool {
	missed := s.cron.Status.LastMissedTime
	return missed != nil && missed.After(s.facts.started())
}

// started reports whether this pass started a tick.
func (s *scope) started() bool { return !s.plan.Start.IsZero() && s.Memory.started.Equal(s.plan.Start) }

func causeOf(m cron.Missed) string {
	if m.Cause == "" {
		return reasonSkipped
	}
	return string(m.Cause)
}

// missed says which ticks were missed, and why.
func missed(m cron.Missed) string {
	count, newest := fmt.Sprintf("%d ticks were", m.Count), m.Newest.UTC().Format(time.RFC3339)
	switch {
	case m.More:
		count = fmt.Sprintf("more than %d ticks were", m.Count)
	case m.Count == 1:
		count = "1 tick was"
	}
	text := fmt.Sprintf("%s missed, the newest at %s", count, newest)
	switch m.Cause {
	case cron.TooLate:
		return text + ": startingDeadlineSeconds had passed when it could have been started"
	case cron.Elsewhere:
		return text + ": the member that had the schedule before is lost, and may have started them"
	case cron.StillRunning:
		return text + ": the job of an earlier tick was running, and concurrencyPolicy is Forbid"
	}
	return text + ": a later tick came before the job could be created, and only the newest tick is started"
}

// kindOf returns the kind of the jobs.
func kindOf(t *v1beta1.CronJobTemplate) schema.GroupVersionKind {
	switch {
	case t.BroadcastJobTemplate != nil:
		return v1beta1.BroadcastJobKind
	case t.ImageListPullJobTemplate != nil:
		return v1beta1.ImageListPullJobKind
	}
	return jobKind()
}
