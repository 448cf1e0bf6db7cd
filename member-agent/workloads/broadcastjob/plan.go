package broadcastjob

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/completions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/pernode"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// Facts are what a plan is made of.
type Facts struct {
	Job      *v1beta1.BroadcastJob
	Progress completions.Progress
	Policy   completions.Policy
	// Pods are those of the job, CheckPods those of its checks, both in the order of their nodes' names.
	Pods, CheckPods []*corev1.Pod
	Nodes           []completions.Node
	// Fitness counts the nodes by how they fit.
	Fitness [pernode.TooSmall + 1]int
	// Budget is what a hub grants. CheckPodsAtOnce is how many pods of checks may be active.
	Budget          workload.Budget
	CheckPodsAtOnce int
	// Invalid says what is wrong with the expressions of checks, "" for nothing.
	Invalid string
	// Stalled: nothing says which nodes fit but those that have a pod.
	Stalled bool
	// Restarts are what was found of other pods on the nodes of the batch.
	Restarts []completions.Finding
	// Results are those of the checks without pods. A check that was not looked at has none.
	Results map[string]Result
	// Over: the checks of the batch do not matter any more.
	Over bool
	Now  time.Time

	on []completions.Pod
}

// CheckPod is a pod of a check to create.
type CheckPod struct {
	Node  string
	Check *v1beta1.BatchCheck
}

// Plan is what one pass does, and the facts of its status.
type Plan struct {
	workload.Actions
	Decided completions.Plan
	// Stop are pods that restarted too often.
	Stop []*corev1.Pod
	// Checks are the pods of checks to create.
	Checks []CheckPod
	// Unchecked says which check the next batch waits for, "" for none.
	Unchecked string
}

// The causes of halts that checks find.
const (
	reasonCheck    completions.Cause = "CheckFailed"
	reasonRestarts completions.Cause = "PodsRestarted"
)

// The reasons of deletions.
const (
	removedEnd    = "JobEnded"
	removedNode   = "NodeDoesNotFit"
	removedChecks = "BatchEnded"
)

// planner holds a plan while it is made.
type planner struct {
	Facts
	plan     Plan
	findings []completions.Finding
}

// Compute returns the plan for the facts. It changes nothing of them.
func Compute(f Facts) Plan {
	p := &planner{Facts: f}
	p.findings = f.Restarts
	if f.Policy.Batches != nil && !f.Progress.ChecksExcused && !f.Over {
		p.judgeChecks()
	}
	at, _ := resumed(f.Job)
	if !at.IsZero() {
		at = at.Add(1) // a time that is exactly that of the halt resumes
	}
	second := f.Now.Truncate(time.Second)
	p.plan.Decided = completions.Decide(completions.Facts{Now: second, Nodes: f.Nodes, Pods: f.on,
		Policy: f.Policy, Progress: f.Progress, Findings: p.findings, Unchecked: p.plan.Unchecked != "", Resumed: at,
		Promoted: promoted(f.Job)})
	if halted := p.plan.Decided.Progress.Halted; halted != nil && !at.IsZero() && !halted.Time.After(at) {
		// A new halt needs a new word.
		halted.Time = at.Truncate(time.Second).Add(time.Second)
	}
	if wait := p.plan.Decided.LookIn; wait > 0 {
		p.plan.Sooner(max(time.Millisecond, second.Add(wait).Sub(f.Now)))
	}
	p.carryOut()
	return p.plan
}

// batchUnderWay reports whether checks can halt the job now.
func (f *Facts) batchUnderWay() bool {
	p := f.Progress
	return f.Policy.Batches != nil && p.Batch > 0 && p.Ended.IsZero() && p.Halted == nil && !p.ChecksExcused && !f.Over
}

// isOver reports whether an endless job waits for nodes alone: its last batch has soaked, and its checks hold.
func (f *Facts) isOver(plan *Plan) bool {
	c, p := plan.Decided.Counts, f.Progress
	return f.Policy.Endless && f.Policy.Order == nil && plan.Decided.Phase == completions.PhaseRunning &&
		c.Desired == c.Succeeded+c.Failed &&
		(f.Policy.Batches == nil || !p.Settled.IsZero() && plan.Unchecked == "" &&
			!f.Now.Before(p.Settled.Add(f.Policy.Batches.Soak)))
}

// mayCreate reports whether the order of a hub, or the end of its lease, is all that keeps the job from more nodes.
func (f *Facts) mayCreate(decided *completions.Plan) bool {
	return f.Policy.Order != nil && decided.Touched < min(f.Policy.Order.Touch, decided.Counts.Desired)
}

// checking reports whether the checks of the batch have to hold now.
func (f *Facts) checking() bool {
	return f.batchUnderWay() && !f.Progress.Settled.IsZero() && len(batchesOf(f.Job).Checks) > 0
}

// batchNodes returns the nodes of the batch under way, in the order of their names.
func (f *Facts) batchNodes() (out []string) {
	for _, pod := range f.on {
		if pod.Batch == f.Progress.Batch && (len(out) == 0 || out[len(out)-1] != pod.Node) {
			out = append(out, pod.Node)
		}
	}
	return out
}

