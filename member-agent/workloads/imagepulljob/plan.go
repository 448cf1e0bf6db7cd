package imagepulljob

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/nodeimages"
)

const (
	// silence is how long a daemon may report nothing of a request, or of a pull that must have ended.
	silence = 10 * time.Minute
	// mostNodes bounds the lists of nodes in the status, which are what the job remembers of nodes that have ended.
	mostNodes = 10000
	// The defaults of the definition, for jobs of older definitions.
	defaultTimeout = int32(600)
	defaultBackoff = int32(3)
	// minTTL is how long, in seconds, a tag stays of interest to a daemon at least.
	minTTL = int32(86400)
	// deadlineExceeded is the published message of a job whose deadline is over.
	deadlineExceeded = "job exceeds activeDeadlineSeconds"
	// longest bounds times that are given in seconds, whose nanoseconds might not fit. Three of them together do.
	longest = 90 * 365 * 24 * time.Hour
)

// Node is what a NodeImage has of the image of the job.
type Node struct {
	Name string
	// Tag is the entry of the spec, nil for none.
	Tag *v1beta1.ImageTagSpec
	// Status is the entry of the status, nil for none.
	Status *v1beta1.ImageTagStatus
	// Progress is the newest start or end of a pull in the whole status, zero for none. While it moves, a tag that waits
	// for a worker of the daemon is not forgotten.
	Progress time.Time
}

// Facts are what a plan is made of.
type Facts struct {
	Job *v1beta1.ImagePullJob
	// Selected are the names that Select returned, sorted.
	Selected []string
	// Nodes are what is known of nodes by their names: their NodeImages, or pods that pull there.
	Nodes map[string]Node
	// Pods: pods pull, so the status remembers which nodes have the image.
	Pods bool
	// Granted is on how many nodes a hub lets the job pull at the same time, nil without one.
	Granted *int32
	// Touch is how many nodes a hub lets the job pull on at all, nil without one.
	Touch *int32
	Now   time.Time
}

// Request is an entry to write to the NodeImage of a node.
type Request struct {
	Node string
	Tag  v1beta1.ImageTagSpec
}

// Plan is what one pass does.
type Plan struct {
	// Request are entries to write, Release the nodes from whose entries the job leaves, both sorted by node. Status is
	// written before Release: it remembers that a node has failed. A daemon that comes back then finds nothing to pull,
	// so that the daemons of a zone that was cut off do not all pull at once.
	Request []Request
	Release []string
	Status  v1beta1.ImagePullJobStatus
	// Delete: the time to live of the job is over.
	Delete bool
	// Next is when to plan again although no object changes; zero: not before one does.
	Next time.Time
}

// outcome is how far the pull on a node is.
type outcome int

const (
	unasked outcome = iota
	active
	succeeded
	failed
)

// planner holds a plan while it is made.
type planner struct {
	Facts
	Plan
	held []string // nodes whose entry has the job as an owner
}

// AnotherImage reports whether the status of the job describes an image that its spec had earlier.
func AnotherImage(job *v1beta1.ImagePullJob) bool {
	progress := job.Status.Flotilla
	return progress != nil && progress.Image != "" && progress.Image != job.Spec.Image
}

// OfItsImage returns the job without what its status says about another image: which nodes have it or have failed, and
// that the job has ended. A status that was written while the image changed may say the latter.
func OfItsImage(job *v1beta1.ImagePullJob) *v1beta1.ImagePullJob {
	if !AnotherImage(job) {
		return job
	}
	job = job.DeepCopy()
	job.Status.FailedNodes, job.Status.Flotilla.PulledNodes, job.Status.CompletionTime = nil, nil, nil
	return job
}

// Make returns the plan. It fails if parallelism cannot be read.
func Make(f Facts) (Plan, error) {
	p := &planner{Facts: f, Plan: Plan{Status: *f.Job.Status.DeepCopy()}}
	for _, node := range f.Nodes {
		if node.Tag != nil && owns(f.Job, node.Tag) {
			p.held = append(p.held, node.Name)
		}
	}
	slices.Sort(p.held)
	switch {
	case !f.Job.DeletionTimestamp.IsZero():
		p.Release = p.held
		return p.Plan, nil
	case f.Job.Status.CompletionTime != nil:
		p.Release = p.held
		p.expire()
		return p.Plan, nil
	}
	return p.Plan, p.run()
}

