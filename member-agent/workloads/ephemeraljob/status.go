package ephemeraljob

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// The reasons of conditions. Those with Job in their names, DeadlineExceeded, MatchEmpty and Initialized are published.
const (
	reasonInitialized       = "Initialized"
	reasonJobSucceeded      = "JobSucceeded"
	reasonJobFailed         = "JobFailed"
	reasonDeadlineExceeded  = "DeadlineExceeded"
	reasonMatchEmpty        = "MatchEmpty"
	reasonNoContainer       = "NoContainer"
	reasonInvalidSelector   = "InvalidSelector"
	reasonContainersRefused = "ContainersRefused"
	reasonRunning           = "Running"
	reasonParallelism       = "ParallelismZero"
)

// mostInText is how many pods a message names.
const mostInText = 3

// report records the events of the pass and writes the status, if it changed.
func (r *Reconciler) report(ctx context.Context, s *scope) (bool, error) {
	if s.added > 0 {
		r.Events.Eventf(s.job, nil, corev1.EventTypeNormal, "SuccessfulCreate", "Create",
			"added ephemeral containers to %d pods", s.added)
	}
	for reason, err := range s.Failed() {
		r.Events.Eventf(s.job, nil, corev1.EventTypeWarning, reason, "Retry", "%s", workload.Note(err))
	}
	have, want := s.job.Status, s.status()
	return true, r.Report(ctx, s.pass, workload.Status{
		Have: &have, Want: &want, Worked: s.added > 0 && len(s.Failed()) == 0,
		CountersOnly: have.ObservedGeneration == want.ObservedGeneration && have.Phase == want.Phase &&
			conditions.SameStatus(have.Conditions, want.Conditions),
	})
}

// status returns the status that this pass observed. That of a job that has ended stays.
func (s *scope) status() v1alpha1.EphemeralJobStatus {
	out := *s.job.Status.DeepCopy()
	out.ObservedGeneration = s.job.Generation
	now := s.facts.Now
	switch {
	case s.Leaving != nil:
		out.Conditions = conditions.Merge(out.Conditions, now,
			conditions.Deleted(summary(corev1.ConditionFalse, true, nil, *s.Leaving), *s.Leaving)...)
		return out
	case s.job.Status.CompletionTime != nil:
		return out
	}
	list := []conditions.Condition{{Type: string(v1alpha1.EphemeralJobConditionInitialized),
		Status: corev1.ConditionTrue, Reason: reasonInitialized}}
	if s.Stalled == nil {
		at := metav1.NewTime(s.plan.Started)
		if out.StartTime == nil {
			out.StartTime = &at
		}
		if s.plan.Ended {
			out.CompletionTime = new(metav1.NewTime(now))
		}
		c := s.plan.Counts
		out.Phase, out.Match, out.Waiting = s.plan.Phase, c.Match, c.Waiting
		out.Running, out.Succeeded, out.Failed = c.Running, c.Succeeded, c.Failed
		list = append(list, s.published()...)
	}
	out.Conditions = conditions.Merge(out.Conditions, now, append(list, s.conditions()...)...)
	return out
}

// published returns the published conditions that follow from the plan.
func (s *scope) published() []conditions.Condition {
	yes, c := corev1.ConditionTrue, s.plan.Counts
	list := []conditions.Condition{conditions.Remove(string(v1alpha1.EphemeralJobConditionError))}
	switch {
	case c.Match == 0:
		list = append(list, conditions.Condition{Type: string(v1alpha1.EphemeralJobConditionMatchedEmpty), Status: yes,
			Reason: reasonMatchEmpty, Message: s.empty()})
	default:
		list = append(list, conditions.Remove(string(v1alpha1.EphemeralJobConditionMatchedEmpty)))
	}
	switch s.plan.Phase {
	case v1alpha1.EphemeralJobError:
		list[0] = conditions.Condition{Type: string(v1alpha1.EphemeralJobConditionError), Status: yes,
			Reason: reasonNoContainer, Message: s.cause().Message}
	case v1alpha1.EphemeralJobSucceeded:
		list = append(list, conditions.Condition{Type: string(v1alpha1.EphemeralJobConditionSucceeded), Status: yes,
			Reason: reasonJobSucceeded, Message: s.cause().Message})
	case v1alpha1.EphemeralJobFailed:
		list = append(list, conditions.Condition{Type: string(v1alpha1.EphemeralJobConditionFailed), Status: yes,
			Reason: s.cause().Reason, Message: s.cause().Message})
	}
	return list
}

