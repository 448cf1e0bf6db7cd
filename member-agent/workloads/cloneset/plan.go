package cloneset

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/delta"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/inplace"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/lifecycle"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/volumes"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// Facts are what a plan is made of.
type Facts struct {
	CloneSet *v1beta1.CloneSet
	Limits   budget.Limits
	workload.Revisions
	Pods podset.Set
	// Claims are the claims of the CloneSet and of its pods; Claim tells who has a name in the namespace, or nil.
	Claims []*corev1.PersistentVolumeClaim
	Claim  func(name string) *corev1.PersistentVolumeClaim
	// Form is how labels of new pods name their revision.
	Form history.Form
	// Topology tells the value of a label of a node, "" for none.
	Topology func(node, key string) string
	// Spread is what says where the pods run; nil for nothing.
	Spread *Spread
	// Budget is what a hub grants. Once it has expired nothing is disrupted until the hub is back.
	Budget workload.Budget
	// NoResize: the API server cannot change the cpu and memory of running pods.
	NoResize bool
	// Daemon reports whether a node daemon is ready on the node; nil is not known.
	Daemon func(node string) bool
	Now    time.Time
}

// Creation is a number of pods to create.
type Creation struct {
	Revision workload.Revision
	Count    int32
	// Subsets are those of the pods, one after another, "" for none; nil where no WorkloadSpread is for them.
	Subsets []string
}

// Plan is what one pass does, and the facts of its status.
type Plan struct {
	workload.Actions
	Create []Creation
	// Later is how many more pods are to be created, which the limit of pods that start leaves for later passes.
	Later int32
	// Claims is what is done to claims beside those of new pods.
	Claims volumes.Plan
	// Notes say why the numbers are what they are.
	Notes []delta.Note

	Counters podstate.Counters
	// ExpectedUpdated is how many pods are to have the update revision, in this state of the rollout.
	ExpectedUpdated int32
	// Stalled says why only a person can go on; nil otherwise.
	Stalled *conditions.Cause
}

// zoneChanged is a reason for which a pod is deleted, beside the codes of package delta: the pod waits for a node in a
// zone that is not its own any more, and another zone has too few.
const zoneChanged = "ZoneChanged"

// subsetChanged is the same for the subsets of a hub's WorkloadSpread.
const subsetChanged = "SubsetChanged"

// planner carries a plan while it is made.
type planner struct {
	Facts
	plan                      Plan
	old, new, specifiedDelete bucket
	// leaving are pods that a hook keeps from being deleted and that count no more (excludePreparingDelete); held are
	// those that count until they are gone.
	leaving, held []*corev1.Pod
	// mayUpdate says that pods may move between revisions, inPlace that all of them can without being recreated.
	mayUpdate, inPlace bool
	// assigned are the subsets of the active pods, once somebody has asked for them.
	assigned map[*corev1.Pod]string
	// misplaced are the pods that wait for a node in a zone, or in a hub's subset, that is not theirs any more.
	misplaced map[*corev1.Pod]bool
	// early are pods that ended so soon that their replacement waits.
	early int32
	// toDelete are the names in podsToDelete, which may be 10 000.
	toDelete map[string]bool
	moves    workload.Moves
}

// Compute returns the plan for the facts. It changes nothing of them.
func Compute(f Facts) (Plan, error) {
	p := &planner{Facts: f, moves: workload.Moves{Revisions: f.Revisions, NoResize: f.NoResize, Daemon: f.Daemon},
		toDelete: make(map[string]bool, len(f.CloneSet.Spec.ScaleStrategy.PodsToDelete))}
	for _, name := range f.CloneSet.Spec.ScaleStrategy.PodsToDelete {
		p.toDelete[name] = true
	}
	p.sort()
	var err error
	if p.mayUpdate, p.inPlace, err = p.policy(); err != nil {
		return Plan{}, err
	}
	d := delta.Compute(delta.Input{
		Limits: f.inForce(), Old: p.old.group(), New: p.new.group(), SpecifiedDelete: p.specifiedDelete.group(),
		SameRevision: p.sameRevision(), Update: p.mayUpdate, InPlace: p.inPlace, KeepAvailable: p.keepsAvailable(),
	})
	p.plan.Notes = d.Notes
	if err := p.choose(d); err != nil {
		return Plan{}, err
	}
	p.plan.ExpectedUpdated = p.expectedUpdated()
	p.plan.Release = f.Pods.NoLongerMatching
	p.planClaims()
	p.place()
	return p.plan, nil
}