// run plans a job that has not ended.
func (p *planner) run() error {
	status := &p.Status
	if status.StartTime == nil {
		status.StartTime = new(metav1.NewTime(p.Now.Truncate(time.Second)))
	}
	var waiting, failures, pulled []string
	status.Desired, status.Active, status.Succeeded, status.Failed = int32(len(p.Selected)), 0, 0, 0
	for _, name := range p.Selected {
		switch p.outcome(name) {
		case unasked:
			waiting = append(waiting, name)
		case active:
			status.Active++
		case succeeded:
			status.Succeeded++
			pulled = append(pulled, name)
		case failed:
			failures = append(failures, name)
		}
	}
	p.remember(pulled)
	pulls := status.Active + p.leave(failures)
	if p.overdue() {
		p.end(deadlineExceeded, append(failures, p.unfinished()...))
		return nil
	}
	p.fail(failures)
	if status.Succeeded+status.Failed == status.Desired && !p.endless() && !p.awaitsNode() {
		p.end("job has completed", failures)
		return nil
	}
	limit, err := p.limit()
	if err != nil {
		return err
	}
	free := limit - pulls
	if p.Touch != nil {
		free = min(free, *p.Touch-status.Active-status.Succeeded-status.Failed)
	}
	p.request(waiting, free)
	status.Message = progress(status)
	return nil
}

// remember keeps which image is pulled and who pulls, and which nodes have the image where only pods that are gone
// said so.
func (p *planner) remember(pulled []string) {
	progress := &v1beta1.ImagePullJobProgress{Image: p.Job.Spec.Image, PullBy: v1beta1.PullByDaemon}
	if p.Pods {
		progress.PullBy = v1beta1.PullByPod
		progress.PulledNodes = pulled[:min(len(pulled), mostNodes)]
	}
	p.Status.Flotilla = progress
}

// awaitsNode reports whether the job selects no node yet: nodes, their NodeImages or their labels may still come.
func (p *planner) awaitsNode() bool {
	end := p.Status.StartTime.Add(silence)
	if p.Status.Desired > 0 || !p.Now.Before(end) {
		return false
	}
	p.again(end)
	return true
}

// leave releases nodes that have failed and nodes that the job selects no longer. It returns how many of the latter
// still pull: they count for parallelism until they have ended, but are no part of the job.
func (p *planner) leave(failures []string) (pulling int32) {
	for _, name := range p.held {
		_, selected := slices.BinarySearch(p.Selected, name)
		_, failing := slices.BinarySearch(failures, name)
		switch {
		case selected && !failing && !(p.Pods && p.outcome(name) == succeeded):
		case !selected && p.outcome(name) == active:
			pulling++
		default:
			p.Release = append(p.Release, name)
		}
	}
	return pulling
}

// unfinished returns the selected nodes that have neither succeeded nor failed.
func (p *planner) unfinished() []string {
	return slices.DeleteFunc(slices.Clone(p.Selected), func(name string) bool {
		o := p.outcome(name)
		return o == succeeded || o == failed
	})
}

// request asks at most so many nodes to pull.
func (p *planner) request(waiting []string, most int32) {
	for _, name := range waiting {
		if most--; most < 0 {
			return
		}
		node := p.Nodes[name]
		p.Status.Active++
		p.Request = append(p.Request, Request{Node: name, Tag: p.entry(node)})
		p.again(p.Now.Add(silence))
	}
}

// Entry returns the entry of a job, whose status is the one of the plan, on a node that the plan asks. Others may have
// written the NodeImage since.
func (f Facts) Entry(status *v1beta1.ImagePullJobStatus, node Node) v1beta1.ImageTagSpec {
	p := &planner{Facts: f, Plan: Plan{Status: *status}}
	return p.entry(node)
}

