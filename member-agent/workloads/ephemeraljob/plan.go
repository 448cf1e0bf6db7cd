package ephemeraljob

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
)

// defaultTTL is how long a job is kept after its end if it does not say that, as published.
const defaultTTL = 1800 * time.Second

// Facts are what the plan is made from. Nothing in them is changed.
type Facts struct {
	Job *v1alpha1.EphemeralJob
	// Pods are those that the selector of the job selects.
	Pods []*corev1.Pod
	// Refused are the pods that did not take the containers. They are tried again after all others.
	Refused map[types.UID]bool
	Now     time.Time
}

// Counts are the pods of a job by their state.
type Counts struct{ Match, Waiting, Running, Succeeded, Failed int32 }

// left returns how many pods have not ended.
func (c Counts) left() int32 { return c.Match - c.Succeeded - c.Failed }

// Plan is what a job does next.
type Plan struct {
	// Add are the pods that get the containers now.
	Add []*corev1.Pod
	// Taken are the names of pods that are left out because they have a container of such a name, sorted.
	Taken []string
	// Started is when the job began. Ended says that it ended now, Overdue because of its deadline.
	Started        time.Time
	Ended, Overdue bool
	Phase          v1alpha1.EphemeralJobPhase
	Counts         Counts
	// Expired: the job ended longer ago than it is to be kept.
	Expired bool
	// Wake is when to look again though nothing happens; 0 is never.
	Wake time.Duration
}

// Compute returns the plan. A job that has ended before only expires.
func Compute(f Facts) Plan {
	if end := f.Job.Status.CompletionTime; end != nil {
		ttl := defaultTTL
		if seconds := f.Job.Spec.TTLSecondsAfterFinished; seconds != nil {
			ttl = inSeconds(int64(*seconds))
		}
		left := end.Add(ttl).Sub(f.Now)
		return Plan{Phase: f.Job.Status.Phase, Expired: left <= 0, Wake: max(0, left)}
	}
	p := Plan{Started: f.Now}
	if start := f.Job.Status.StartTime; start != nil {
		p.Started = start.Time
	}
	if len(f.Job.Spec.Template.EphemeralContainers) == 0 {
		p.Phase = v1alpha1.EphemeralJobError
		return p
	}
	var candidates []*corev1.Pod
	unended := f.count(&p, &candidates)
	f.settle(&p)
	if p.Phase == v1alpha1.EphemeralJobPaused || p.Ended {
		return p
	}
	if room := int(f.parallelism()) - unended; room > 0 {
		p.Add = candidates[:min(room, len(candidates))]
	}
	return p
}

// count counts the pods of the job. It returns how many have containers that have not ended, and sets candidates to
// those that are to get them, in the order in which they do.
func (f *Facts) count(p *Plan, candidates *[]*corev1.Pod) (unended int) {
	for _, pod := range f.targets(p) {
		switch stateOf(pod, f.Job.UID) {
		case none:
			p.Counts.Waiting++
			*candidates = append(*candidates, pod)
		case waiting:
			p.Counts.Waiting++
			unended++
		case running:
			p.Counts.Running++
			unended++
		case succeeded:
			p.Counts.Succeeded++
		case failed:
			p.Counts.Failed++
		}
		p.Counts.Match++
	}
	return unended
}

// settle decides the phase of a job that has not ended before, and whether it ends.
func (f *Facts) settle(p *Plan) {
	c := p.Counts
	switch {
	case c.Match > 0 && c.left() == 0 && c.Failed == 0:
		p.Phase, p.Ended = v1alpha1.EphemeralJobSucceeded, true
		return
	case c.Match > 0 && c.left() == 0:
		p.Phase, p.Ended = v1alpha1.EphemeralJobFailed, true
		return
	case f.Job.Spec.Paused:
		p.Phase = v1alpha1.EphemeralJobPaused
		return
	case c.Running > 0:
		p.Phase = v1alpha1.EphemeralJobRunning
	default:
		p.Phase = v1alpha1.EphemeralJobWaiting
	}
	if seconds := f.Job.Spec.ActiveDeadlineSeconds; seconds != nil {
		left := p.Started.Add(inSeconds(*seconds)).Sub(f.Now)
		if left > 0 {
			p.Wake = left
			return
		}
		p.Phase, p.Ended, p.Overdue = v1alpha1.EphemeralJobFailed, true, true
	}
}

