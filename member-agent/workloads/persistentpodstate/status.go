package persistentpodstate

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// The reasons of conditions.
const (
	reasonRecorded            = "Recorded"
	reasonNodesMissing        = "NodesMissing"
	reasonRecordsTooLarge     = "RecordsTooLarge"
	reasonReleaseFailed       = "ReleaseFailed"
	reasonWorkloadNotFound    = "WorkloadNotFound"
	reasonWorkloadTaken       = "WorkloadTaken"
	reasonUnsupportedWorkload = "UnsupportedWorkload"
)

// mostInText is how many pods a message names.
const mostInText = 3

// report records the events of the pass and writes the status, if it changed.
func (r *Reconciler) report(ctx context.Context, s *scope) (bool, error) {
	if s.released > 0 {
		r.Events.Eventf(s.state, nil, corev1.EventTypeNormal, "SuccessfulDelete", "Release",
			"deleted %d pods that needed labels which no node has", s.released)
	}
	if err := s.Failed()[reasonReleaseFailed]; err != nil {
		r.Events.Eventf(s.state, nil, corev1.EventTypeWarning, reasonReleaseFailed, "Retry", "%s", workload.Note(err))
	}
	want := s.state.Status.DeepCopy()
	want.ObservedGeneration = s.state.Generation
	if s.Leaving == nil && s.Stalled == nil {
		want.PodStates = s.plan.States
	}
	for _, c := range s.conditions() {
		c.ObservedGeneration, c.LastTransitionTime = s.state.Generation, metav1.NewTime(r.Clock.Now())
		meta.SetStatusCondition(&want.Conditions, c)
	}
	return true, r.Report(ctx, s.pass, workload.Status{Have: &s.state.Status, Want: want})
}

// conditions returns Ready, Reconciling and Stalled.
func (s *scope) conditions() []metav1.Condition {
	ready := metav1.Condition{Type: v1beta1.ConditionReady, Status: metav1.ConditionTrue, Reason: reasonRecorded,
		Message: "the nodes and annotations of pods are recorded"}
	reconciling := metav1.Condition{Type: v1beta1.ConditionReconciling, Status: metav1.ConditionFalse,
		Reason: reasonRecorded, Message: "nothing is in progress"}
	stalled := metav1.Condition{Type: v1beta1.ConditionStalled, Status: metav1.ConditionFalse,
		Reason: conditions.ReasonNotStalled, Message: "no one has to act"}
	waiting, stuck := s.waiting(), s.stuck()
	switch {
	case stuck != nil:
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, stuck.Reason, stuck.Message
		reconciling.Reason, reconciling.Message = stuck.Reason, "a person has to act"
		stalled.Status, stalled.Reason, stalled.Message = metav1.ConditionTrue, stuck.Reason, stuck.Message
	case waiting != nil:
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, waiting.Reason, waiting.Message
		reconciling.Status, reconciling.Reason, reconciling.Message = metav1.ConditionTrue, waiting.Reason, waiting.Message
	}
	return []metav1.Condition{ready, reconciling, stalled}
}

// stuck returns what a person has to change; nil for nothing.
func (s *scope) stuck() *conditions.Cause {
	if s.Leaving == nil && s.Stalled == nil && len(s.plan.TooLarge) > 0 {
		return &conditions.Cause{Reason: reasonRecordsTooLarge, Message: fmt.Sprintf(
			"the annotations of all pods have more than %d bytes, so those of %s are not recorded: record fewer",
			mostAnnotations,
			listed(s.plan.TooLarge))}
	}
	return s.Stalled
}

// waiting returns what the records wait for; nil for nothing.
func (s *scope) waiting() *conditions.Cause {
	ref := s.state.Spec.TargetReference
	switch {
	case s.Leaving != nil:
		return &conditions.Cause{Reason: s.Leaving.Reason,
			Message: s.Leaving.Message + "; new pods get nothing back, and pods keep running"}
	case s.Failed()[reasonReleaseFailed] != nil:
		return &conditions.Cause{Reason: reasonReleaseFailed, Message: workload.Text(s.Failed()[reasonReleaseFailed])}
	case s.facts.Gone:
		return &conditions.Cause{Reason: reasonWorkloadNotFound, Message: fmt.Sprintf(
			"there is no %s %s in this namespace, so nothing is recorded", ref.Kind, ref.Name)}
	case len(s.plan.Missing) > 0:
		var texts []string
		for _, missing := range s.plan.Missing {
			texts = append(texts, missing.String())
		}
		do := "label a node so, or set spec.flotilla.missingNodes to Release"
		if s.plan.Wait > 0 {
			do = fmt.Sprintf("after %s without such a node the pod is released from them", ReleaseAfter)
		}
		return &conditions.Cause{Reason: reasonNodesMissing, Message: fmt.Sprintf("%s; %s", listed(texts), do)}
	}
	return nil
}

// listed returns the first of some texts.
func listed(texts []string) string {
	shown := texts[:min(len(texts), mostInText)]
	text := strings.Join(shown, ", ")
	if more := len(texts) - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