// entry returns the entry of the job on a node. Another job's pull of the same image serves this one too, if it goes
// on or has succeeded in a way that this job takes; otherwise a greater version pulls again.
func (p *planner) entry(node Node) v1beta1.ImageTagSpec {
	_, name := nodeimages.SplitImage(p.Job.Spec.Image)
	owner := v1beta1.JobReference{APIVersion: v1beta1.GroupVersion.String(), Kind: v1beta1.ImagePullJobKind.Kind,
		Namespace: p.Job.Namespace, Name: p.Job.Name, UID: p.Job.UID}
	tag := v1beta1.ImageTagSpec{Tag: name}
	if node.Tag != nil {
		tag = *node.Tag.DeepCopy()
	}
	if !owns(p.Job, &tag) {
		tag.OwnerReferences = append(tag.OwnerReferences, owner)
	}
	if node.Tag != nil && p.serves(node) {
		return tag
	}
	if node.Tag != nil {
		tag.Version = node.Tag.Version + 1
	}
	if node.Status != nil {
		tag.Version = max(tag.Version, node.Status.Version+1)
	}
	tag.CreatedAt = new(metav1.NewTime(p.Now.Truncate(time.Second)))
	tag.ImagePullPolicy = p.Job.Spec.ImagePullPolicy
	tag.PullPolicy = p.policy()
	return tag
}

// serves reports whether the request that a node has serves the job as it is. One without a time does not: nothing
// says when its daemon has been silent for too long.
func (p *planner) serves(node Node) bool {
	if node.Tag.CreatedAt == nil {
		return false
	}
	if p.Job.Spec.ImagePullPolicy == v1beta1.PullAlways && (node.Tag.ImagePullPolicy != v1beta1.PullAlways ||
		node.Tag.CreatedAt.Before(p.Status.StartTime)) {
		return false
	}
	return p.state(node) != failed
}

// policy returns the limits of a pull. The tag outlives its pull by a day at least: the job needs the result until it
// ends, and leaves the entry then.
func (p *planner) policy() *v1beta1.ImageTagPullPolicy {
	timeout, backoff := p.pullLimits()
	ttl := minTTL
	if own := p.Job.Spec.CompletionPolicy.TTLSecondsAfterFinished; own != nil {
		ttl = max(ttl, *own)
	}
	return &v1beta1.ImageTagPullPolicy{TimeoutSeconds: &timeout, BackoffLimit: &backoff, TTLSecondsAfterFinished: &ttl}
}

// pullLimits returns the timeout of an attempt in seconds, and how many attempts follow a failed one.
func (p *planner) pullLimits() (timeout, backoff int32) {
	timeout, backoff = defaultTimeout, defaultBackoff
	if policy := p.Job.Spec.PullPolicy; policy != nil {
		if policy.TimeoutSeconds != nil {
			timeout = *policy.TimeoutSeconds
		}
		if policy.BackoffLimit != nil {
			backoff = *policy.BackoffLimit
		}
	}
	return timeout, backoff
}

// outcome returns how far the pull on a node is for the job. A node that has failed stays failed. One whose entry has
// lost its time is asked again.
func (p *planner) outcome(name string) outcome {
	if _, before := slices.BinarySearch(p.Job.Status.FailedNodes, name); before {
		return failed
	}
	if progress := p.Job.Status.Flotilla; p.Pods && progress != nil {
		if _, before := slices.BinarySearch(progress.PulledNodes, name); before {
			return succeeded
		}
	}
	node := p.Nodes[name]
	if node.Tag == nil || node.Tag.CreatedAt == nil || !owns(p.Job, node.Tag) {
		return unasked
	}
	return p.state(node)
}

// state returns how far the pull is that a node is asked for since a time. A daemon that reports nothing in time has
// failed.
func (p *planner) state(node Node) outcome {
	since, limit := node.Tag.CreatedAt.Time, silence
	if s := node.Status; s != nil && s.Version == node.Tag.Version {
		switch s.Phase {
		case v1beta1.ImagePhaseSucceeded:
			return succeeded
		case v1beta1.ImagePhaseFailed:
			return failed
		}
		limit += longestPull(node.Tag.PullPolicy)
		if s.StartTime != nil {
			since = s.StartTime.Time
		} else if node.Progress.After(since) {
			since = node.Progress
		}
	}
	if end := since.Add(limit); p.Now.Before(end) {
		p.again(end)
		return active
	}
	return failed
}

