package advancedcronjob

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/cron"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
	"github.com/flotilla-dev/flotilla/topology/checks"
)

const (
	// reasonNeverFires says that the schedule has no ticks.
	reasonNeverFires = "ScheduleNeverFires"
)

const (
	// successfulHistory and failedHistory are how many jobs are kept by default.
	successfulHistory, failedHistory = 3, 1
	// longestWait is after how long the clock is looked at again: it may be set forward while a timer runs.
	longestWait = time.Minute
	// unrecordedWait is when to look again at a job whose tick the status should record first.
	unrecordedWait = time.Second
)

// Facts are what a decision depends on.
type Facts struct {
	Cron *v1beta1.AdvancedCronJob
	Jobs []Job
	Now  time.Time
	// Started is the newest tick that a job was created for, as far as the controller remembers.
	Started time.Time
	// Ticks are those that a hub gave to this member, nil if it runs on its own.
	Ticks *topology.Ticks
	// Held says why no tick is started or missed until the hub has answered, nil if nothing keeps it.
	Held *conditions.Cause
}

// Deletion is a job to delete.
type Deletion struct {
	Job
	// Replaced: it runs, and the next tick takes its place. Else it has ended, and the history is full.
	Replaced bool
}

// Plan is a decision.
type Plan struct {
	// Observed is the schedule that is followed, and since when.
	Observed v1beta1.ObservedSchedule
	// Delete are jobs to delete, before a job is created.
	Delete []Deletion
	// Start is the tick to start, zero for none.
	Start time.Time
	// Started is the newest tick that was started before. Missed are ticks that are never started.
	Started time.Time
	Missed  cron.Missed
	// Active are the jobs that run, by their ticks.
	Active []Job
	// Next is the next tick, zero if there is none. Wake is when to look again, 0 for never.
	Next time.Time
	Wake time.Duration
	// Stalled says why no tick is started until a person changes something.
	Stalled *conditions.Cause
}

// Compute returns what to start and to delete, and what was missed.
func Compute(f Facts) Plan {
	plan := Plan{Observed: f.observed(), Started: f.started()}
	for _, job := range f.Jobs {
		if !job.Finished {
			plan.Active = append(plan.Active, job)
		}
	}
	slices.SortFunc(plan.Active, older)
	unrecorded := f.history(&plan)
	if plan.Stalled = f.unusable(); plan.Stalled == nil {
		unrecorded = f.schedule(&plan) || unrecorded
	}
	if unrecorded {
		plan.Wake = unrecordedWait
	}
	return plan
}

// observed returns the schedule of the spec, and since when it is followed. A change has no ticks before it was seen;
// the first schedule has ticks since the object was created. One that moved here has those that the former member left.
func (f Facts) observed() v1beta1.ObservedSchedule {
	out := v1beta1.ObservedSchedule{Schedule: f.Cron.Spec.Schedule, TimeZone: ptr.Deref(f.Cron.Spec.TimeZone, "")}
	switch have := f.Cron.Status.ObservedSchedule; {
	case have == nil:
		out.Since = f.Cron.CreationTimestamp
	case have.Schedule == out.Schedule && have.TimeZone == out.TimeZone:
		out.Since = have.Since
	default:
		out.Since = metav1.NewTime(f.Now.Truncate(time.Second))
		return out
	}
	if t := f.Ticks; t != nil && t.Since != nil && (f.Cron.Status.ObservedSchedule == nil || !out.Since.After(t.At.Time)) {
		out.Since = *t.Since
	}
	return out
}

// started returns the newest tick that a job was created for, by the status, the jobs and what is remembered.
func (f Facts) started() time.Time {
	out := f.Started
	if recorded := f.recorded(); recorded.After(out) {
		out = recorded
	}
	for _, job := range f.Jobs {
		if job.Tick.After(out) {
			out = job.Tick
		}
	}
	return out
}

// recorded returns the newest tick that the status says was started.
func (f Facts) recorded() time.Time {
	if t := f.Cron.Status.LastScheduleTime; t != nil {
		return t.Time
	}
	return time.Time{}
}

