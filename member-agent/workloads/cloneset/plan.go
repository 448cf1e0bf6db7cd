package cloneset

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/counts"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/delta"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/inplace"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/order"
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

// bucket holds the pods of one group by what may be done with them.
type bucket struct{ available, unavailable, busy []*corev1.Pod }

func (b *bucket) group() delta.Group {
	return delta.Group{Available: int32(len(b.available)), Unavailable: int32(len(b.unavailable)), Busy: int32(len(b.busy))}
}

// planner carries a plan while it is made.
type planner struct {
	Facts
	plan             Plan
	old, new, doomed bucket
	changes          map[string]verdict
}

// verdict is how pods of one revision come to another.
type verdict struct {
	change  inplace.Change
	refusal string
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

func (p *planner) updatePolicy() v1beta1.PodUpdatePolicyType {
	if rolling := p.CloneSet.Spec.UpdateStrategy.RollingUpdate; rolling != nil && rolling.PodUpdatePolicy != "" {
		return rolling.PodUpdatePolicy
	}
	return v1beta1.ReCreatePodUpdatePolicy
}

func (p *planner) onDelete() bool {
	return p.CloneSet.Spec.UpdateStrategy.Type == v1beta1.OnDeleteCloneSetUpdateStrategyType
}

func (p *planner) paused() bool {
	rolling := p.CloneSet.Spec.UpdateStrategy.RollingUpdate
	return rolling != nil && rolling.Paused
}

// policy tells whether pods may move between revisions, and whether all of them can do so in place.
func (p *planner) policy() (mayUpdate, allInPlace bool, err error) {
	mayUpdate = !p.onDelete() && !p.paused()
	policy := p.updatePolicy()
	if policy == v1beta1.ReCreatePodUpdatePolicy {
		return mayUpdate, false, nil
	}
	allInPlace = true
	for _, side := range []struct {
		from *bucket
		to   Revision
	}{{&p.old, p.Update}, {&p.new, p.Current}} {
		field, err := p.refusal(side.from, side.to)
		if err != nil {
			return false, false, err
		}
		if field == "" {
			continue
		}
		allInPlace = false
		if policy == v1beta1.InPlaceOnlyPodUpdatePolicy && !p.onDelete() {
			mayUpdate = false
			p.plan.Stalled = &conditions.Cause{Reason: "InPlaceImpossible", Message: fmt.Sprintf(
				"podUpdatePolicy is InPlaceOnly, but field %s of the template cannot be changed in running pods: change it back, or use InPlaceIfPossible", field)}
		}
	}
	return mayUpdate, allInPlace, nil
}

// refusal returns a field that keeps a pod of the bucket from coming to a revision in place, or "".
func (p *planner) refusal(b *bucket, to Revision) (string, error) {
	last := "" // pods of one revision come in a row, nearly always
	for _, list := range [][]*corev1.Pod{b.available, b.unavailable, b.busy} {
		for _, pod := range list {
			label := pod.Labels[podset.LabelRevision]
			if label == last && last != "" {
				continue
			}
			last = label
			v, err := p.verdict(pod, to)
			if err != nil || v.refusal != "" {
				return v.refusal, err
			}
		}
	}
	return "", nil
}

// verdict returns how the pod comes to the revision to. Pods of one revision share the answer.
func (p *planner) verdict(pod *corev1.Pod, to Revision) (verdict, error) {
	label := pod.Labels[podset.LabelRevision]
	key := history.ShortName(label) + ">" + to.Hash
	if v, ok := p.changes[key]; ok {
		return v, nil
	}
	var v verdict
	stored := history.Named(p.Revisions, label)
	switch {
	case stored == nil:
		// Without its revision nobody knows what the pod was made from.
		v.refusal = "metadata.labels[" + podset.LabelRevision + "]"
	case history.ShortHash(stored) == to.Hash:
	default:
		from, err := revisionOf(stored)
		if err != nil {
			return v, fmt.Errorf("read revision %s: %w", stored.Name, err)
		}
		if v.change, v.refusal, err = inplace.Diff(from.Template, to.Template); err != nil {
			return v, fmt.Errorf("compare revisions %s and %s: %w", from.Name, to.Name, err)
		}
	}
	p.changes[key] = v
	return v, nil
}

// choose picks the pods for the numbers.
func (p *planner) choose(d delta.Delta) error {
	crowd := order.Crowd(p.Pods.Active)
	p.remove(&p.doomed, d.Doomed, delta.Doomed, crowd)
	p.remove(&p.old, d.RemoveOld, delta.ScaleIn, crowd)
	p.remove(&p.new, d.RemoveNew, delta.ScaleIn, crowd)
	forward, err := p.move(&p.old, d.MoveToNew, p.Update, delta.Move)
	if err != nil {
		return err
	}
	back, err := p.move(&p.new, d.MoveToOld, p.Current, delta.MoveBack)
	if err != nil {
		return err
	}
	left := d.CreateLimit
	for _, c := range []Creation{{p.Current, d.CreateOld + back}, {p.Update, d.CreateNew + forward}} {
		if c.Count = min(c.Count, left); c.Count > 0 {
			p.plan.Create = append(p.plan.Create, c)
			left -= c.Count
		}
	}
	return nil
}

// take cuts the first pods in the order of the rules off the bucket.
func take(b *bucket, t delta.Take, busyToo bool, rules []order.Rule) []*corev1.Pod {
	var out []*corev1.Pod
	if busyToo && t.Unavailable > 0 {
		b.unavailable, b.busy = append(b.unavailable, b.busy...), nil
	}
	cut := func(list *[]*corev1.Pod, n int32) {
		if n == 0 {
			return
		}
		order.Sort(*list, rules...)
		k := min(int(n), len(*list))
		out = append(out, (*list)[:k]...)
		*list = (*list)[k:]
	}
	cut(&b.unavailable, t.Unavailable)
	cut(&b.available, t.Available)
	return out
}

func (p *planner) remove(b *bucket, t delta.Take, reason string, crowd map[string]int) {
	if t.Total() == 0 {
		return
	}
	for _, pod := range take(b, t, true, order.Removal(crowd)) {
		p.plan.Delete = append(p.plan.Delete, Removal{Pod: pod, Reason: reason})
	}
}

// move plans updates in place, and removals of pods that must be made anew; it returns how many of the latter.
func (p *planner) move(b *bucket, t delta.Take, to Revision, reason string) (int32, error) {
	if t.Total() == 0 {
		return 0, nil
	}
	anew := int32(0)
	for _, pod := range take(b, t, false, order.Update()) {
		v := verdict{refusal: "podUpdatePolicy"}
		if p.updatePolicy() != v1beta1.ReCreatePodUpdatePolicy {
			var err error
			if v, err = p.verdict(pod, to); err != nil {
				return 0, err
			}
		}
		if v.refusal != "" {
			anew++
			p.plan.Delete = append(p.plan.Delete, Removal{Pod: pod, Reason: reason})
			continue
		}
		p.plan.Update = append(p.plan.Update, Update{Pod: pod, Change: v.change, To: to.Revision})
		// A pod whose gate was to be opened for the last update gets its next one first.
		p.plan.Open = slices.DeleteFunc(p.plan.Open, func(o *corev1.Pod) bool { return o == pod })
	}
	return anew, nil
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
