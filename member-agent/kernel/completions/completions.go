package completions

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Node is a node of the cluster.
type Node struct {
	Name string
	// Fits reports whether a pod may be created on the node.
	Fits bool
	// Order is what nodes are ordered by before their names. Nodes without one come last.
	Order string
	// Created is when the node joined. A batch takes no node that joined after it began.
	Created time.Time
}

// State is how far a pod is.
type State int

// The states.
const (
	// Pending pods have not started.
	Pending State = iota
	Running
	Succeeded
	Failed
	// Terminating pods had not ended when they were deleted.
	Terminating
)

// Pod is a pod of the job.
type Pod struct {
	Name, Node string
	Created    time.Time
	State      State
	// Restarts is how often its containers restarted, 0 for pods whose restarts do not count.
	Restarts int
	// Batch is the number of its batch, 0 without batches.
	Batch int
}

// FailurePolicy says what follows a failed pod.
type FailurePolicy int

// The failure policies.
const (
	FailFast FailurePolicy = iota
	Continue
	Pause
)

// Batches are the parts of a job.
type Batches struct {
	// Size is how many nodes a batch has.
	Size int
	Soak time.Duration
}

// Policy is what the user asks for.
type Policy struct {
	Parallelism  int
	Failure      FailurePolicy
	RestartLimit int
	Paused       bool
	// Endless jobs are never complete.
	Endless bool
	// Deadline is how long the job may run, and TimeToLive how long it is kept after its end. Nil is for ever.
	Deadline, TimeToLive *time.Duration
	Batches              *Batches
	// Order is what a hub ordered, nil without one.
	Order *Order
}

// Halt says why and when a job halted.
type Halt struct {
	Time    time.Time
	Cause   Cause
	Message string
}

// Progress is what must survive a restart of the controller.
type Progress struct {
	// Started and Ended are when the job began and ended, zero before that.
	Started, Ended time.Time
	// Batch is the number of the batch under way, from 1. BatchStarted is when it began, and Settled when its last pod
	// ended, zero before that.
	Batch                 int
	BatchStarted, Settled time.Time
	// Left is how many nodes without a pod the batch leaves for later ones.
	Left   int
	Halted *Halt
	// Excused is how many failed pods do not count, and ChecksExcused reports whether the checks of the batch do not
	// count: a person resumed the job.
	Excused       int
	ChecksExcused bool
}

// Finding is something that checks found.
type Finding struct {
	Cause   Cause
	Message string
}

// Facts are what a decision depends on.
type Facts struct {
	Now      time.Time
	Nodes    []Node
	Pods     []Pod
	Policy   Policy
	Progress Progress
	// Findings halt the job. Unchecked reports whether a check has no result yet, which keeps the next batch waiting.
	Findings  []Finding
	Unchecked bool
	// Resumed is when a person resumed the job last, zero for never. Promoted is a batch after which the next one is to
	// begin without a soak and whatever checks find, 0 for none.
	Resumed  time.Time
	Promoted int
}

// Phase is what the job does.
type Phase string

// The phases, as published.
const (
	PhaseRunning   Phase = "running"
	PhasePaused    Phase = "paused"
	PhaseCompleted Phase = "completed"
	PhaseFailed    Phase = "failed"
)

// Cause says why a job ended or halted. A finding has one of its own.
type Cause string

// The causes of ends and halts.
const (
	Complete         Cause = "Complete"
	DeadlineExceeded Cause = "DeadlineExceeded"
	PodFailed        Cause = "PodFailed"
)

// Creation is a pod to create.
type Creation struct {
	Node  string
	Batch int
}

// Counts are numbers of nodes, and of pods, before the decision is carried out.
type Counts struct{ Desired, Active, Succeeded, Failed int }

// Plan is a decision.
type Plan struct {
	Create []Creation
	// Delete are pods to delete. Stop are pods that restarted too often: they must end and stay.
	Delete, Stop []string
	Phase        Phase
	// Cause and Message say why the phase is paused, completed or failed. Paused by the user has neither.
	Cause    Cause
	Message  string
	Counts   Counts
	Progress Progress
	// Expired reports whether the job itself is to be deleted.
	Expired bool
	// Touched is how many nodes have a pod, and Unended how many pods have not ended, with those that are being deleted.
	// Proven is how many nodes have a pod that has ended, without those of a batch whose checks do not hold.
	Touched, Unended, Proven int
	// LookIn is how long until time alone changes the decision, 0 for never.
	LookIn time.Duration
}

// decision is the draft of a plan.
type decision struct {
	Plan
	facts Facts
	// pods are those that count, one for each node, in ascending order of the nodes' names.
	pods []Pod
	// free are the nodes without a pod, in the order in which they get one.
	free []Node
	// leaving are pods that had not ended when they were deleted, or are to be deleted.
	leaving []Pod
	// active is how many pods have not ended, with those that are leaving.
	active int
}