// judgeChecks finds checks that halt the job, and one that the next batch waits for.
func (p *planner) judgeChecks() {
	all := batchesOf(p.Job).Checks
	if !p.checking() {
		if len(all) > 0 {
			p.plan.Unchecked = all[0].Name
		}
		return
	}
	for i := range all {
		check := &all[i]
		why, since := "", time.Time{}
		if check.Pod != nil {
			if p.judgePods(check) {
				continue
			}
		} else if result, looked := p.Results[check.Name]; looked {
			if why, since = result.Why, result.Since; why == "" {
				continue
			}
		}
		patience := durationOf(check.Patience, time.Minute)
		if left := since.Add(patience).Sub(p.Now); why == "" || left > 0 {
			p.wait(check, left)
			continue
		}
		p.find(check, fmt.Sprintf("has not held for %s: %s", patience, why))
	}
}

// wait makes the next batch wait for a check.
func (p *planner) wait(check *v1beta1.BatchCheck, left time.Duration) {
	p.plan.Sooner(max(0, left))
	if p.plan.Unchecked == "" {
		p.plan.Unchecked = check.Name
	}
}

// find halts the job because of a check.
func (p *planner) find(check *v1beta1.BatchCheck, why string) {
	const longest = 600 // a message for a condition and an event
	text := fmt.Sprintf("batch %d: check %s %s", p.Progress.Batch, check.Name, why)
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + " …"
	}
	p.findings = append(p.findings, completions.Finding{Cause: reasonCheck, Message: text})
}

// judgePods plans the missing pods of a check, and reports whether nothing is left to wait for: all have succeeded, or
// one halts the job.
func (p *planner) judgePods(check *v1beta1.BatchCheck) bool {
	patience, done := durationOf(check.Patience, time.Minute), true
	on, active := p.podsOf(check)
	for _, node := range p.batchNodes() {
		pod := on[node]
		switch {
		case pod == nil:
			done = false
			if active+len(p.plan.Checks) < p.CheckPodsAtOnce && !p.Stalled {
				p.plan.Checks = append(p.plan.Checks, CheckPod{node, check})
			}
			continue
		case pod.Status.Phase == corev1.PodSucceeded:
			continue
		case pod.Status.Phase == corev1.PodFailed:
			p.find(check, fmt.Sprintf("found a failed pod: %s on node %s", pod.Name, node))
			return true
		}
		left := pod.CreationTimestamp.Add(patience).Sub(p.Now)
		if left <= 0 {
			p.find(check, fmt.Sprintf("has a pod that did not succeed within %s: %s on node %s", patience, pod.Name, node))
			return true
		}
		done = false
		p.wait(check, left)
	}
	if !done {
		p.wait(check, 0)
	}
	return true
}

// podsOf returns the pods of a check in this batch by their nodes, and how many pods of all its checks are active.
func (p *planner) podsOf(check *v1beta1.BatchCheck) (on map[string]*corev1.Pod, active int) {
	on = map[string]*corev1.Pod{}
	for _, pod := range p.CheckPods {
		if batchOf(pod) != p.Progress.Batch {
			continue
		}
		if podstate.Active(pod) {
			active++
		}
		if pod.Labels[v1beta1.LabelBatchCheck] == check.Name {
			on[podset.NodeOf(pod)] = pod
		}
	}
	return on, active
}

// carryOut translates the decision into writes.
func (p *planner) carryOut() {
	plan, decided := &p.plan, &p.plan.Decided
	named := make(map[string]*corev1.Pod, len(p.Pods))
	for _, pod := range p.Pods {
		named[pod.Name] = pod
	}
	reason := removedNode
	if !p.Progress.Ended.IsZero() {
		reason = removedEnd
	}
	for _, name := range decided.Delete {
		plan.Delete = append(plan.Delete, workload.Removal{Pod: named[name], Reason: reason})
	}
	for _, name := range decided.Stop {
		if pod := named[name]; pod.Spec.ActiveDeadlineSeconds == nil || *pod.Spec.ActiveDeadlineSeconds > stopAfter {
			plan.Stop = append(plan.Stop, pod)
		}
	}
	nodes := p.batchNodes()
	for _, pod := range p.CheckPods {
		switch {
		case pod.DeletionTimestamp != nil:
		case !p.Progress.Ended.IsZero() && !podstate.Ended(pod):
			plan.Delete = append(plan.Delete, workload.Removal{Pod: pod, Reason: removedEnd})
		case p.Progress.Ended.IsZero() && (batchOf(pod) != p.Progress.Batch || !slices.Contains(nodes, podset.NodeOf(pod))):
			plan.Delete = append(plan.Delete, workload.Removal{Pod: pod, Reason: removedChecks})
		}
	}
	if decided.Phase != completions.PhaseRunning {
		plan.Checks = nil
	}
	decided.Create = decided.Create[:min(len(decided.Create), workload.CreatesPerPass)]
}
