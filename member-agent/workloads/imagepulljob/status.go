package imagepulljob

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// The reasons of conditions beside those of all kinds.
const (
	reasonPulled           = "Pulled"
	reasonPulling          = "Pulling"
	reasonPullFailed       = "PullFailed"
	reasonDeadlineExceeded = "PullDeadlineExceeded"
	reasonNoNode           = "NoNodeSelected"
	reasonNodesDone        = "NodesDone"
	reasonParallelism      = "ParallelismZero"
	reasonInvalidSelector  = "InvalidSelector"
	reasonInvalidStrategy  = "InvalidStrategy"
	reasonHubUnreachable   = "PullsWaitForHub"
	reasonSecretMissing    = "PullSecretMissing"
	// reasonSecretsNotEnabled says that the agent has no right to read Secrets.
	reasonSecretsNotEnabled = "PullSecretsNotEnabled"
)

// The keys of errors, which are reasons while they are retried.
const (
	reasonFailedNodeImage = "FailedNodeImage"
	reasonFailedCreatePod = "FailedCreatePod"
	reasonFailedDeletePod = "FailedDeletePod"
	// reasonFailedPullSecret says that the copy of a Secret cannot be written.
	reasonFailedPullSecret = "FailedPullSecret"
)

// mostInText is how many nodes a message names.
const mostInText = 3

// report records the events of the pass and writes the status, if it changed.
func (r *Reconciler) report(ctx context.Context, s *scope) (bool, error) {
	for condition, err := range s.Failed() {
		r.Events.Eventf(s.job, nil, corev1.EventTypeWarning, condition, "Retry", "%s", workload.Note(err))
	}
	have, want := &s.job.Status, s.status(metav1.NewTime(r.Clock.Now()))
	err := r.Report(ctx, s.pass, workload.Status{Have: have, Want: want, CountersOnly: onlyCounters(have, want)})
	if err == nil {
		r.tell(s, want)
	}
	return err == nil, err
}

// onlyCounters reports whether nothing differs that must be written at once: conditions, and what the job remembers.
func onlyCounters(have, want *v1beta1.ImagePullJobStatus) bool {
	same := func(a, b []metav1.Condition) bool {
		return slices.EqualFunc(a, b, func(x, y metav1.Condition) bool {
			return x.Type == y.Type && x.Status == y.Status && x.Reason == y.Reason
		})
	}
	before, after := have.Flotilla, want.Flotilla
	if before == nil || after == nil {
		return false
	}
	return have.ObservedGeneration == want.ObservedGeneration && have.ObservedSequence == want.ObservedSequence &&
		have.StartTime.Equal(want.StartTime) && have.CompletionTime.Equal(want.CompletionTime) &&
		slices.Equal(have.FailedNodes, want.FailedNodes) && slices.Equal(before.PulledNodes, after.PulledNodes) &&
		before.Image == after.Image &&
		same(have.Conditions, want.Conditions)
}

// tell makes the events of what the status says for the first time.
func (r *Reconciler) tell(s *scope, want *v1beta1.ImagePullJobStatus) {
	event := func(kind, reason, action, text string) {
		r.Events.Eventf(s.job, nil, kind, reason, action, "%s", workload.Note(errors.New(text)))
	}
	if s.Leaving != nil {
		return
	}
	var news []string
	for _, node := range want.FailedNodes {
		if _, before := slices.BinarySearch(s.job.Status.FailedNodes, node); !before {
			news = append(news, node)
		}
	}
	if len(news) > 0 {
		event(corev1.EventTypeWarning, "PullImageFailed", "Pull",
			fmt.Sprintf("%s cannot be pulled on %s", s.job.Spec.Image, s.described(news)))
	}
	if want.CompletionTime != nil && s.job.Status.CompletionTime == nil {
		kind := corev1.EventTypeNormal
		if want.Failed > 0 {
			kind = corev1.EventTypeWarning
		}
		event(kind, "JobComplete", "Complete", fmt.Sprintf("%s: %d of %d nodes have the image", want.Message, want.Succeeded,
			want.Desired))
	}
}

// described names the first of some nodes, with what their pulls failed with.
func (s *scope) described(nodes []string) string {
	var texts []string
	for _, node := range nodes[:min(len(nodes), mostInText)] {
		text := node
		if message := s.messages[node]; message != "" {
			text += " (" + message + ")"
		}
		texts = append(texts, text)
	}
	out := "node " + strings.Join(texts, ", ")
	if len(nodes) > 1 {
		out = "nodes " + strings.Join(texts, ", ")
	}
	if more := len(nodes) - len(texts); more > 0 {
		out += fmt.Sprintf(" and %d more", more)
	}
	return out
}

// status returns the status that this pass observed. That of a job that has ended stays.
func (s *scope) status(now metav1.Time) *v1beta1.ImagePullJobStatus {
	ended := s.job.Status.CompletionTime != nil
	out := s.job.Status.DeepCopy()
	if s.Leaving == nil && s.Stalled == nil {
		out = s.plan.Status.DeepCopy()
	}
	out.ObservedGeneration, out.ObservedSequence = s.job.Generation, workload.Sequence(s.job)
	if ended && s.Leaving == nil {
		return out
	}
	for _, c := range s.conditions(out) {
		c.ObservedGeneration, c.LastTransitionTime = s.job.Generation, now
		meta.SetStatusCondition(&out.Conditions, c)
	}
	return out
}

