package kinds

import (
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
)

func advancedCronJobKind() Kind {
	return Kind{
		GVK:                apps.AdvancedCronJobKind,
		Mode:               PerMember,
		NoPods:             true,
		New:                func() Object { return &apps.AdvancedCronJob{} },
		NewList:            func() ObjectList { return &apps.AdvancedCronJobList{} },
		Read:               readAdvancedCronJob,
		Ticks:              ticksOfAdvancedCronJob,
		Render:             renderAdvancedCronJob,
		Guarded:            []string{"spec.paused"},
		Reflect:            reflectAdvancedCronJob,
		Shown:              shownAdvancedCronJob,
		Observe:            observeAdvancedCronJob,
		Failures:           []Failure{{Type: failedCreateJob}, {Type: ticksMissed, Past: true}},
		AnswersWhenStalled: true,
		Status:             advancedCronJobStatus,
		StatusOf:           func(o Object) any { return &o.(*apps.AdvancedCronJob).Status },
	}
}

const (
	// failedCreateJob and ticksMissed are conditions of AdvancedCronJobs.
	failedCreateJob = "FailedCreateJob"
	ticksMissed     = "TicksMissed"
	// scheduled is the reason of Ready while jobs are started.
	scheduled = "Scheduled"
	// mostActive is how many running jobs the status on a hub names.
	mostActive = 20
)

func readAdvancedCronJob(o Object) (Workload, *Rejection) {
	job := o.(*apps.AdvancedCronJob)
	w := NewWorkload(job, apps.AdvancedCronJobKind, nil)
	path := field.NewPath("spec", "template")
	switch t := &job.Spec.Template; {
	case t.BroadcastJobTemplate != nil:
		if err := t.BroadcastJobTemplate.Spec.Template.Err(path.Child("broadcastJobTemplate", "spec", "template")); err != nil {
			return w, undecodable(w.Key, err)
		}
		w.Needs = NeedsOf(&t.BroadcastJobTemplate.Spec.Template.PodTemplateSpec)
	case t.JobTemplate != nil:
		if err := t.JobTemplate.Err(path.Child("jobTemplate")); err != nil {
			return w, undecodable(w.Key, err)
		}
		w.Needs = NeedsOf(&t.JobTemplate.Spec.Template)
	}
	spec, err := json.Marshal(&job.Spec)
	if err != nil {
		return w, undecodable(w.Key, err)
	}
	w.Revision, w.Paused = history.Hash(spec, nil), ptr.Deref(job.Spec.Paused, false)
	w.NoWaves = "the policy's rollout.waves and rollout.steps do not hold for AdvancedCronJobs: a change of " +
		w.Key.Sentence() + " reaches all members at once"
	return w, nil
}

// ticksOfAdvancedCronJob reads the status of a member object, or that of the user's object if status is nil.
func ticksOfAdvancedCronJob(o Object, status []byte) Ticks {
	job := o.(*apps.AdvancedCronJob)
	if status == nil {
		out := Ticks{Settled: job.CreationTimestamp.Time}
		out.settle(job.Status.LastScheduleTime, job.Status.LastMissedTime)
		return out
	}
	var out Ticks
	var have apps.AdvancedCronJobStatus
	if json.Unmarshal(status, &have) != nil {
		return out
	}
	out.settle(have.LastScheduleTime, have.LastMissedTime)
	if s := have.ObservedSchedule; s != nil {
		out.Outdated = s.Schedule != job.Spec.Schedule || s.TimeZone != ptr.Deref(job.Spec.TimeZone, "")
		if !out.Outdated {
			out.settle(&s.Since)
		}
	}
	return out
}

