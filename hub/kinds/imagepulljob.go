package kinds

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/topology/lending"
)

// imagePullJobKind is the kind whose parallelism is over the nodes of all members. Each member has the job, and may pull
// on as many nodes at a time as it is granted. Nodes count as pods.
func imagePullJobKind() Kind {
	return Kind{
		GVK:                apps.ImagePullJobKind,
		Mode:               PerMember,
		NoPods:             true,
		New:                func() Object { return &apps.ImagePullJob{} },
		NewList:            func() ObjectList { return &apps.ImagePullJobList{} },
		Read:               readImagePullJob,
		Render:             renderImagePullJob,
		Budget:             true,
		Guarded:            []string{"spec.parallelism", "spec.completionPolicy"},
		Reflect:            reflectImagePullJob,
		Shown:              shownBroadcastJob,
		Observe:            observeImagePullJob,
		AnswersWhenStalled: true,
		Expires:            imagePullJobExpires,
		Status:             imagePullJobStatus,
		StatusOf:           func(o Object) any { return &o.(*apps.ImagePullJob).Status },
	}
}

// The reasons of Ready of a job, as its controller has them.
const (
	imagePulled     = "Pulled"
	imagePulling    = "Pulling"
	imagePullFailed = "PullFailed"
	noNodeSelected  = "NoNodeSelected"
	// mostFailedNodes bounds status.failedNodes.
	mostFailedNodes = 10000
)

// imagePullJobExpires returns when a job of the hub that has ended is over its ttlSecondsAfterFinished.
func imagePullJobExpires(o Object) (time.Time, bool) {
	job := o.(*apps.ImagePullJob)
	end, ttl := job.Status.CompletionTime, job.Spec.CompletionPolicy.TTLSecondsAfterFinished
	if end == nil || ttl == nil || !meta.IsStatusConditionTrue(job.Status.Conditions, apps.ConditionFederated) {
		return time.Time{}, false
	}
	return end.Add(time.Duration(*ttl) * time.Second), true
}

// readImagePullJob reads a job. It has no revision: another image is another order, for which the controllers of the
// members begin again with all nodes. Only a job that has ended refuses it.
func readImagePullJob(o Object) (Workload, *Rejection) {
	job := o.(*apps.ImagePullJob)
	w := NewWorkload(job, apps.ImagePullJobKind, nil)
	w.Job = &Job{Endless: job.Spec.CompletionPolicy.Type == apps.NeverCompletionPolicyType}
	for _, name := range job.Spec.PullSecrets {
		w.Needs = append(w.Needs, Need{DependencyReference: topology.DependencyReference{Kind: SecretKind, Name: name}})
	}
	w.Needs = mergedNeeds(w.Needs)
	parallelism, err := scaled(ptr.Deref(job.Spec.Parallelism, intstr.FromInt32(1)))
	if err != nil {
		return w, &Rejection{InvalidAmount, fmt.Sprintf("spec.parallelism of %s %v", w.Key.Sentence(), err)}
	}
	w.Subsets = []Subset{{Amounts: func(n int32) lending.Amounts {
		return lending.Amounts{Updated: n, Unavailable: min(parallelism(n), n)}
	}}}
	return w, nil
}

// renderImagePullJob returns the member's job. It is not deleted after a time there, because the hub does that. Its own
// parallelism is for members that get no amounts: those begin no pulls.
func renderImagePullJob(o Object, order *Order) (Manifest, error) {
	spec := o.(*apps.ImagePullJob).Spec.DeepCopy()
	spec.CompletionPolicy.TTLSecondsAfterFinished = nil
	if order.Budget == nil {
		spec.Parallelism = new(intstr.FromInt32(0))
	}
	return Manifest{Spec: spec}, nil
}

func reflectImagePullJob(r *Reflected) (Usage, error) {
	status := apps.ImagePullJobStatus{}
	if err := json.Unmarshal(r.Status, &status); err != nil {
		return Usage{}, err
	}
	return Usage{InUse: []work.SubsetUse{work.ImagePullJobUse(&status)}, Answered: r.Seen && r.Current}, nil
}

func observeImagePullJob(o Object) Observed {
	return Observed{Generation: o.(*apps.ImagePullJob).Status.ObservedGeneration, NoDeadline: true}
}

