package broadcastjob

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/completions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/pernode"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// The reasons of conditions beside those of all kinds, and of package completions.
const (
	reasonComplete    = "Complete"
	reasonFailed      = "Failed"
	reasonRunning     = "Running"
	reasonSoaking     = "Soaking"
	reasonNodesDone   = "NodesDone"
	reasonNoNodeFits  = "NoNodeFits"
	reasonParallelism = "ParallelismZero"
)

// report records the events of the pass and writes the status, if it changed.
func (r *Reconciler) report(ctx context.Context, s *scope) (bool, error) {
	r.Record(s.pass, s.done, s.plan.Actions)
	have, want := s.job.Status, s.status()
	return true, r.Report(ctx, s.pass, workload.Status{
		Have: &have, Want: &want,
		CountersOnly: have.ObservedGeneration == want.ObservedGeneration && have.Phase == want.Phase &&
			have.ObservedSequence == want.ObservedSequence && conditions.SameStatus(have.Conditions, want.Conditions),
		Worked: s.done.Any() && len(s.Failed()) == 0 && s.Stalled == nil,
	})
}

// sameProgress reports whether two statuses agree on what must survive a restart.
func sameProgress(a, b *v1beta1.BroadcastJobStatus) bool {
	return a.StartTime.Equal(b.StartTime) && a.CompletionTime.Equal(b.CompletionTime) &&
		equality.Semantic.DeepEqual(a.Flotilla, b.Flotilla)
}

// status returns the status that this pass observed. That of a job that has ended stays.
func (s *scope) status() v1beta1.BroadcastJobStatus {
	out := *s.job.Status.DeepCopy()
	out.ObservedGeneration = s.job.Generation
	if s.Leaving != nil {
		out.Conditions = conditions.Merge(out.Conditions, s.facts.Now, s.leaving()...)
		return out
	}
	out.ObservedSequence = workload.Sequence(s.job)
	decided := &s.plan.Decided
	if !s.facts.Progress.Ended.IsZero() {
		if out.NodeCounts != nil {
			out.NodeCounts.Active = int32(decided.Unended)
		}
		return out
	}
	if out.NodeCounts = nil; s.facts.Policy.Order != nil {
		out.NodeCounts = &v1beta1.BroadcastJobNodeCounts{Active: int32(decided.Unended), Touched: int32(decided.Touched),
			Proven: int32(decided.Proven)}
	}
	out.Phase = v1beta1.BroadcastJobPhase(decided.Phase)
	out.Active, out.Succeeded = int32(decided.Counts.Active), int32(decided.Counts.Succeeded)
	out.Failed = int32(decided.Counts.Failed)
	if !s.facts.Stalled {
		out.Desired = int32(decided.Counts.Desired)
	}
	setProgress(&out, decided.Progress)
	out.Conditions = conditions.Merge(out.Conditions, s.facts.Now, s.conditions()...)
	return out
}

// leaving returns the conditions of a job that is being deleted.
func (s *scope) leaving() []conditions.Condition {
	cause := s.Left(int32(len(s.facts.Pods) + len(s.facts.CheckPods)))
	return summary(corev1.ConditionFalse, true, nil, cause)
}