// inForce are the limits of this pass. With an expired budget nothing that is available goes and nothing is added; what
// is missing is made up, and what is too many goes as far as replicas are available without it.
func (f *Facts) inForce() budget.Limits {
	l := f.Limits
	if f.Budget.Expired {
		l.MaxUnavailable, l.MaxSurge = 0, 0
	}
	return l
}

// keepsAvailable reports whether pods above replicas go only as far as replicas are available without them. A hub that
// grants nothing pauses, and maxUnavailable beside the pause is for the pods that a person names: the rest is granted
// to others.
func (p *planner) keepsAvailable() bool { return p.Budget.Granted && p.paused() }

func (p *planner) sameRevision() bool { return p.Update.Name == p.Current.Name }

// sort puts every pod where it belongs, and counts it.
func (p *planner) sort() {
	p.misplaced = p.findMisplaced()
	for _, pod := range p.Pods.Ended {
		if p.named(pod) {
			p.plan.Delete = append(p.plan.Delete, workload.Removal{Pod: pod, Reason: workload.RemovalEnded})
		} else if !p.plan.End(pod, p.Now) {
			p.early++
		}
	}
	for _, pod := range p.Pods.Active {
		updated := podset.HasRevision(pod, p.Update.Hash)
		available := p.observe(&p.plan, pod)
		progress := p.plan.Observe(pod, p.Now)

		b := &p.old
		switch {
		case p.CloneSet.Spec.ScaleStrategy.ExcludePreparingDelete && lifecycle.State(pod) == v1beta1.LifecyclePreparingDelete:
			p.leaving = append(p.leaving, pod)
			continue
		case p.named(pod) && !p.Budget.Expired:
			b = &p.specifiedDelete
		case updated:
			b = &p.new
		}
		switch {
		case progress.Busy() && b != &p.specifiedDelete:
			b.busy = append(b.busy, pod)
		case available && progress == inplace.Settled:
			b.available = append(b.available, pod)
		default:
			b.unavailable = append(b.unavailable, pod)
		}
	}
}

// named reports whether somebody asked to delete this very pod, or the zones or subsets of a hub do.
func (p *planner) named(pod *corev1.Pod) bool {
	return p.misplaced[pod] || podset.SpecifiedDelete(pod) || p.toDelete[pod.Name]
}

// observe counts a pod, and reports whether it is available: ready for long enough, and in no state of life in which
// somebody is told not to count on it.
func (f *Facts) observe(plan *Plan, pod *corev1.Pod) bool {
	available, wait := podstate.Available(pod, f.CloneSet.Spec.MinReadySeconds, f.Now)
	available = available && lifecycle.Available(pod)
	plan.Sooner(wait)
	plan.Counters.Add(podset.HasRevision(pod, f.Update.Hash), podstate.Ready(pod), available)
	return available
}

// planClaims plans what becomes of the claims that are there.
func (p *planner) planClaims() {
	leaving := make([]*corev1.Pod, 0, len(p.plan.Delete))
	for _, removal := range p.plan.Delete {
		leaving = append(leaving, removal.Pod)
	}
	p.plan.Claims = volumes.Compute(volumes.Facts{
		Set: claimSet(p.CloneSet), Reuse: p.CloneSet.Spec.ScaleStrategy.EnablePVCReuse,
		Claims: p.Facts.Claims, Pods: p.Pods, Leaving: leaving, Named: p.Claim, Now: p.Now,
	})
	p.plan.Sooner(p.plan.Claims.Wake)
	// A pod that is to take over claims is made when the one before it is gone.
	hold := p.plan.Claims.Hold + p.early
	for i := range slices.Backward(p.plan.Create) {
		waits := min(hold, p.plan.Create[i].Count)
		p.plan.Create[i].Count -= waits
		hold -= waits
	}
	p.plan.Create = slices.DeleteFunc(p.plan.Create, func(c Creation) bool { return c.Count == 0 })
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