// conditions returns Ready, Reconciling and Stalled.
func (s *scope) conditions(status *v1beta1.ImagePullJobStatus) []metav1.Condition {
	ready := metav1.Condition{Type: v1beta1.ConditionReady, Status: metav1.ConditionFalse}
	reconciling := metav1.Condition{Type: v1beta1.ConditionReconciling, Status: metav1.ConditionTrue}
	stalled := metav1.Condition{Type: v1beta1.ConditionStalled, Status: metav1.ConditionFalse,
		Reason: conditions.ReasonNotStalled, Message: "no one has to act"}
	cause, state := s.state(status)
	ready.Reason, ready.Message = cause.Reason, cause.Message
	reconciling.Reason, reconciling.Message = cause.Reason, cause.Message
	if state != moving {
		reconciling.Status, reconciling.Message = metav1.ConditionFalse, "nothing is in progress"
	}
	switch state {
	case atRest:
		ready.Status = metav1.ConditionTrue
	case stuck:
		stalled.Status, stalled.Reason, stalled.Message = metav1.ConditionTrue, cause.Reason, cause.Message
	case moving:
	}
	return []metav1.Condition{ready, reconciling, stalled}
}

// progressState is whether a job goes on.
type progressState int

const (
	moving progressState = iota
	atRest
	stuck // until a person acts
)

// state returns how far the job is.
func (s *scope) state(status *v1beta1.ImagePullJobStatus) (conditions.Cause, progressState) {
	ended := fmt.Sprintf("%d of %d nodes have the image, %d failed, %d pull", status.Succeeded, status.Desired,
		status.Failed, status.Active)
	switch {
	case s.Leaving != nil:
		return conditions.Cause{Reason: s.Leaving.Reason, Message: s.Leaving.Message + "; no more nodes pull"}, moving
	case s.Stalled != nil:
		return *s.Stalled, stuck
	case status.CompletionTime != nil:
		return s.end(status, ended)
	}
	if s.held != nil {
		return *s.held, stuck
	}
	for _, condition := range []string{reasonFailedCreatePod, reasonFailedNodeImage, reasonFailedDeletePod,
		reasonFailedPullSecret} {
		if err := s.Failed()[condition]; err != nil {
			return conditions.Cause{Reason: condition, Message: ended + "; " + workload.Text(err)}, moving
		}
	}
	return s.running(status, ended)
}

// running returns how far a job is that nothing keeps from going on.
func (s *scope) running(status *v1beta1.ImagePullJobStatus, ended string) (conditions.Cause, progressState) {
	limit := s.facts.Granted
	waits := status.Succeeded+status.Failed+status.Active < status.Desired
	switch {
	case status.Desired == 0:
		return conditions.Cause{Reason: reasonNoNode, Message: "the job selects no node that can pull: create or label a " +
			"node, or correct the selector"}, moving
	case status.Succeeded+status.Failed == status.Desired:
		return conditions.Cause{Reason: reasonNodesDone, Message: ended + "; completionPolicy.type is Never, so the job " +
			"waits for more nodes"}, atRest
	case waits && limit != nil && *limit == 0 && s.Budget.Expired:
		return conditions.Cause{Reason: reasonHubUnreachable, Message: ended + "; the hub cannot be reached, so that no " +
			"more nodes begin to pull"}, moving
	case waits && limit == nil && s.job.Spec.Parallelism != nil &&
		strings.TrimSuffix(s.job.Spec.Parallelism.String(), "%") == "0":
		return conditions.Cause{Reason: reasonParallelism, Message: ended + "; parallelism is 0, so that no more nodes " +
			"begin to pull: raise it"}, moving
	case s.unschedulable != "":
		ended += "; a pod waits for its node: " + s.unschedulable
	}
	return conditions.Cause{Reason: reasonPulling, Message: ended}, moving
}

// end returns how the job has ended.
func (s *scope) end(status *v1beta1.ImagePullJobStatus, ended string) (conditions.Cause, progressState) {
	switch {
	case status.Message == deadlineExceeded && status.Failed > 0:
		return conditions.Cause{Reason: reasonDeadlineExceeded, Message: fmt.Sprintf("%s; activeDeadlineSeconds passed, and "+
			"the image is not on %s", ended, s.described(status.FailedNodes))}, stuck
	case status.Failed > 0:
		return conditions.Cause{Reason: reasonPullFailed, Message: fmt.Sprintf("%s; it cannot be pulled on %s", ended,
			s.described(status.FailedNodes))}, stuck
	case status.Desired == 0:
		return conditions.Cause{Reason: reasonNoNode, Message: "the job selected no node that can pull"}, atRest
	}
	return conditions.Cause{Reason: reasonPulled, Message: fmt.Sprintf("all %d nodes have the image", status.Desired)},
		atRest
}
