package cloneset

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/counts"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/delta"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/inplace"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
)

// Facts are what a plan is made of.
type Facts struct {
	CloneSet *v1beta1.CloneSet
	Limits   budget.Limits
	// Update is the newest revision, Current the one that all pods had last. They may be the same.
	Update, Current Revision
	// Revisions are all revisions, to know what a pod's template was.
	Revisions []*appsv1.ControllerRevision
	Pods      podset.Set
	Now       time.Time
}

// Removal is a pod to delete, and why.
type Removal struct {
	Pod    *corev1.Pod
	Reason string
}

// Update is a pod to update in place.
type Update struct {
	Pod    *corev1.Pod
	Change inplace.Change
	To     inplace.Revision
}

// Creation is a number of pods to create.
type Creation struct {
	Revision Revision
	Count    int32
}

// Plan is what one pass does, and the facts of its status.
type Plan struct {
	Delete []Removal
	Update []Update
	// Open are pods whose readiness gate is to be opened.
	Open   []*corev1.Pod
	Create []Creation
	// Notes say why the numbers are what they are.
	Notes []delta.Note

	Counters counts.Counters
	// ExpectedUpdated is how many pods are to have the update revision, in this state of the rollout.
	ExpectedUpdated int32
	// Stalled says why only a person can go on; nil otherwise.
	Stalled *conditions.Cause
	// Wake is when to look again though nothing happens; 0 means never.
	Wake time.Duration
}

// Reasons for which a pod is deleted, beside the codes of package delta.
const reasonEnded = "PodEnded"

// planner carries a plan while it is made.
type planner struct {
	Facts
	plan             Plan
	old, new, doomed bucket
	changes          map[string]verdict
}

// Compute returns the plan for the facts. It changes nothing of them.
func Compute(f Facts) (Plan, error) {
	p := &planner{Facts: f, changes: map[string]verdict{}}
	p.sort()
	mayUpdate, allInPlace, err := p.policy()
	if err != nil {
		return Plan{}, err
	}
	d := delta.Compute(delta.Input{
		Limits: f.Limits, Old: p.old.group(), New: p.new.group(), Doomed: p.doomed.group(),
		SameRevision: p.sameRevision(), Update: mayUpdate, InPlace: allInPlace,
	})
	p.plan.Notes = d.Notes
	if err := p.choose(d); err != nil {
		return Plan{}, err
	}
	p.plan.ExpectedUpdated = p.expectedUpdated()
	return p.plan, nil
}

func (p *planner) sameRevision() bool { return p.Update.Name == p.Current.Name }

// sort puts every pod where it belongs, and counts it.
func (p *planner) sort() {
	for _, pod := range p.Pods.Ended {
		p.plan.Delete = append(p.plan.Delete, Removal{Pod: pod, Reason: reasonEnded})
	}
	named := p.CloneSet.Spec.ScaleStrategy.PodsToDelete
	for _, pod := range p.Pods.Active {
		updated := podset.HasRevision(pod, p.Update.Hash)
		available, wait := counts.Available(pod, p.CloneSet.Spec.MinReadySeconds, p.Now)
		progress := inplace.Observe(pod)
		if progress == inplace.Finished {
			p.plan.Open = append(p.plan.Open, pod)
		}
		p.plan.Wake = counts.Sooner(p.plan.Wake, wait)
		p.plan.Counters.Add(updated, counts.Ready(pod), available)

		b := &p.old
		switch {
		case podset.SpecifiedDelete(pod) || slices.Contains(named, pod.Name):
			b = &p.doomed
		case updated:
			b = &p.new
		}
		switch {
		case progress == inplace.Running && b != &p.doomed:
			b.busy = append(b.busy, pod)
		case available && progress == inplace.Settled:
			b.available = append(b.available, pod)
		default:
			b.unavailable = append(b.unavailable, pod)
		}
	}
}

// expectedUpdated is how many updated pods are enough to be at rest.
func (p *planner) expectedUpdated() int32 {
	if p.onDelete() {
		return min(p.plan.Counters.Updated, p.Limits.Replicas)
	}
	kept := p.Limits.Partition
	if p.sameRevision() {
		kept = min(kept, p.plan.Counters.Replicas-p.plan.Counters.Updated)
	}
	return p.Limits.Replicas - kept
}
