package judge

import (
	"fmt"
	"maps"
	"slices"
)

func (c *Checker) takeCell(e *Entry) {
	s := c.cells[e.Cell.UID]
	if s == nil {
		s = &checkedCell{cluster: e.Cluster}
		c.cells[e.Cell.UID] = s
	}
	missing, above := c.difference(s)
	first := len(s.specs) == 0
	s.Cell = *e.Cell
	if n := len(s.specs); n == 0 || s.specs[n-1].Generation < e.Cell.Spec.Generation {
		s.specs = append(s.specs, e.Cell.Spec)
		c.record(e.At, e.Cluster, fmt.Sprintf("%s, %s", s, e.Cell.Spec))
	}
	s.specs = slices.DeleteFunc(s.specs, func(spec CellSpec) bool {
		return spec.Generation < s.Observed && spec.Generation != s.specs[len(s.specs)-1].Generation
	})
	if first {
		s.down += s.lowest()
	} else {
		missingNow, aboveNow := c.difference(s)
		s.down += max(missingNow-missing, 0)
		s.up += max(aboveNow-above, 0)
	}
	c.settle(s)
	if e.Cell.Gone {
		c.withdrawn(s, e)
		delete(c.cells, e.Cell.UID)
	}
}

// withdrawn judges a cell that was deleted: the garbage collector deletes its pods. In a run nobody asks for that, and
// who scales in sets the replicas to 0 first.
func (c *Checker) withdrawn(set *checkedCell, e *Entry) {
	if available, _ := c.count(set); available > 0 && set.lowest() > 0 && !c.unseen(gapKey{cell: set.UID}, e.At) {
		c.violate(e.At, ruleCell, fmt.Sprintf("%s: %s is gone, and %d of its pods were available; in force %v",
			e.Cluster, set, available, set.specs))
	}
}

// String returns "cell <name>", with the place if it is one of several.
func (s *checkedCell) String() string {
	if s.Of == (Place{}) {
		return "cell " + s.Name
	}
	return "cell " + s.Name + " of " + s.Of.String()
}

// lowest is the lowest number of replicas in force.
func (s *checkedCell) lowest() int32 {
	n := int32(0)
	for i, spec := range s.specs {
		if i == 0 || spec.Replicas < n {
			n = spec.Replicas
		}
	}
	return n
}

// highest is the highest number of replicas in force.
func (s *checkedCell) highest() int32 {
	n := int32(0)
	for _, spec := range s.specs {
		n = max(n, spec.Replicas)
	}
	return n
}

// difference returns how many available pods a cell lacks, and how many pods it has above its replicas; one of them is
// negative where it has more, or fewer.
func (c *Checker) difference(s *checkedCell) (missing, above int32) {
	available, active := c.count(s)
	return s.lowest() - available, active - s.lowest()
}

// has reports whether a pod of this name is one of the replicas by every spec in force.
func (s *checkedCell) has(pod string) bool {
	return !slices.ContainsFunc(s.specs, func(spec CellSpec) bool { return !spec.has(pod) })
}

func (s CellSpec) has(pod string) bool { return s.Has == nil || s.Has(pod) }

// count returns how many pods of a cell are available, and how many there are. Pods that a spec in force does not have
// among its replicas do not count.
func (c *Checker) count(set *checkedCell) (available, active int32) {
	for _, pod := range c.pods {
		if pod.Owner != set.UID || !set.has(pod.Name) {
			continue
		}
		if pod.available {
			available++
		}
		if pod.Active {
			active++
		}
	}
	return available, active
}

// settle closes holes that were filled, those that are our doing first.
func (c *Checker) settle(set *checkedCell) {
	if set == nil {
		return
	}
	available, active := c.count(set)
	set.down = min(set.down, max(set.lowest()-available, 0))
	set.up = min(set.up, max(active-set.lowest(), 0))
}

// excuseUnreachable takes what members disrupted before they were unreachable as pods that failed by themselves: they
// are charged to their cell, and the others do not wait for them. Cells with ordinals of a fenced member count alike.
func (c *Checker) excuseUnreachable() {
	for _, set := range c.cells {
		member := c.members[set.cluster]
		if member.Unreachable || member.Fenced && set.Unique {
			available, active := c.count(set)
			set.down = max(set.lowest()-available, 0)
			set.up = max(active-set.lowest(), 0)
		}
	}
}

// disrupted judges a pod that we made unavailable.
func (c *Checker) disrupted(set *checkedCell, pod *checkedPod, e *Entry) {
	if !set.has(pod.Name) {
		return // it is none of the replicas
	}
	decided := c.decided(e)
	if !c.knew(pod.version, pod.since, decided) {
		return // the pass may have begun when the pod was not available, and then it is free to go
	}
	available, _ := c.count(set)
	unknown := int32(0)
	stale := c.stale[set.cluster]
	for _, l := range set.losses {
		if l.due.After(e.At) {
			continue // who does not know that it was lost takes it for one that is not available yet
		}
		if !c.knew(l.version, l.at, decided) || stale.After(l.at) && stale.After(decided) {
			unknown++
		}
	}
	allowed := func(spec CellSpec) bool { return spec.Replicas-available-unknown <= spec.MaxUnavailable }
	if !slices.ContainsFunc(set.specs, allowed) && !c.unseen(gapKey{cell: set.UID}, e.At) {
		c.violate(e.At, ruleCell, fmt.Sprintf("%s: %s made pod %s unavailable: %d are available then (%d "+
			"losses it may not have known); in force %v",
			e.Cluster, set, pod.Name, available, unknown, set.specs))
	}
	if available+unknown >= set.lowest() {
		return // a pod too many went
	}
	if since, ok := c.cut[e.Cluster]; ok && e.At.Sub(since)-c.stalls.Within(since, e.At) > leaseEnd {
		c.violate(e.At, ruleLease, fmt.Sprintf("%s: %s made pod %s unavailable %.0f s after the member was "+
			"cut off",
			e.Cluster, set, pod.Name, e.At.Sub(since).Seconds()))
	}
	c.suspect(set.Of, e.At, false)
}

// created judges a pod that was created: nobody but us creates any.
func (c *Checker) created(set *checkedCell, e *Entry) {
	if set == nil {
		return
	}
	_, active := c.count(set)
	allowed := func(spec CellSpec) bool { return spec.has(e.Pod.Name) && active <= spec.Replicas+spec.MaxSurge }
	if !slices.ContainsFunc(set.specs, allowed) && !c.unseen(gapKey{cell: set.UID}, e.At) {
		c.violate(e.At, ruleCell, fmt.Sprintf("%s: %s created pod %s: there are %d then; in force %v",
			e.Cluster, set, e.Pod.Name, active, set.specs))
	}
	if active > set.highest() {
		c.suspect(set.Of, e.At, true)
	}
}

// cellsOf returns the cells of a place, in a stable order.
func (c *Checker) cellsOf(of Place) []*checkedCell {
	var out []*checkedCell
	for _, uid := range slices.Sorted(maps.Keys(c.cells)) {
		if c.cells[uid].Of == of {
			out = append(out, c.cells[uid])
		}
	}
	return out
}