// summary returns Ready, Reconciling and Stalled. stalled says why only a person can go on, nil for no reason.
func summary(ready corev1.ConditionStatus, reconciling bool, stalled *conditions.Cause, why conditions.Cause,
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

// conditions returns the conditions of a job that has not ended before this pass.
func (s *scope) conditions() []conditions.Condition {
	out, failed := s.Failures(failedCreate, failedUpdate)
	decided := &s.plan.Decided
	why := conditions.Cause{Reason: string(decided.Cause), Message: decided.Message}
	no, yes := corev1.ConditionFalse, corev1.ConditionTrue
	switch {
	case decided.Phase == completions.PhaseCompleted:
		out = append(out, conditions.Condition{Type: string(v1beta1.JobComplete), Status: yes,
			Reason: reasonComplete, Message: why.Message})
		return append(out, summary(yes, false, nil, why)...)
	case decided.Phase == completions.PhaseFailed:
		why.Message = s.failure()
		out = append(out, conditions.Condition{Type: string(v1beta1.JobFailed), Status: yes,
			Reason: reasonFailed, Message: why.Message})
		return append(out, summary(no, false, &why, why)...)
	case s.Stalled != nil:
		return append(out, summary(no, false, s.Stalled, *s.Stalled)...)
	case decided.Progress.Halted != nil:
		why.Message = s.halted(why.Message)
		return append(out, summary(no, false, &why, why)...)
	case failed != nil:
		return append(out, summary(no, true, nil, *failed)...)
	case decided.Phase == completions.PhasePaused:
		return append(out, summary(no, false, nil, conditions.Cause{Reason: conditions.ReasonPaused,
			Message: s.ended() + "; spec.paused is true, so no more pods are created"})...)
	}
	cause, waits := s.running()
	ready := no
	if !waits {
		ready = yes
	}
	return append(out, summary(ready, waits, nil, cause)...)
}

// failure says why the job failed. The first words are as published.
func (s *scope) failure() string {
	decided := &s.plan.Decided
	if decided.Cause == completions.DeadlineExceeded {
		return fmt.Sprintf("Job %s was active longer than specified deadline: %s", s.Key, decided.Message)
	}
	return "failure policy is FailurePolicyTypeFailFast and failed pod is found: " + decided.Message
}

// halted says why the job halted, and how it goes on.
func (s *scope) halted(why string) string {
	out := fmt.Sprintf("%s; no further node is touched; go on with flotilla rollout resume bcj/%s -n %s", why, s.job.Name,
		s.job.Namespace)
	if _, mistake := resumed(s.job); mistake != "" {
		out += "; " + mistake
	}
	return out
}

// ended says on how many nodes the job is through.
func (s *scope) ended() string {
	c := s.plan.Decided.Counts
	return fmt.Sprintf("pods of %d of %d nodes have ended, %d of them failed; %d pods are active", c.Succeeded+c.Failed,
		c.Desired, c.Failed, c.Active)
}

// running says what a job does that goes on by itself, and whether something is left to do.
func (s *scope) running() (cause conditions.Cause, waits bool) {
	c, p := s.plan.Decided.Counts, s.plan.Decided.Progress
	left := c.Desired > c.Succeeded+c.Failed
	switch {
	case c.Desired == 0:
		return conditions.Cause{Reason: reasonNoNodeFits, Message: s.misfits()}, true
	case s.facts.Policy.Order != nil:
		return s.ordered()
	case left && s.facts.Policy.Parallelism == 0 && c.Active == 0:
		return conditions.Cause{Reason: reasonParallelism, Message: s.ended() +
			"; parallelism is 0, so no pods are created: raise it"}, true
	case s.facts.isOver(&s.plan):
		return conditions.Cause{Reason: reasonNodesDone, Message: s.ended() +
			"; completionPolicy.type is Never, so the job waits for more nodes"}, false
	case !p.Settled.IsZero():
		return conditions.Cause{Reason: reasonSoaking,
			Message: fmt.Sprintf("batch %d has ended: %s", p.Batch, s.soak())}, true
	case p.Batch > 0:
		return conditions.Cause{Reason: reasonRunning, Message: fmt.Sprintf("batch %d: %s", p.Batch, s.ended())}, true
	}
	return conditions.Cause{Reason: reasonRunning, Message: s.ended()}, true
}

// ordered says what a job does under the order of a hub, and whether something is left to do here.
func (s *scope) ordered() (cause conditions.Cause, waits bool) {
	decided := &s.plan.Decided
	c := decided.Counts
	switch {
	case decided.Proven == c.Desired:
		return conditions.Cause{Reason: reasonNodesDone, Message: s.ended() +
			"; the hub ends the job when it is through in all clusters"}, false
	case s.facts.Budget.Expired && decided.Touched < c.Desired:
		return conditions.Cause{Reason: conditions.ReasonHubSilent, Message: s.ended() +
			"; the hub has not answered for too long, so no more pods are created"}, true
	case s.plan.Unchecked != "" && !decided.Progress.Settled.IsZero():
		return conditions.Cause{Reason: reasonSoaking, Message: fmt.Sprintf("batch %d waits for check %s; %s",
			decided.Progress.Batch, s.plan.Unchecked, s.ended())}, true
	case decided.Unended == 0 && len(decided.Create) == 0 && decided.Touched < c.Desired:
		return conditions.Cause{Reason: reasonRunning, Message: s.ended() + "; the hub grants no more nodes now"}, true
	}
	return conditions.Cause{Reason: reasonRunning, Message: s.ended()}, true
}

// soak says what the next batch waits for.
func (s *scope) soak() string {
	soak := s.facts.Policy.Batches.Soak
	switch check := s.plan.Unchecked; {
	case check != "":
		return fmt.Sprintf("the next one waits for check %s, and for a soak of %s; %s", check, soak, s.ended())
	default:
		return fmt.Sprintf("the next one waits for a soak of %s; %s", soak, s.ended())
	}
}

// misfits says why no node fits.
func (s *scope) misfits() string {
	n := s.facts.Fitness
	if len(s.facts.Nodes) == 0 {
		return "the cluster has no nodes, so no pod is to run"
	}
	return fmt.Sprintf("no node fits the template, so no pod is to run: of %d nodes, nodeName, nodeSelector or node "+
		"affinity exclude %d, %d have taints that are not tolerated, and %d have less than the pod requests",
		len(s.facts.Nodes), n[pernode.Unmatched], n[pernode.Evicting]+n[pernode.Tainted], n[pernode.TooSmall])
}

// tell makes an event for what changed between the status and the one that was written.
func (r *Reconciler) tell(s *scope, want v1beta1.BroadcastJobStatus) {
	had, has := progressOf(&s.job.Status), progressOf(&want)
	event := func(kind, reason, action, text string) {
		r.Events.Eventf(s.job, nil, kind, reason, action, "%s", workload.Note(errors.New(text)))
	}
	decided := &s.plan.Decided
	switch {
	case decided.Phase == completions.PhaseCompleted:
		event(corev1.EventTypeNormal, "JobComplete", "Complete", decided.Message)
	case decided.Phase == completions.PhaseFailed:
		event(corev1.EventTypeWarning, string(decided.Cause), "Fail", s.failure())
	case has.Halted != nil && (had.Halted == nil || !has.Halted.Time.Equal(had.Halted.Time)):
		event(corev1.EventTypeWarning, string(has.Halted.Cause), "Halt", s.halted(has.Halted.Message))
	case had.Halted != nil && has.Halted == nil:
		event(corev1.EventTypeNormal, "Continue", "Resume", "the job goes on, as a person asked")
	case has.Batch > had.Batch:
		event(corev1.EventTypeNormal, "BatchStarted", "Begin", fmt.Sprintf("batch %d begins", has.Batch))
	}
}

// Reporting is what reports to a hub ask about BroadcastJobs. An order is observed by its sequence, because a budget
// alone does not change the generation.
func Reporting() workload.Reporting {
	return workload.Reporting{
		Use: func(live *unstructured.Unstructured) ([]work.SubsetUse, error) {
			job, err := workload.Decode(live, &v1beta1.BroadcastJob{})
			if err != nil {
				return nil, err
			}
			return []work.SubsetUse{work.BroadcastJobUse(&job.Status)}, nil
		},
		Observed: func(live *unstructured.Unstructured) bool {
			return workload.Observed(live) && workload.ObservedSequence(live)
		},
		Halted: func(live *unstructured.Unstructured) (*work.JobHalt, error) {
			job, err := workload.Decode(live, &v1beta1.BroadcastJob{})
			if err != nil {
				return nil, err
			}
			return haltOf(&job.Status), nil
		},
	}
}

// haltOf returns why a job halted or failed, nil if it did neither.
func haltOf(status *v1beta1.BroadcastJobStatus) *work.JobHalt {
	const longest = 1000 // bytes of a message: the hub puts it into conditions
	var halt *work.JobHalt
	switch f := status.Flotilla; {
	case status.Phase == v1beta1.PhaseFailed && status.CompletionTime != nil:
		halt = &work.JobHalt{Time: *status.CompletionTime, Failed: true}
		for i := range status.Conditions {
			if c := &status.Conditions[i]; c.Type == v1beta1.ConditionStalled {
				halt.Reason, halt.Message = c.Reason, c.Message
			}
		}
	case f != nil && f.Halted != nil && status.CompletionTime == nil:
		halt = &work.JobHalt{Time: f.Halted.Time, Reason: f.Halted.Reason, Message: f.Halted.Message}
	default:
		return nil
	}
	if len(halt.Message) > longest {
		halt.Message = strings.ToValidUTF8(halt.Message[:longest], "") + " …"
	}
	return halt
}