// Decide returns what to do. It depends on nothing but the facts, in whatever order their lists are.
func Decide(f Facts) Plan {
	d := &decision{facts: f}
	d.Progress = f.Progress
	if f.Progress.Halted != nil {
		halted := *f.Progress.Halted
		d.Progress.Halted = &halted
	}
	d.gather()
	d.Touched, d.Unended = d.Counts.Desired-len(d.free), d.active
	if !d.Progress.Ended.IsZero() {
		d.afterEnd()
		return d.Plan
	}
	if d.Progress.Started.IsZero() {
		d.Progress.Started = f.Now
	}
	d.resume()
	switch {
	case d.fails():
	case d.endsByOrder():
	case d.halts():
		d.Phase, d.Cause, d.Message = PhasePaused, d.Progress.Halted.Cause, d.Progress.Halted.Message
	case f.Policy.Paused:
		d.Phase = PhasePaused
		d.follow()
	default:
		d.Phase = PhaseRunning
		d.advance()
	}
	d.prove()
	return d.Plan
}

// Desired returns how many nodes have a pod that counts, or are to get one.
func Desired(nodes []Node, pods []Pod) int {
	d := &decision{facts: Facts{Nodes: nodes, Pods: pods}}
	d.gather()
	return d.Counts.Desired
}

// gather finds the pod that counts of each node, and the nodes without one.
func (d *decision) gather() {
	fits := map[string]bool{}
	for _, n := range d.facts.Nodes {
		fits[n.Name] = n.Fits
	}
	pods := slices.Clone(d.facts.Pods)
	slices.SortFunc(pods, func(a, b Pod) int {
		return cmp.Or(strings.Compare(a.Node, b.Node), cmp.Compare(rank(a), rank(b)), a.Created.Compare(b.Created),
			strings.Compare(a.Name, b.Name))
	})
	counted, left := d.sort(pods, fits)
	d.active += len(d.leaving)
	for _, n := range d.facts.Nodes {
		if !n.Fits || counted[n.Name] {
			continue
		}
		d.Counts.Desired++
		if !left[n.Name] {
			d.free = append(d.free, n)
		}
	}
	slices.SortFunc(d.free, func(a, b Node) int {
		return cmp.Or(unorderedLast(a, b), strings.Compare(a.Order, b.Order), strings.Compare(a.Name, b.Name))
	})
}

// sort finds which pods count, which are leaving, and which are to be deleted, of pods in the order of rank. It returns
// the nodes with a pod that counts, and those that a pod is leaving.
func (d *decision) sort(pods []Pod, fits map[string]bool) (counted, left map[string]bool) {
	counted, left = map[string]bool{}, map[string]bool{}
	for _, pod := range pods {
		_, exists := fits[pod.Node]
		misplaced := pod.State == Pending && !fits[pod.Node] || pod.State == Running && !exists
		switch {
		case pod.ended() && !exists:
			d.Delete = append(d.Delete, pod.Name)
		case pod.State == Terminating, misplaced, counted[pod.Node] && !pod.ended():
			if pod.State != Terminating {
				d.Delete = append(d.Delete, pod.Name)
			}
			d.leaving = append(d.leaving, pod)
			left[pod.Node] = true
		case !counted[pod.Node]:
			counted[pod.Node] = true
			d.add(pod)
		}
	}
	return counted, left
}

// rank orders the pods of a node: the first one counts.
func rank(p Pod) int {
	return map[State]int{Succeeded: 0, Failed: 1, Running: 2, Pending: 3, Terminating: 4}[p.State]
}

func unorderedLast(a, b Node) int {
	switch {
	case (a.Order == "") == (b.Order == ""):
		return 0
	case a.Order == "":
		return 1
	}
	return -1
}

// ended reports whether the pod has ended.
func (p Pod) ended() bool { return p.State == Succeeded || p.State == Failed }

// failed reports whether the pod has failed. One that restarted too often has, and must end.
func (d *decision) failed(p Pod) bool {
	return p.State == Failed || p.State != Succeeded && p.Restarts > d.facts.Policy.RestartLimit
}

// add counts a pod.
func (d *decision) add(pod Pod) {
	d.pods = append(d.pods, pod)
	d.Counts.Desired++
	if !pod.ended() {
		d.active++
	}
	switch {
	case pod.State == Succeeded:
		d.Counts.Succeeded++
	case d.failed(pod):
		d.Counts.Failed++
		if !pod.ended() {
			d.Stop = append(d.Stop, pod.Name)
		}
	default:
		d.Counts.Active++
	}
}