// imagePullJobStatus writes the sum. That of a job that has ended stays.
func imagePullJobStatus(o Object, s *Sum, now time.Time) bool {
	job := o.(*apps.ImagePullJob)
	out := *job.Status.DeepCopy()
	out.ObservedGeneration, out.ObservedSequence, out.Flotilla = s.ObservedGeneration, 0, nil
	all := withoutProgressing(s.Conditions)
	if out.CompletionTime != nil {
		if !isDeleted(all) {
			all = slices.DeleteFunc(all, func(c conditions.Condition) bool { return c.Type != apps.ConditionFederated })
		}
	} else {
		sumPulls(&out, s)
		if s.Job != nil && s.Job.End != nil {
			out.CompletionTime, out.Active, out.Message = &s.Job.End.Time, 0, "job has completed"
		}
		if s.Job != nil {
			settlePulls(&out, job, s, all)
		}
	}
	for _, c := range all {
		set(&out.Conditions, c, now)
	}
	changed := !equality.Semantic.DeepEqual(&job.Status, &out)
	job.Status = out
	return changed
}

// sumPulls writes the sums of the statuses of member objects. A status that cannot be read counts as empty. Nodes have
// the name of their member before their own: two members may have nodes of one name.
func sumPulls(out *apps.ImagePullJobStatus, s *Sum) {
	out.Desired, out.Active, out.Succeeded, out.Failed, out.FailedNodes = 0, 0, 0, 0, nil
	for i, data := range s.Statuses {
		var status apps.ImagePullJobStatus
		if json.Unmarshal(data, &status) != nil {
			continue
		}
		desired := within(status.Desired, wire.MaxPods)
		out.Desired += desired
		out.Active += within(status.Active, desired)
		out.Succeeded += within(status.Succeeded, desired)
		out.Failed += within(status.Failed, desired)
		for _, node := range status.FailedNodes {
			out.FailedNodes = append(out.FailedNodes, s.member(i)+"/"+node)
		}
		if began := status.StartTime; began != nil && (out.StartTime == nil || began.Before(out.StartTime)) {
			out.StartTime = began
		}
	}
	slices.Sort(out.FailedNodes)
	out.FailedNodes = out.FailedNodes[:min(len(out.FailedNodes), mostFailedNodes)]
	out.Message = "job is running, no progress"
	if ended := out.Succeeded + out.Failed; ended > 0 && out.Desired > 0 {
		out.Message = fmt.Sprintf("job is running, progress %.1f%%", 100*float64(ended)/float64(out.Desired))
	}
}

// stall sets Stalled.
func stall(list []conditions.Condition, reason, message string) {
	for i := range list {
		if c := &list[i]; c.Type == apps.ConditionStalled {
			c.Status, c.Reason, c.Message = corev1.ConditionTrue, reason, message
		}
	}
}

// settlePulls sets Ready, Reconciling and Stalled, unless they say what stands in the way, or that members do not
// answer.
func settlePulls(out *apps.ImagePullJobStatus, job *apps.ImagePullJob, s *Sum, list []conditions.Condition) {
	text := fmt.Sprintf("%d of %d nodes in %d members have the image, %d failed, %d pull", out.Succeeded, out.Desired,
		len(s.Statuses), out.Failed, out.Active)
	done := out.Desired > 0 && out.Succeeded+out.Failed == out.Desired
	switch {
	case isDeleted(list), s.Job.End == nil && (s.Cause != nil || s.Job.Elsewhere):
	case s.Job.End != nil && out.Failed > 0:
		settle(list, corev1.ConditionFalse, false, imagePullFailed, text)
		stall(list, imagePullFailed, text)
	case s.Job.End != nil:
		settle(list, corev1.ConditionTrue, false, imagePulled, text)
	case out.Desired == 0:
		settle(list, corev1.ConditionFalse, true, noNodeSelected, fmt.Sprintf(
			"the job selects no node of %d members that can pull", len(s.Statuses)))
	case done && job.Spec.CompletionPolicy.Type == apps.NeverCompletionPolicyType:
		settle(list, corev1.ConditionTrue, false, "NodesDone",
			text+"; completionPolicy.type is Never, so the job waits for more nodes")
	case out.Active == 0 && isZero(job.Spec.Parallelism):
		settle(list, corev1.ConditionFalse, true, "ParallelismZero", text+"; parallelism is 0: raise it")
	default:
		settle(list, corev1.ConditionFalse, true, imagePulling, text)
	}
}
