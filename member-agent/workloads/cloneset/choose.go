package cloneset

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/delta"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/lifecycle"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/order"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// bucket holds the pods of one group by what may be done with them.
type bucket struct{ available, unavailable, busy []*corev1.Pod }

func (b *bucket) group() delta.Group {
	g := delta.Group{Available: int32(len(b.available)), Unavailable: int32(len(b.unavailable)), Busy: int32(len(b.busy))}
	for _, pod := range b.unavailable {
		if podstate.Unschedulable(pod) {
			g.Unschedulable++
		}
	}
	return g
}

func (b *bucket) all() []*corev1.Pod { return slices.Concat(b.unavailable, b.busy, b.available) }

// choose picks the pods for the numbers.
func (p *planner) choose(d delta.Delta) error {
	held := p.remove(&p.specifiedDelete, d.SpecifiedDelete, delta.SpecifiedDelete)
	reason := delta.ScaleIn
	if slices.ContainsFunc(d.Notes, func(n delta.Note) bool { return n.Code == delta.Surplus }) {
		reason = delta.Surplus
	}
	held += p.remove(&p.old, d.RemoveOld, reason)
	held += p.remove(&p.new, d.RemoveNew, reason)
	forward, err := p.move(&p.old, d.Moving, d.MoveToNew, p.Update, delta.Move)
	if err != nil {
		return err
	}
	back, err := p.move(&p.new, d.Moving, d.MoveToOld, p.Current, delta.MoveBack)
	if err != nil {
		return err
	}
	// The numbers count pods that leave as gone. One that a hook holds is not, so what was to come for it waits as well.
	fromNew := min(held, d.CreateNew)
	fromOld := min(held-fromNew, d.CreateOld)
	left := d.CreateLimit
	for _, c := range []Creation{{Revision: p.Current, Count: d.CreateOld - fromOld + back},
		{Revision: p.Update, Count: d.CreateNew - fromNew + forward}} {
		c.Count -= p.recall(c)
		p.plan.Later += max(c.Count-left, 0)
		if c.Count = min(c.Count, left); c.Count > 0 {
			p.plan.Create = append(p.plan.Create, c)
			left -= c.Count
		}
	}
	p.keep()
	return nil
}

// recall takes pods back that leave and count no more, instead of creating others of the same revision; it returns how
// many. Those that somebody named go, and so do those whose hook has let go of them.
func (p *planner) recall(c Creation) int32 {
	var back []*corev1.Pod
	p.leaving = slices.DeleteFunc(p.leaving, func(pod *corev1.Pod) bool {
		if int32(len(back)) >= c.Count || !podset.HasRevision(pod, c.Revision.Hash) || p.named(pod) ||
			lifecycle.Delete(pod, p.CloneSet.Spec.Lifecycle).Proceed {
			return false
		}
		back = append(back, pod)
		return true
	})
	p.stay(back)
	return int32(len(back))
}

// take cuts pods off the bucket, in the order that sort brings each part of it into.
func take(b *bucket, t delta.Take, sort func([]*corev1.Pod)) []*corev1.Pod {
	var out []*corev1.Pod
	cut := func(list *[]*corev1.Pod, n int32) {
		if n == 0 {
			return
		}
		sort(*list)
		k := min(int(n), len(*list))
		out = append(out, (*list)[:k]...)
		*list = (*list)[k:]
	}
	cut(&b.unavailable, t.Unavailable)
	cut(&b.available, t.Available)
	return out
}

// remove plans removals; it returns how many pods a hook holds and nobody may replace yet.
func (p *planner) remove(b *bucket, t delta.Take, reason string) (held int32) {
	if t.Total() == 0 {
		return 0
	}
	if t.Unavailable > 0 {
		b.unavailable, b.busy = append(b.unavailable, b.busy...), nil
	}
	removal := order.Removal{MinReadySeconds: p.CloneSet.Spec.MinReadySeconds, Now: p.Now, Cost: p.costs(b),
		Density: order.NewDensity(p.Pods.Active, p.CloneSet.Spec.Template.Spec.TopologySpreadConstraints, p.Topology)}
	pods := take(b, t, func(list []*corev1.Pod) {
		removal.Sort(list)
		// Whoever serves the hook of a pod that is on its way out already has begun with it.
		slices.SortStableFunc(list, func(a, b *corev1.Pod) int { return cmp.Compare(leaves(a), leaves(b)) })
	})
	for _, pod := range pods {
		why := reason
		if p.misplaced[pod] {
			if why = zoneChanged; !p.Spread.zonal() {
				why = subsetChanged
			}
		}
		if !p.leave(pod, why) {
			held++
		}
	}
	return held
}

// leaves is 0 for a pod that is on its way out, else 1.
func leaves(pod *corev1.Pod) int {
	if lifecycle.State(pod) == v1beta1.LifecyclePreparingDelete {
		return 0
	}
	return 1
}

