package kinds

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/topology/checks"
	"github.com/flotilla-dev/flotilla/topology/lending"
	"github.com/flotilla-dev/flotilla/topology/waves"
)

func broadcastJobKind() Kind {
	return Kind{
		GVK:     apps.BroadcastJobKind,
		Mode:    PerMember,
		New:     func() Object { return &apps.BroadcastJob{} },
		NewList: func() ObjectList { return &apps.BroadcastJobList{} },
		Read:    readBroadcastJob,
		Render:  renderBroadcastJob,
		Budget:  true,
		Guarded: []string{"spec.parallelism", "spec.paused", "spec.completionPolicy", "spec.flotilla.batches.size",
			"spec.flotilla.batches.soak"},
		Reflect:            reflectBroadcastJob,
		Shown:              shownBroadcastJob,
		Observe:            observeBroadcastJob,
		Failures:           []Failure{{Type: failedCreateJobPod, Creates: true}, {Type: failedUpdateJobPod}},
		AnswersWhenStalled: true,
		Expires:            broadcastJobExpires,
		Status:             broadcastJobStatus,
		StatusOf:           func(o Object) any { return &o.(*apps.BroadcastJob).Status },
	}
}

// The conditions by which a BroadcastJob reports what its controller retries.
const (
	failedCreateJobPod = "FailedCreatePod"
	failedUpdateJobPod = "FailedUpdatePod"
)

// broadcastJobExpires returns when a job of the hub that has ended is over its ttlSecondsAfterFinished.
func broadcastJobExpires(o Object) (time.Time, bool) {
	job := o.(*apps.BroadcastJob)
	end, ttl := job.Status.CompletionTime, job.Spec.CompletionPolicy.TTLSecondsAfterFinished
	if end == nil || ttl == nil || !slices.ContainsFunc(job.Status.Conditions, func(c apps.JobCondition) bool {
		return string(c.Type) == apps.ConditionFederated && c.Status == corev1.ConditionTrue
	}) {
		return time.Time{}, false
	}
	return end.Add(time.Duration(*ttl) * time.Second), true
}

// shownBroadcastJob returns ended pods as ready ones and active pods as not ready ones. A report counts a node without a
// pod as available.
func shownBroadcastJob(use work.SubsetUse) work.SubsetUse {
	active := max(use.Total-use.Ready, 0)
	pods := max(use.Updated, active)
	return work.SubsetUse{Desired: use.Desired, Total: pods, Ready: pods - active, Available: pods - active, Updated: pods}
}

// readBroadcastJob reads a job. It has no revision: its template is that of all its pods, and is not updated.
func readBroadcastJob(o Object) (Workload, *Rejection) {
	job := o.(*apps.BroadcastJob)
	w := NewWorkload(job, apps.BroadcastJobKind, nil)
	if err := job.Spec.Template.Err(field.NewPath("spec", "template")); err != nil {
		return w, undecodable(w.Key, err)
	}
	template := &job.Spec.Template.PodTemplateSpec
	w.Needs, w.Requests, w.Paused = NeedsOf(template), PodRequests(template), job.Spec.Paused
	promoted, err := strconv.ParseInt(job.Annotations[apps.AnnotationPromote], 10, 32)
	if err != nil {
		promoted = 0 // another text promotes nothing
	}
	w.Job = &Job{
		Endless:  job.Spec.CompletionPolicy.Type == apps.NeverCompletionPolicyType,
		Promoted: within(int32(promoted), wire.MaxPods),
	}
	parallelism, err := scaled(ptr.Deref(job.Spec.Parallelism, intstr.FromInt32(math.MaxInt32)))
	if err != nil {
		return w, &Rejection{InvalidAmount, fmt.Sprintf("spec.parallelism of %s %v", w.Key.Sentence(), err)}
	}
	w.Subsets = []Subset{{Amounts: func(n int32) lending.Amounts {
		return lending.Amounts{Updated: n, Unavailable: min(parallelism(n), n)}
	}}}
	if job.Spec.Flotilla == nil || job.Spec.Flotilla.Batches == nil {
		return w, nil
	}
	batches := job.Spec.Flotilla.Batches
	size, err := scaled(batches.Size)
	if err != nil {
		return w, &Rejection{InvalidAmount, fmt.Sprintf("spec.flotilla.batches.size of %s %v", w.Key.Sentence(), err)}
	}
	if why := checks.InvalidInBatches(batches); why != "" {
		return w, &Rejection{InvalidCheck, fmt.Sprintf("spec.flotilla.batches of %s: %s", w.Key.Sentence(), why)}
	}
	w.Job.Batches = &waves.Batches{Soak: batches.Soak, Size: func(n int32) int32 { return max(size(n), 1) }}
	for i := range batches.Checks {
		if pod := batches.Checks[i].Pod; pod != nil {
			w.Needs = append(w.Needs, NeedsOf(&pod.Template.PodTemplateSpec)...)
		}
	}
	w.Needs = mergedNeeds(w.Needs)
	return w, nil
}