// conditions returns Ready, Reconciling and Stalled of a job that has not ended before this pass.
func (s *scope) conditions() []conditions.Condition {
	if s.Stalled != nil {
		return summary(corev1.ConditionFalse, false, s.Stalled, *s.Stalled)
	}
	_, failed := s.Failures(reasonContainersRefused)
	why := s.cause()
	switch s.plan.Phase {
	case v1alpha1.EphemeralJobSucceeded:
		return summary(corev1.ConditionTrue, false, nil, why)
	case v1alpha1.EphemeralJobFailed, v1alpha1.EphemeralJobError:
		return summary(corev1.ConditionFalse, false, &why, why)
	case v1alpha1.EphemeralJobPaused:
		return summary(corev1.ConditionFalse, false, nil, why)
	}
	if failed != nil {
		why = *failed
	}
	return summary(corev1.ConditionFalse, true, nil, why)
}

// summary returns Ready, Reconciling and Stalled. stalled says why only a person can go on, nil for no reason.
func summary(
	ready corev1.ConditionStatus, reconciling bool, stalled *conditions.Cause, why conditions.Cause,
) []conditions.Condition {
	out := []conditions.Condition{
		{Type: v1beta1.ConditionReady, Status: ready, Reason: why.Reason, Message: why.Message},
		{Type: v1beta1.ConditionReconciling, Status: corev1.ConditionFalse, Reason: why.Reason},
		{Type: v1beta1.ConditionStalled, Status: corev1.ConditionFalse, Reason: conditions.ReasonNotStalled},
	}
	if reconciling {
		out[1].Status, out[1].Message = corev1.ConditionTrue, why.Message
	}
	if stalled != nil {
		out[2].Status, out[2].Reason, out[2].Message = corev1.ConditionTrue, stalled.Reason, stalled.Message
	}
	return out
}

// cause says what the job does, or how it ended.
func (s *scope) cause() conditions.Cause {
	c := s.plan.Counts
	text := c.String() + s.leftOut()
	switch {
	case s.plan.Phase == v1alpha1.EphemeralJobError:
		return conditions.Cause{Reason: reasonNoContainer,
			Message: "template.ephemeralContainers is empty: name at least one container"}
	case s.plan.Overdue:
		return conditions.Cause{Reason: reasonDeadlineExceeded, Message: fmt.Sprintf(
			"the job was active for longer than activeDeadlineSeconds, %d; its containers go on in their pods: %s",
			*s.job.Spec.ActiveDeadlineSeconds, text)}
	case s.plan.Phase == v1alpha1.EphemeralJobSucceeded:
		return conditions.Cause{Reason: reasonJobSucceeded, Message: text}
	case s.plan.Phase == v1alpha1.EphemeralJobFailed:
		return conditions.Cause{Reason: reasonJobFailed, Message: text +
			"; look at the logs of the containers with kubectl logs POD -c CONTAINER"}
	case s.plan.Phase == v1alpha1.EphemeralJobPaused:
		return conditions.Cause{Reason: conditions.ReasonPaused, Message: text +
			"; spec.paused is true, so no more pods get the containers"}
	case c.Match == 0:
		return conditions.Cause{Reason: reasonMatchEmpty, Message: s.empty()}
	case s.facts.parallelism() == 0:
		return conditions.Cause{Reason: reasonParallelism, Message: text +
			"; parallelism is 0, so no more pods get the containers: raise it"}
	}
	return conditions.Cause{Reason: reasonRunning, Message: text}
}

// empty says why the job has no pods.
func (s *scope) empty() string {
	if n := s.job.Spec.Replicas; n != nil && *n == 0 {
		return "spec.replicas is 0, so no pod gets the containers: raise it"
	}
	return "spec.selector selects no running pod, so the job waits for one" + s.leftOut()
}

// leftOut says which pods are left out because of a container's name.
func (s *scope) leftOut() string {
	taken := s.plan.Taken
	if len(taken) == 0 {
		return ""
	}
	text := strings.Join(taken[:min(len(taken), mostInText)], ", ")
	if more := len(taken) - mostInText; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("; left out, since they have a container of such a name: %s", text)
}