// afterEnd cleans up after a job that has ended. Its phase and its counts are those that were written when it ended.
func (d *decision) afterEnd() {
	for _, pod := range d.pods {
		if !pod.ended() {
			d.Delete = append(d.Delete, pod.Name)
		}
	}
	if ttl := d.facts.Policy.TimeToLive; ttl != nil {
		left := d.Progress.Ended.Add(*ttl).Sub(d.facts.Now)
		d.Expired = left <= 0
		d.LookIn = max(0, left)
	}
}

// resume takes back a halt if a person resumed the job after it, and lets a promoted batch end.
func (d *decision) resume() {
	if d.Progress.Batch > 0 && (d.facts.Promoted == d.Progress.Batch ||
		d.facts.Policy.Order != nil && d.facts.Promoted > d.Progress.Batch) { // the hub is at a later batch
		d.Progress.ChecksExcused = true
	}
	d.Progress.Excused = min(d.Progress.Excused, d.Counts.Failed)
	if halted := d.Progress.Halted; halted != nil && d.facts.Resumed.After(halted.Time) {
		d.Progress.Halted = nil
		d.Progress.Excused, d.Progress.ChecksExcused = d.Counts.Failed, true
	}
}

// fails ends the job if it has failed.
func (d *decision) fails() bool {
	policy := d.facts.Policy
	var left time.Duration
	if policy.Deadline != nil {
		left = d.Progress.Started.Add(*policy.Deadline).Sub(d.facts.Now)
	}
	switch {
	case policy.Deadline != nil && left <= 0:
		d.Cause, d.Message = DeadlineExceeded, fmt.Sprintf("the job ran for longer than %s", *policy.Deadline)
	case policy.Failure == FailFast && d.Counts.Failed > 0 && (policy.Order == nil || !policy.Order.Ended):
		d.Cause, d.Message = PodFailed, d.failures()
	default:
		d.lookIn(left)
		return false
	}
	d.Phase, d.Progress.Ended, d.Stop = PhaseFailed, d.facts.Now, nil
	for _, pod := range d.pods {
		if !pod.ended() {
			d.Delete = append(d.Delete, pod.Name)
		}
	}
	d.Counts.Failed, d.Counts.Active = d.Counts.Failed+d.Counts.Active, 0
	return true
}

// complete ends the job.
func (d *decision) complete(why string) {
	d.Phase, d.Progress.Ended, d.Cause = PhaseCompleted, d.facts.Now, Complete
	d.Message = fmt.Sprintf("%s, %d pods succeeded, %d pods failed", why, d.Counts.Succeeded, d.Counts.Failed)
}

// failures names the failed pods.
func (d *decision) failures() string {
	const most = 3
	var names []string
	for _, pod := range d.pods {
		if d.failed(pod) && len(names) < most {
			names = append(names, fmt.Sprintf("%s on node %s", pod.Name, pod.Node))
		}
	}
	text := fmt.Sprintf("%d pods failed: %s", d.Counts.Failed, strings.Join(names, ", "))
	if d.Counts.Failed > most {
		text += " and others"
	}
	return text
}

// halts reports whether the job is halted, from now on or already.
func (d *decision) halts() bool {
	switch {
	case d.Progress.Halted != nil:
	case d.facts.Policy.Failure == Pause && d.Counts.Failed > d.Progress.Excused:
		d.Progress.Halted = &Halt{d.facts.Now, PodFailed, d.failures()}
	case d.facts.Policy.Batches != nil && len(d.facts.Findings) > 0 && !d.Progress.ChecksExcused:
		d.Progress.Halted = &Halt{d.facts.Now, d.facts.Findings[0].Cause, d.facts.Findings[0].Message}
	default:
		return false
	}
	return true
}

// advance creates pods, begins the next batch, or completes the job.
func (d *decision) advance() {
	open := d.free
	switch batches := d.facts.Policy.Batches; {
	case d.facts.Policy.Order != nil:
		open = open[:d.follow()]
	case batches != nil:
		open = d.batch(*batches)
	}
	for _, n := range open[:max(0, min(len(open), d.facts.Policy.Parallelism-d.active))] {
		d.Create = append(d.Create, Creation{n.Name, d.Progress.Batch})
	}
	settled := d.facts.Policy.Batches == nil || !d.Progress.Settled.IsZero() && d.soaked()
	if len(d.free) > 0 || d.active > 0 || d.Counts.Desired == 0 || d.facts.Policy.Endless || !settled ||
		d.facts.Policy.Order != nil {
		return
	}
	d.complete("Job completed")
}

// lookIn asks for a decision after a time.
func (d *decision) lookIn(left time.Duration) {
	if left > 0 && (d.LookIn == 0 || left < d.LookIn) {
		d.LookIn = left
	}
}