// scaled returns an amount as a function of the number of nodes; a percentage rounds up.
func scaled(amount intstr.IntOrString) (func(n int32) int32, error) {
	if _, err := budget.Scaled(amount, 1, budget.Up); err != nil {
		return nil, err
	}
	return func(n int32) int32 {
		out, _ := budget.Scaled(amount, n, budget.Up) // the error was refused above; it does not depend on n
		return out
	}, nil
}

// mergedNeeds returns each object once, sorted. It is optional if it is that wherever it is named.
func mergedNeeds(needs []Need) []Need {
	slices.SortStableFunc(needs, func(a, b Need) int { return CompareRefs(a.DependencyReference, b.DependencyReference) })
	var out []Need
	for _, need := range needs {
		if k := len(out) - 1; k >= 0 && out[k].DependencyReference == need.DependencyReference {
			out[k].Optional = out[k].Optional && need.Optional
			continue
		}
		out = append(out, need)
	}
	return out
}

// renderBroadcastJob returns the member's job. It is not deleted after a time there, because the hub does that. A
// member whose agent reads no budgets creates no pods.
func renderBroadcastJob(o Object, order *Order) (Manifest, error) {
	job := o.(*apps.BroadcastJob)
	spec := job.Spec.DeepCopy()
	spec.CompletionPolicy.TTLSecondsAfterFinished = nil
	spec.Paused = spec.Paused || order.Budget == nil
	annotations := map[string]string{}
	for _, name := range []string{apps.AnnotationResume, apps.AnnotationPromote} {
		if value, ok := job.Annotations[name]; ok {
			annotations[name] = value
		}
	}
	return Manifest{Spec: spec, Annotations: annotations}, nil
}

func reflectBroadcastJob(r *Reflected) (Usage, error) {
	status := apps.BroadcastJobStatus{}
	if err := json.Unmarshal(r.Status, &status); err != nil {
		return Usage{}, err
	}
	return Usage{InUse: []work.SubsetUse{work.BroadcastJobUse(&status)}, Answered: r.Seen && r.Current}, nil
}

func observeBroadcastJob(o Object) Observed {
	job := o.(*apps.BroadcastJob)
	return Observed{Generation: job.Status.ObservedGeneration, Paused: job.Spec.Paused, NoDeadline: true}
}

// broadcastJobStatus writes the sum. After the end of the job its counters stay once no pod is active.
func broadcastJobStatus(o Object, s *Sum, now time.Time) bool {
	job := o.(*apps.BroadcastJob)
	out := *job.Status.DeepCopy()
	out.ObservedGeneration, out.ObservedSequence, out.NodeCounts = s.ObservedGeneration, 0, nil
	ended := out.CompletionTime != nil
	if !ended || out.Active > 0 {
		sumJobs(&out, s.Statuses)
	}
	all := withoutProgressing(s.Conditions)
	switch {
	case ended && !isDeleted(all):
		all = slices.DeleteFunc(all, func(c conditions.Condition) bool {
			return c.Type != apps.ConditionFederated && c.Type != apps.ConditionPodsNotReady
		})
	case !ended && s.Job != nil:
		setJobProgress(&out, job, s.Job)
		all = append(retried(s, failedCreateJobPod, failedUpdateJobPod), jobConditions(&out, job, s, all)...)
	}
	out.Conditions = conditions.Merge(out.Conditions, now, all...)
	changed := !equality.Semantic.DeepEqual(&job.Status, &out)
	job.Status = out
	return changed
}

// sumJobs writes the sums of the counters of the statuses of member objects, and when the first of them began. A status
// that cannot be read counts as empty.
func sumJobs(out *apps.BroadcastJobStatus, statuses [][]byte) {
	out.Desired, out.Active, out.Succeeded, out.Failed = 0, 0, 0, 0
	for _, data := range statuses {
		var status apps.BroadcastJobStatus
		if json.Unmarshal(data, &status) != nil {
			continue
		}
		desired := within(status.Desired, wire.MaxPods)
		out.Desired += desired
		out.Active += within(status.Active, desired)
		out.Succeeded += within(status.Succeeded, desired)
		out.Failed += within(status.Failed, desired)
		if began := status.StartTime; began != nil && (out.StartTime == nil || began.Before(out.StartTime)) {
			out.StartTime = began
		}
	}
}