// longestPull is how long all attempts of a pull may take, with the waits between them.
func longestPull(policy *v1beta1.ImageTagPullPolicy) time.Duration {
	timeout, backoff := defaultTimeout, defaultBackoff
	if policy != nil && policy.TimeoutSeconds != nil {
		timeout = *policy.TimeoutSeconds
	}
	if policy != nil && policy.BackoffLimit != nil {
		backoff = *policy.BackoffLimit
	}
	attempt, attempts := (time.Duration(timeout)+30)*time.Second, time.Duration(backoff)+1
	if attempt > longest/attempts {
		return longest
	}
	return attempt * attempts
}

// owns reports whether the entry is there for the job too.
func owns(job *v1beta1.ImagePullJob, tag *v1beta1.ImageTagSpec) bool {
	return slices.ContainsFunc(tag.OwnerReferences, func(r v1beta1.JobReference) bool { return r.UID == job.UID })
}

// limit returns on how many nodes the job may pull at the same time.
func (p *planner) limit() (int32, error) {
	parallelism := intstr.FromInt32(1)
	if p.Job.Spec.Parallelism != nil {
		parallelism = *p.Job.Spec.Parallelism
	}
	if p.Granted != nil {
		parallelism = intstr.FromInt32(*p.Granted)
	}
	limit, err := budget.Scaled(parallelism, p.Status.Desired, budget.Up)
	if err != nil {
		return 0, fmt.Errorf("read spec.parallelism: %w", err)
	}
	return limit, nil
}

// endless reports whether the job goes on when all nodes have the image.
func (p *planner) endless() bool {
	return p.Job.Spec.CompletionPolicy.Type == v1beta1.NeverCompletionPolicyType
}

// overdue reports whether the deadline of the job is over, and has the plan made again when it is.
func (p *planner) overdue() bool {
	deadline := p.Job.Spec.CompletionPolicy.ActiveDeadlineSeconds
	if deadline == nil || p.endless() {
		return false
	}
	end := p.Status.StartTime.Add(time.Duration(min(*deadline, int64(longest/time.Second))) * time.Second)
	if p.Now.Before(end) {
		p.again(end)
		return false
	}
	return true
}

// end ends the job, and releases all nodes.
func (p *planner) end(message string, failures []string) {
	p.fail(failures)
	p.Status.Active, p.Status.Message = 0, message
	p.Status.CompletionTime = new(metav1.NewTime(p.Now.Truncate(time.Second)))
	p.Release, p.Request, p.Next = p.held, nil, time.Time{}
	p.expire()
}

// fail reports the nodes that could not pull the image.
func (p *planner) fail(failures []string) {
	slices.Sort(failures)
	p.Status.Failed = int32(len(failures))
	p.Status.FailedNodes = failures[:min(len(failures), mostNodes)]
}

// expire deletes a job that has ended when its time to live is over.
func (p *planner) expire() {
	ttl := p.Job.Spec.CompletionPolicy.TTLSecondsAfterFinished
	if ttl == nil {
		return
	}
	if end := p.Status.CompletionTime.Add(time.Duration(*ttl) * time.Second); p.Now.Before(end) {
		p.again(end)
	} else {
		p.Delete = true
	}
}

// again has the plan made again at a time.
func (p *planner) again(at time.Time) {
	if p.Next.IsZero() || at.Before(p.Next) {
		p.Next = at
	}
}

// progress says how far a job is, as published.
func progress(status *v1beta1.ImagePullJobStatus) string {
	if status.Desired == 0 || status.Succeeded+status.Failed == 0 {
		return "job is running, no progress"
	}
	return fmt.Sprintf("job is running, progress %.1f%%",
		100*float64(status.Succeeded+status.Failed)/float64(status.Desired))
}
