package uniteddeployment

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/counts"
	"github.com/flotilla-dev/flotilla/topology/division"
)

// divide gives each subset its number. With the strategy Adaptive it decides first which subsets take pods.
func (p *plan) divide(o *observed, kept map[string]*child) error {
	subsets := o.ud.Spec.Topology.Subsets
	n := orOne(o.ud.Spec.Replicas)
	p.subsets = make([]subsetPlan, len(subsets))
	input, current := make([]division.Subset, len(subsets)), make([]int32, len(subsets))
	now := make([]*child, len(subsets))
	for i, s := range subsets {
		p.subsets[i] = subsetPlan{name: s.Name, live: kept[s.Name]}
		input[i] = division.Subset{Name: s.Name, Replicas: s.Replicas, Min: s.MinReplicas, Max: s.MaxReplicas}
		if now[i] = standing(kept[s.Name], p.others, s.Name); now[i] != nil {
			current[i] = now[i].replicas
		}
	}
	strategy := scheduleOf(o.ud)
	if strategy == nil {
		p.forgetMarks(o)
		shares, err := division.Subsets(n, input, current)
		p.take(shares)
		p.part(o)
		return err
	}
	plain, err := division.Adaptive(n, input, nil)
	if err != nil {
		return err
	}
	seen := make([]division.Seen, len(subsets))
	for i := range p.subsets {
		p.subsets[i].plain = plain[i].Replicas
		seen[i] = p.see(o, strategy, &p.subsets[i], now[i])
	}
	divide := division.Adaptive
	if strategy.reserve {
		divide = division.Reserve
	} else {
		p.forgetMarks(o)
	}
	shares, err := divide(n, input, seen)
	p.take(shares)
	p.hold(n)
	p.part(o)
	if strategy.reserve {
		p.cover(now, n)
	}
	p.restrain(o, now, n)
	return err
}

// part gives each subset how many of its pods are not to be updated.
func (p *plan) part(o *observed) {
	manual := o.ud.Spec.UpdateStrategy.ManualUpdate
	if manual == nil || templateKind(o.ud) == deploymentKind {
		return
	}
	for i := range p.subsets {
		s := &p.subsets[i]
		s.partition = min(max(0, manual.Partitions[s.name]), s.desired)
	}
}

// hold lets pods come back to a subset only as far as no more exist than n and the step of division.Adaptive, also while the
// pods in whose place they come are still going.
func (p *plan) hold(n int32) {
	above := -int64(n) - (int64(n)+3)/4
	for i := range p.subsets {
		s := &p.subsets[i]
		above += int64(max(s.desired, s.existing()))
	}
	for i := range p.subsets {
		s := &p.subsets[i]
		if s.why.Code != division.SubsetReturning || above <= 0 {
			continue
		}
		var has int32
		if s.live != nil {
			has = s.live.replicas
		}
		less := int32(min(above, int64(max(0, s.desired-max(has, s.existing())))))
		s.desired, s.later = s.desired-less, less
		above -= int64(less)
	}
}

// existing is how many pods the subset's child has, or may have made since its controller was heard.
func (s *subsetPlan) existing() int32 {
	if s.live == nil {
		return 0
	}
	if !s.live.observed {
		return max(s.live.pods.replicas, s.live.replicas)
	}
	return s.live.pods.replicas
}

func (p *plan) take(shares []division.SubsetShare) {
	for i := range shares {
		p.subsets[i].desired, p.subsets[i].why = shares[i].Replicas, shares[i].Reason
	}
}

// forgetMarks releases the pods that an earlier strategy reserved.
func (p *plan) forgetMarks(o *observed) {
	for i := range p.subsets {
		if live := p.subsets[i].live; live != nil {
			p.mark = append(p.mark, release(o.pods[live.object.GetUID()], o.marked)...)
		}
	}
}

// see decides whether the subset takes pods, and returns what the division needs to know of it. now is the child that has its
// pods, nil if there is none.
func (p *plan) see(o *observed, strategy *schedule, s *subsetPlan, now *child) division.Seen {
	old := oldGate(o.ud, s.name)
	var seen division.Seen
	var at placing
	if now != nil {
		pods := o.pods[now.object.GetUID()]
		at = place(now, pods, strategy.critical, o.now)
		seen.Replicas, seen.Ready = now.replicas, working(now, pods, s.plain)
		seen.Bound = now.replicas - at.lacking
		if strategy.reserve {
			r := reserve(pods, now.replicas, oldReserved(o.ud, s.name), o.marked, strategy, o.now)
			p.mark = append(p.mark, r.marks...)
			p.sooner(r.next)
			s.reserved = min(r.pods, now.replicas)
			// A reserved pod that an update has made beside all that it replaces does not wait for any of these.
			s.waiting = max(0, min(s.reserved-r.ready, now.replicas-now.pods.available))
			seen.Unsteady = loose(o, now, s.reserved)
		}
	}
	if strategy.reserve {
		s.gate = reservedGate(old, s.reserved, o.now)
	} else {
		s.gate = gateOf(old, at, strategy, o.now)
		p.sooner(at.next)
		p.sooner(s.gate.wait(o.now))
		s.placed = max(at.holds, seen.Ready)
		if s.gate.closed {
			// Pods of a closed subset that have nodes keep them, also while they start or are updated; nothing ready goes for them.
			seen.Starting = max(0, at.holds-seen.Ready)
		}
	}
	p.turned = p.turned || s.gate.turned
	seen.Reserved, seen.Unschedulable = s.reserved, s.gate.closed
	seen.Waiting = old != nil && old.Reason == division.SubsetNoAlternative
	return seen
}

// working is how many of the pods of a child count as ready. Pods that are to take the place of others count once they are
// available; those that others are to replace, which are more than plain, as long as they are ready: of these the pods
// themselves say it sooner than the child's status does.
func working(c *child, pods []*corev1.Pod, plain int32) int32 {
	if c.replicas <= plain {
		return min(c.pods.available, c.replicas)
	}
	ready := c.pods.ready
	if len(pods) > 0 {
		ready = 0
	}
	for _, pod := range pods {
		if counts.Ready(pod) {
			ready++
		}
	}
	return min(ready, c.replicas)
}