// setJobProgress writes the phase, how far the batches are, and the end.
func setJobProgress(out *apps.BroadcastJobStatus, job *apps.BroadcastJob, s *JobSum) {
	out.Phase, out.Flotilla = apps.PhaseRunning, nil
	progress := &apps.BroadcastJobProgress{}
	if wave := s.Wave; wave != nil && wave.Number <= wave.Of {
		progress.Batch, progress.BatchTime, progress.SoakTime = wave.Number, &wave.Since, wave.Settled
	}
	if s.Halted != nil {
		progress.Halted = &apps.BroadcastJobHalt{Time: s.Halted.Time, Reason: s.Halted.Reason, Message: s.Halted.Message}
	}
	if *progress != (apps.BroadcastJobProgress{}) {
		out.Flotilla = progress
	}
	switch {
	case s.End != nil && s.End.Failed:
		out.Phase, out.CompletionTime = apps.PhaseFailed, &s.End.Time
	case s.End != nil:
		out.Phase, out.CompletionTime = apps.PhaseCompleted, &s.End.Time
	case job.Spec.Paused || s.Halted != nil:
		out.Phase = apps.PhasePaused
	}
}

// jobConditions returns the conditions of a job, given those that all kinds have. Those that say what stands in the way,
// or that members do not answer, are the same for all kinds.
func jobConditions(
	out *apps.BroadcastJobStatus,
	job *apps.BroadcastJob,
	s *Sum,
	list []conditions.Condition,
) []conditions.Condition {
	ended := fmt.Sprintf("pods of %d of %d nodes have ended, %d of them failed; %d pods are active",
		out.Succeeded+out.Failed, out.Desired, out.Failed, out.Active)
	switch end := s.Job.End; {
	case isDeleted(list):
	case end != nil && end.Failed:
		list = append(list, conditions.Condition{Type: string(apps.JobFailed), Status: corev1.ConditionTrue,
			Reason: "Failed", Message: end.Message})
	case end != nil:
		text := fmt.Sprintf("Job completed, %d pods succeeded, %d pods failed", out.Succeeded, out.Failed)
		list = append(list, conditions.Condition{Type: string(apps.JobComplete), Status: corev1.ConditionTrue,
			Reason: "Complete", Message: text})
		settle(list, corev1.ConditionTrue, false, "Complete", text)
	case s.Cause != nil, s.Job.Elsewhere:
	case out.Desired == 0:
		settle(list, corev1.ConditionFalse, true, noNodeFits, fmt.Sprintf(
			"no node of %d members fits the template, so no pod is to run", len(s.Statuses)))
	case job.Spec.Paused:
		settle(list, corev1.ConditionFalse, false, conditions.ReasonPaused,
			ended+"; spec.paused is true, so no more pods are created")
	case s.Job.Wave == nil && out.Active == 0 && isZero(job.Spec.Parallelism):
		settle(list, corev1.ConditionFalse, true, "ParallelismZero",
			ended+"; parallelism is 0, so no pods are created: raise it")
	case s.Job.Waits != "":
		settle(list, corev1.ConditionFalse, true, "Running", s.Job.Waits+"; "+ended)
	case s.Job.Proven && job.Spec.CompletionPolicy.Type == apps.NeverCompletionPolicyType:
		settle(list, corev1.ConditionTrue, false, "NodesDone",
			ended+"; completionPolicy.type is Never, so the job waits for more nodes")
	default:
		settle(list, corev1.ConditionFalse, true, "Running", ended)
	}
	return list
}

func isZero(parallelism *intstr.IntOrString) bool {
	return parallelism != nil && (parallelism.String() == "0" || parallelism.String() == "0%")
}

// settle sets Ready and Reconciling.
func settle(list []conditions.Condition, ready corev1.ConditionStatus, reconciling bool, reason, message string) {
	for i := range list {
		switch c := &list[i]; c.Type {
		case apps.ConditionReady:
			c.Status, c.Reason, c.Message = ready, reason, message
		case apps.ConditionReconciling:
			if c.Status, c.Reason, c.Message = corev1.ConditionFalse, reason, ""; reconciling {
				c.Status, c.Message = corev1.ConditionTrue, message
			}
		}
	}
}

// withoutProgressing returns the conditions without the one that jobs lack.
func withoutProgressing(list []conditions.Condition) []conditions.Condition {
	return slices.DeleteFunc(slices.Clone(list), func(c conditions.Condition) bool {
		return c.Type == apps.ConditionProgressing
	})
}

// isDeleted reports whether the conditions are those of an object that is being deleted.
func isDeleted(list []conditions.Condition) bool {
	return slices.ContainsFunc(list, func(c conditions.Condition) bool {
		return c.Type == apps.ConditionReady &&
			(c.Reason == conditions.ReasonDeleting || c.Reason == conditions.ReasonNamespaceTerminating)
	})
}