// inSeconds returns so many seconds, as many as fit at most.
func inSeconds(n int64) time.Duration {
	return time.Duration(min(n, math.MaxInt32)) * time.Second
}

func (f *Facts) parallelism() int32 {
	if n := f.Job.Spec.Parallelism; n != nil {
		return *n
	}
	return 1
}

// targets returns the pods of the job: first those that have its containers, then the oldest, and last those that
// refused them.
func (f *Facts) targets(p *Plan) []*corev1.Pod {
	var with, without, refused []*corev1.Pod
	for _, pod := range f.Pods {
		switch {
		case !podstate.Active(pod):
		case stateOf(pod, f.Job.UID) != none:
			with = append(with, pod)
		case f.taken(pod):
			p.Taken = append(p.Taken, pod.Name)
		case f.Refused[pod.UID]:
			refused = append(refused, pod)
		default:
			without = append(without, pod)
		}
	}
	slices.Sort(p.Taken)
	var targets []*corev1.Pod
	for _, list := range [][]*corev1.Pod{with, without, refused} {
		slices.SortFunc(list, func(a, b *corev1.Pod) int {
			return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
		})
		targets = append(targets, list...)
	}
	if n := f.Job.Spec.Replicas; n != nil {
		targets = targets[:min(int(*n), len(targets))]
	}
	return targets
}

// taken reports whether a container of the pod has the name of one of the job.
func (f *Facts) taken(pod *corev1.Pod) bool {
	return slices.ContainsFunc(f.Job.Spec.Template.EphemeralContainers, func(c corev1.EphemeralContainer) bool {
		named := func(other corev1.Container) bool { return other.Name == c.Name }
		return slices.ContainsFunc(pod.Spec.Containers, named) || slices.ContainsFunc(pod.Spec.InitContainers, named) ||
			slices.ContainsFunc(pod.Spec.EphemeralContainers, func(other corev1.EphemeralContainer) bool {
				return other.Name == c.Name
			})
	})
}

// state is how far the containers of a job are in a pod.
type state int

const (
	none state = iota // the pod has none
	waiting
	running
	succeeded
	failed
)

// stateOf returns how far the containers of the job are in the pod. As published, one that fails makes the pod failed,
// also while others run.
func stateOf(pod *corev1.Pod, job types.UID) state {
	var all, ended, runs int
	for i := range pod.Spec.EphemeralContainers {
		c := &pod.Spec.EphemeralContainers[i]
		if !isOf(c, job) {
			continue
		}
		all++
		at := slices.IndexFunc(pod.Status.EphemeralContainerStatuses,
			func(s corev1.ContainerStatus) bool { return s.Name == c.Name })
		if at < 0 {
			continue
		}
		switch s := pod.Status.EphemeralContainerStatuses[at].State; {
		case s.Terminated != nil && s.Terminated.ExitCode != 0,
			s.Waiting != nil && s.Waiting.Reason == "RunContainerError":
			return failed
		case s.Terminated != nil:
			ended++
		case s.Running != nil:
			runs++
		}
	}
	switch {
	case all == 0:
		return none
	case ended == all:
		return succeeded
	case runs > 0:
		return running
	}
	return waiting
}

// isOf reports whether the job made the container.
func isOf(c *corev1.EphemeralContainer, job types.UID) bool {
	return slices.Contains(c.Env, corev1.EnvVar{Name: v1alpha1.EnvEphemeralJob, Value: string(job)})
}

// containersOf returns the containers that a pod gets: those of the template, each with the UID of the job.
func containersOf(job *v1alpha1.EphemeralJob) []corev1.EphemeralContainer {
	var out []corev1.EphemeralContainer
	for i := range job.Spec.Template.EphemeralContainers {
		c := job.Spec.Template.EphemeralContainers[i].DeepCopy()
		c.Env = append(slices.DeleteFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == v1alpha1.EnvEphemeralJob }),
			corev1.EnvVar{Name: v1alpha1.EnvEphemeralJob, Value: string(job.UID)})
		out = append(out, *c)
	}
	return out
}

// String returns the counters as a sentence.
func (c Counts) String() string {
	return fmt.Sprintf("%d of %d pods have ended, %d of them failed; containers run in %d and wait in %d",
		c.Succeeded+c.Failed, c.Match, c.Failed, c.Running, c.Waiting)
}