// renderAdvancedCronJob returns the member's AdvancedCronJob. Where another member starts the jobs it is paused.
func renderAdvancedCronJob(o Object, order *Order) (Manifest, error) {
	spec := o.(*apps.AdvancedCronJob).Spec.DeepCopy()
	ticks := order.Cells[0].Ticks
	if ticks == nil {
		return Manifest{Spec: spec}, nil
	}
	if ticks.Alone && order.Cells[0].Replicas == 0 {
		spec.Paused = new(true)
	}
	data, err := json.Marshal(ticks)
	if err != nil {
		return Manifest{}, fmt.Errorf("encode the ticks of member %s: %w", order.Cells[0].Cluster, err)
	}
	return Manifest{Spec: spec, Annotations: map[string]string{topology.AnnotationTicks: string(data)}}, nil
}

// shownAdvancedCronJob counts a member that starts jobs as updated, because schedules have no revisions.
func shownAdvancedCronJob(use work.SubsetUse) work.SubsetUse {
	use.Updated = use.Total
	return use
}

// reflectAdvancedCronJob reads from the condition Ready whether a member starts jobs.
func reflectAdvancedCronJob(r *Reflected) (Usage, error) {
	status := apps.AdvancedCronJobStatus{}
	if err := json.Unmarshal(r.Status, &status); err != nil {
		return Usage{}, err
	}
	var spec apps.AdvancedCronJobSpec
	for _, c := range status.Conditions {
		if c.Type == apps.ConditionReady && c.Reason == conditions.ReasonPaused {
			spec.Paused = new(true)
		}
	}
	return Usage{InUse: []work.SubsetUse{work.AdvancedCronJobUse(&spec)}, Answered: r.Seen && r.Current}, nil
}

func observeAdvancedCronJob(o Object) Observed {
	job := o.(*apps.AdvancedCronJob)
	return Observed{Generation: job.Status.ObservedGeneration, Paused: ptr.Deref(job.Spec.Paused, false), NoDeadline: true}
}

func advancedCronJobStatus(o Object, s *Sum, now time.Time) bool {
	job := o.(*apps.AdvancedCronJob)
	out := *job.Status.DeepCopy()
	out.ObservedGeneration, out.ObservedSchedule, out.Active = s.ObservedGeneration, nil, nil
	switch t := &job.Spec.Template; {
	case t.BroadcastJobTemplate != nil:
		out.Type = apps.BroadcastJobTemplateType
	case t.ImageListPullJobTemplate != nil:
		out.Type = apps.ImageListPullJobTemplateType
	default:
		out.Type = apps.JobTemplateType
	}
	for _, data := range s.Statuses {
		var status apps.AdvancedCronJobStatus
		if json.Unmarshal(data, &status) != nil {
			continue
		}
		room := mostActive - len(out.Active)
		out.Active = append(out.Active, status.Active[:min(len(status.Active), room)]...)
		out.LastScheduleTime = later(out.LastScheduleTime, status.LastScheduleTime)
		out.LastMissedTime = later(out.LastMissedTime, status.LastMissedTime)
	}
	all := retried(s, failedCreateJob, ticksMissed)
	for _, c := range s.Conditions {
		if c.Type == apps.ConditionProgressing {
			continue
		}
		if c.Reason == conditions.ReasonAllAvailable {
			c.Reason, c.Message = scheduledIn(job, s)
		}
		all = append(all, c)
	}
	out.Conditions = conditions.Merge(out.Conditions, now, all...)
	changed := !equality.Semantic.DeepEqual(&job.Status, &out)
	job.Status = out
	return changed
}

// scheduledIn says that jobs are started, or why not.
func scheduledIn(job *apps.AdvancedCronJob, s *Sum) (reason, message string) {
	switch {
	case ptr.Deref(job.Spec.Paused, false):
		return conditions.ReasonPaused, "no job is started, because spec.paused is true"
	case s.Whole.Available == 1:
		return scheduled, "1 member starts the jobs"
	}
	return scheduled, fmt.Sprintf("%d members start jobs, each its own", s.Whole.Available)
}

// later returns the later one of two times, which may be nil.
func later(a, b *metav1.Time) *metav1.Time {
	if b == nil || a != nil && !b.After(a.Time) {
		return a
	}
	return b
}