// unusable says what is wrong with the spec that the schema could not know.
func (f Facts) unusable() *conditions.Cause {
	spec := &f.Cron.Spec
	schedule, err := cron.Parse(spec.Schedule, ptr.Deref(spec.TimeZone, ""))
	var wrong *cron.Error
	switch {
	case errors.As(err, &wrong):
		return &conditions.Cause{Reason: string(wrong.Problem), Message: wrong.Error()}
	case schedule.Next(f.Now).IsZero():
		return &conditions.Cause{Reason: reasonNeverFires, Message: fmt.Sprintf(
			"schedule %q has no tick in the next five years, so no job is started: correct it", spec.Schedule)}
	}
	path := field.NewPath("spec", "template")
	switch t := &spec.Template; {
	case t.ImageListPullJobTemplate != nil: // the schema has checked it
	case t.BroadcastJobTemplate != nil:
		job := &t.BroadcastJobTemplate.Spec
		err = job.Template.Err(path.Child("broadcastJobTemplate", "spec", "template"))
		if own := job.Flotilla; own != nil && err == nil {
			if why := checks.InvalidInBatches(own.Batches); why != "" {
				err = errors.New("template.broadcastJobTemplate.spec.flotilla.batches: " + why)
			}
		}
	case t.JobTemplate != nil:
		err = t.JobTemplate.Err(path.Child("jobTemplate"))
	default: // the schema refuses it
		err = field.Required(path, "give one of jobTemplate, broadcastJobTemplate and imageListPullJobTemplate")
	}
	if err != nil {
		return &conditions.Cause{Reason: workload.ReasonInvalidTemplate, Message: err.Error()}
	}
	return nil
}

// schedule decides about ticks. It returns whether something waits until the status has recorded ticks.
func (f Facts) schedule(plan *Plan) (waits bool) {
	spec := &f.Cron.Spec
	schedule, err := cron.Parse(spec.Schedule, ptr.Deref(spec.TimeZone, ""))
	if err != nil {
		return false // unusable has said so
	}
	facts := cron.Facts{
		Now: f.Now, Schedule: schedule, Since: plan.Observed.Since.Time, Started: plan.Started,
		Concurrency: concurrencyOf(spec), Running: len(plan.Active) > 0, Paused: paused(f.Cron) || f.Held != nil,
	}
	if t := f.Ticks; t != nil && t.StartAfter != nil {
		facts.StartAfter = t.StartAfter.Time
	}
	if t := f.Cron.Status.LastMissedTime; t != nil {
		facts.Missed = t.Time
	}
	if seconds := spec.StartingDeadlineSeconds; seconds != nil {
		facts.Deadline = new(deadlineOf(*seconds))
	}
	decision := cron.Decide(facts)
	plan.Start, plan.Missed, plan.Next = decision.Start, decision.Missed, decision.Next
	if plan.Wake = decision.LookIn; plan.Wake > longestWait {
		plan.Wake = longestWait
	}
	switch {
	case !plan.Start.IsZero() && plan.Missed.Count > 0:
		// Missed ticks are in the status before a later one is started: the job of that one would hide them.
		plan.Start = time.Time{}
		return true
	case !decision.Replace:
		return false
	}
	for _, job := range plan.Active {
		switch {
		case job.deleting():
		case job.Tick.After(f.recorded()):
			waits = true
		default:
			plan.Delete = append(plan.Delete, Deletion{Job: job, Replaced: true})
		}
	}
	if waits {
		plan.Start, plan.Missed = time.Time{}, cron.Missed{} // all of it in a later pass
	}
	return waits
}

// history adds the jobs that have ended and are too many. It returns whether one waits until the status has recorded
// its tick.
func (f Facts) history(plan *Plan) (waits bool) {
	spec := &f.Cron.Spec
	for _, of := range []struct {
		fails bool
		limit int32
	}{
		{false, ptr.Deref(spec.SuccessfulJobsHistoryLimit, successfulHistory)},
		{true, ptr.Deref(spec.FailedJobsHistoryLimit, failedHistory)},
	} {
		var ended []Job
		for _, job := range f.Jobs {
			if job.Finished && job.Fails == of.fails && !job.deleting() {
				ended = append(ended, job)
			}
		}
		slices.SortFunc(ended, older)
		for _, job := range ended[:max(0, len(ended)-int(max(0, of.limit)))] {
			if job.Tick.After(f.recorded()) {
				waits = true
				continue
			}
			plan.Delete = append(plan.Delete, Deletion{Job: job})
		}
	}
	return waits
}

// older orders jobs by when they began.
func older(a, b Job) int {
	return cmp.Or(a.Begun.Compare(b.Begun), a.Tick.Compare(b.Tick), cmp.Compare(a.Object.GetName(), b.Object.GetName()))
}

// longestDeadline is the longest deadline that fits into a duration, in seconds.
const longestDeadline = int64(1<<63-1) / int64(time.Second)

func deadlineOf(seconds int64) time.Duration {
	return time.Duration(min(seconds, longestDeadline)) * time.Second
}

func concurrencyOf(spec *v1beta1.AdvancedCronJobSpec) cron.ConcurrencyPolicy {
	switch spec.ConcurrencyPolicy {
	case v1beta1.ForbidConcurrent:
		return cron.Forbid
	case v1beta1.ReplaceConcurrent:
		return cron.Replace
	}
	return cron.Allow
}
