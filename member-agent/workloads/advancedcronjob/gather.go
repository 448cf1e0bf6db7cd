package advancedcronjob

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// jobKind is the kind of the jobs of batch/v1.
func jobKind() schema.GroupVersionKind { return batchv1.SchemeGroupVersion.WithKind("Job") }

// Job is a job of an AdvancedCronJob.
type Job struct {
	Object client.Object // the cache's: it must not be changed
	Kind   schema.GroupVersionKind
	// Tick is the time that it was created for, zero if nothing says so.
	Tick time.Time
	// Begun is when it began, or else when it was created.
	Begun           time.Time
	Finished, Fails bool
}

// deleting reports whether the job has been deleted and is still there.
func (j Job) deleting() bool { return j.Object.GetDeletionTimestamp() != nil }

// gather reads the jobs. They have no index by their owner: an index of BroadcastJobs cannot be made before their
// definition is there, and its lack would end the agent.
func (r *Reconciler) gather(ctx context.Context, s *scope) (bool, error) {
	options := []client.ListOption{client.InNamespace(s.cron.Namespace), client.UnsafeDisableDeepCopy}
	s.facts = Facts{Cron: s.cron, Now: r.Clock.Now(), Started: s.Memory.started}
	s.facts.readTicks(s.Budget)
	var jobs batchv1.JobList
	if err := r.Client.List(ctx, &jobs, options...); err != nil {
		return false, fmt.Errorf("list its Jobs: %w", err)
	}
	for i := range jobs.Items {
		if metav1.IsControlledBy(&jobs.Items[i], s.cron) {
			s.facts.Jobs = append(s.facts.Jobs, nativeJob(&jobs.Items[i]))
		}
	}
	var broadcasts v1beta1.BroadcastJobList
	if err := r.Client.List(ctx, &broadcasts, options...); err != nil {
		return false, fmt.Errorf("list its BroadcastJobs: %w", err)
	}
	for i := range broadcasts.Items {
		if metav1.IsControlledBy(&broadcasts.Items[i], s.cron) {
			s.facts.Jobs = append(s.facts.Jobs, broadcastJob(&broadcasts.Items[i]))
		}
	}
	var pulls v1beta1.ImageListPullJobList
	if err := r.Client.List(ctx, &pulls, options...); err != nil {
		return false, fmt.Errorf("list its ImageListPullJobs: %w", err)
	}
	for i := range pulls.Items {
		if metav1.IsControlledBy(&pulls.Items[i], s.cron) {
			s.facts.Jobs = append(s.facts.Jobs, pullJob(&pulls.Items[i]))
		}
	}
	return true, nil
}

// pullJob reads a job that pulls images. It has failed if an image is not on all nodes at its end.
func pullJob(job *v1beta1.ImageListPullJob) Job {
	out := newJob(job, v1beta1.ImageListPullJobKind, job.Status.StartTime)
	out.Finished = job.Status.CompletionTime != nil
	out.Fails = out.Finished && job.Status.Succeeded != job.Status.Desired
	return out
}

func nativeJob(job *batchv1.Job) Job {
	out := newJob(job, jobKind(), job.Status.StartTime)
	for _, c := range job.Status.Conditions {
		if c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) {
			out.Finished, out.Fails = true, c.Type == batchv1.JobFailed
		}
	}
	return out
}

func broadcastJob(job *v1beta1.BroadcastJob) Job {
	out := newJob(job, v1beta1.BroadcastJobKind, job.Status.StartTime)
	for _, c := range job.Status.Conditions {
		if c.Status == corev1.ConditionTrue && (c.Type == v1beta1.JobComplete || c.Type == v1beta1.JobFailed) {
			out.Finished, out.Fails = true, c.Type == v1beta1.JobFailed
		}
	}
	return out
}

func newJob(object client.Object, kind schema.GroupVersionKind, begun *metav1.Time) Job {
	out := Job{Object: object, Kind: kind, Tick: tickOf(object), Begun: object.GetCreationTimestamp().Time}
	if out.Tick.Sub(out.Begun) > latestTick {
		out.Tick = time.Time{} // a person gave it a name that ends with another number, such as a date
	}
	if begun != nil {
		out.Begun = begun.Time
	}
	return out
}

// latestTick is how much later than its creation the tick of a job can be, by clocks that differ. A later one would
// keep all ticks up to it from their start.
const latestTick = 24 * time.Hour

// tickOf returns the tick that a job was created for: its annotation says so, and else its name.
func tickOf(job client.Object) time.Time {
	if tick, err := time.Parse(time.RFC3339, job.GetAnnotations()[v1beta1.AnnotationScheduledAt]); err == nil {
		return tick
	}
	name := job.GetName()
	seconds, err := strconv.ParseInt(name[strings.LastIndexByte(name, '-')+1:], 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(seconds, 0)
}