// leave plans the removal of a pod. It reports whether another pod may take its place in this pass.
func (p *planner) leave(pod *corev1.Pod, reason string) bool {
	if p.plan.Leave(pod, p.CloneSet.Spec.Lifecycle, reason) {
		return true
	}
	if !p.CloneSet.Spec.ScaleStrategy.ExcludePreparingDelete {
		p.held = append(p.held, pod)
		return false
	}
	if last := len(p.plan.Prepare) - 1; last >= 0 && p.plan.Prepare[last].Pod == pod &&
		p.plan.Prepare[last].Step.State != "" {
		p.plan.Prepare[last].Replaced = true
	}
	return true
}

// move plans updates in place, and removals of pods that must be recreated; it returns how many of the latter.
func (p *planner) move(b *bucket, m delta.Moving, t delta.Take, to workload.Revision, reason string) (int32, error) {
	if t.Total() == 0 {
		return 0, nil
	}
	pods, err := p.candidates(b, m, t)
	if err != nil {
		return 0, err
	}
	anew := int32(0)
	for _, pod := range pods {
		v := workload.Move{Refusal: "podUpdatePolicy"}
		if p.updatePolicy() != v1beta1.ReCreatePodUpdatePolicy {
			if v, err = p.moves.Of(pod, to); err != nil {
				return 0, err
			}
		}
		if v.Refusal != "" && p.updatePolicy() == v1beta1.InPlaceOnlyPodUpdatePolicy {
			// This pod is unlike the others of its revision, and stays as it is.
			p.plan.Stalled = workload.InPlaceImpossible(v.Refusal)
			p.plan.Sooner(p.moves.Again())
			continue
		}
		if v.Refusal != "" {
			if p.leave(pod, reason) {
				anew++
			}
			continue
		}
		p.plan.Move(pod, p.CloneSet.Spec.Lifecycle, v.Change, to.Revision)
	}
	return anew, nil
}

// candidates returns the pods that move now, and takes them off the bucket. Without an order of the user's the least
// healthy come first, as the numbers have it. With one, only those that are first in it are looked at: an unhealthy pod
// that is not among them stays, because the partition is to keep it.
func (p *planner) candidates(b *bucket, m delta.Moving, t delta.Take) ([]*corev1.Pod, error) {
	rolling := p.CloneSet.Spec.UpdateStrategy.RollingUpdate
	if rolling == nil || rolling.PriorityStrategy == nil && len(rolling.ScatterStrategy) == 0 {
		return take(b, t, func(list []*corev1.Pod) { order.Sort(list, order.Update()...) }), nil
	}
	done := &p.new
	if b == done {
		done = &p.old
	}
	sorted, err := order.ForUpdate(b.all(), done.all(),
		order.Strategy{Priority: rolling.PriorityStrategy, Scatter: rolling.ScatterStrategy})
	if err != nil {
		return nil, fmt.Errorf("updateStrategy.rollingUpdate: %w", err)
	}
	in := make(map[*corev1.Pod]*[]*corev1.Pod, len(sorted))
	for _, list := range []*[]*corev1.Pod{&b.unavailable, &b.available} {
		for _, pod := range *list {
			in[pod] = list
		}
	}
	var first bucket
	for _, pod := range sorted[:min(int(m.Wanted), len(sorted))] {
		switch in[pod] {
		case &b.unavailable:
			first.unavailable = append(first.unavailable, pod)
		case &b.available:
			first.available = append(first.available, pod)
		}
	}
	t = m.Take(first.group())
	pods := slices.Concat(first.unavailable[:t.Unavailable], first.available[:t.Available])
	moved := make(map[*corev1.Pod]bool, len(pods))
	for _, pod := range pods {
		moved[pod] = true
	}
	for _, list := range []*[]*corev1.Pod{&b.unavailable, &b.available} {
		*list = slices.DeleteFunc(*list, func(pod *corev1.Pod) bool { return moved[pod] })
	}
	return pods, nil
}

// keep plans what pods need that are chosen for nothing: those on their way from one state of life to another go on,
// and those that are not to leave or to change any more come back.
func (p *planner) keep() {
	for _, b := range []*bucket{&p.old, &p.new} {
		p.stay(b.unavailable)
		p.stay(b.busy)
	}
	// Pods that were let go of and do not count any more are deleted as soon as their hook lets them.
	for _, pod := range p.leaving {
		reason := delta.ScaleIn
		if p.named(pod) {
			reason = delta.SpecifiedDelete
		}
		p.leave(pod, reason)
	}
}

// stay plans what pods need that are not to leave or to change.
func (p *planner) stay(pods []*corev1.Pod) {
	for _, pod := range pods {
		p.plan.Stay(pod, p.CloneSet.Spec.Lifecycle, p.Now)
	}
}
