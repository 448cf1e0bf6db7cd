package judge

import (
	"fmt"
	"slices"
	"time"
)

// checkedWorkload is what the hub says of a workload.
type checkedWorkload struct {
	desired []Desired
	// matched is the generation of the user's object that the last placement followed.
	matched int64
	last    *Placement
	bounds  map[string][]bound // by subset, the oldest first
}

// bound is what holds for a subset over all members from a time on.
type bound struct {
	at                time.Time
	unavailable, more int32
}

// suspicion is of a place that was beyond its bound when we took a pod down, or added one.
type suspicion struct {
	of    Place
	at    time.Time
	until time.Time // it is dropped if all is well before
	added bool
	what  string
	trace []string
}

func (c *Checker) workload(workload string) *checkedWorkload {
	l := c.workloads[workload]
	if l == nil {
		l = &checkedWorkload{bounds: map[string][]bound{}}
		c.workloads[workload] = l
	}
	return l
}

func (c *Checker) takePlacement(e *Entry) {
	c.Placements++
	p, l := e.Placement, c.workload(e.Placement.Workload)
	if l.last != nil && l.last.Generation == p.Generation {
		return
	}
	c.record(e.At, e.Cluster, fmt.Sprintf("placement of %s, sequence %d: %s", p.Workload, p.Sequence, p))
	if p.Placed+p.Unplaced != p.Replicas {
		c.violate(e.At, ruleSum,
			fmt.Sprintf("the placement of %s (sequence %d) places %d replicas and tells of %d that are not placed, of %d",
				p.Workload, p.Sequence, p.Placed, p.Unplaced, p.Replicas))
	}
	c.checkDesired(e, l)
	for name, s := range p.Subsets {
		var before Subset
		if l.last != nil {
			before = l.last.Subsets[name]
		}
		more := s.Reserved.Unavailable > max(s.Limit.Unavailable, before.Reserved.Unavailable) ||
			s.Reserved.Surge > max(s.Limit.Surge, before.Reserved.Surge)
		if next := l.last == nil || p.Generation == l.last.Generation+1; more && next { // and not after one that was not seen
			c.violate(e.At, ruleGranted, fmt.Sprintf("the cells of %s hold %+v together (sequence %d): the limits are %+v, and "+
				"they held %+v before",
				Place{p.Workload, name}, s.Reserved, p.Sequence, s.Limit, before.Reserved))
		}
		l.bounds[name] = append(l.bounds[name], bound{e.At, max(s.Limit.Unavailable, s.Reserved.Unavailable),
			max(s.Limit.Surge, s.Reserved.Surge)})
	}
	l.last = p
}

// checkDesired wants that the numbers of a placement are those of one generation of the user's object, and not of an
// older one than the last placement's.
func (c *Checker) checkDesired(e *Entry, l *checkedWorkload) {
	p := e.Placement
	if len(l.desired) == 0 {
		return // what the user asks for is not observed, as of budgets
	}
	for _, asked := range l.desired {
		if asked.Generation < l.matched || asked.Replicas != p.Replicas {
			continue
		}
		same := true
		for name, s := range p.Subsets {
			number, has := asked.Numbers[name]
			same = same && (!s.Whole || asked.Amounts(name, s.Replicas) == s.Limit && (!has || number == s.Replicas))
		}
		if same {
			l.matched = asked.Generation
			return
		}
	}
	if n := len(l.desired); n > 0 && l.desired[n-1].Generation-l.desired[0].Generation >= int64(n) {
		return // it may follow a generation that was not seen
	}
	if c.unseen(gapKey{workload: p.Workload}, e.At) {
		return // it may follow a generation of which only a later version was seen
	}
	c.violate(e.At, ruleGranted,
		fmt.Sprintf("the placement of %s (sequence %d) has numbers that no generation of it from %d on asks for: %s",
			p.Workload, p.Sequence, l.matched, p))
}

// String returns the numbers of the placement.
func (p *Placement) String() string {
	text := fmt.Sprintf("replicas %d, placed %d", p.Replicas, p.Placed)
	names := make([]string, 0, len(p.Subsets))
	for name := range p.Subsets {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		s := p.Subsets[name]
		text += fmt.Sprintf("; subset %q: %d replicas, limits %+v, reserved %+v", name, s.Replicas, s.Limit, s.Reserved)
	}
	return text
}

// sum returns how many pods all members of a place took down, or added above replicas, by our doing.
func (c *Checker) sum(of Place, added bool) int32 {
	total := int32(0)
	for _, set := range c.cellsOf(of) {
		available, active := c.count(set)
		if added {
			total += max(active-set.highest()-set.up, 0)
		} else {
			total += max(set.lowest()-available-set.down, 0)
		}
	}
	return total
}

// inForce returns the largest bound that was in force at any time from shortly before at on.
func (c *Checker) inForce(of Place, at time.Time, added bool) (int32, bool) {
	l := c.workloads[of.Workload]
	if l == nil {
		return 0, false
	}
	most, found, from := int32(0), false, c.stalls.before(at, ordering)
	bounds := l.bounds[of.Subset]
	for i, b := range bounds {
		if i+1 < len(bounds) && bounds[i+1].at.Before(from) {
			continue
		}
		found = true
		if added {
			most = max(most, b.more)
		} else {
			most = max(most, b.unavailable)
		}
	}
	return most, found
}

// suspect looks at a place at the moment of a disruption or a creation. Cells of no place have no limits together.
func (c *Checker) suspect(of Place, at time.Time, added bool) {
	if of == (Place{}) {
		return
	}
	total := c.sum(of, added)
	if added {
		c.LargestAdded = max(c.LargestAdded, total)
	} else {
		c.LargestDown = max(c.LargestDown, total)
	}
	most, known := c.inForce(of, at, added)
	if known && total <= most || c.unseenFor(of, at) {
		return
	}
	c.Suspicions++
	what := "unavailable by our doing"
	if added {
		what = "above replicas by our doing"
	}
	c.suspicions = append(c.suspicions, suspicion{of, at, c.stalls.after(at, ordering), added,
		fmt.Sprintf("%s: %d pods are %s over all members, at most %d may be", of, total, what, most),
		slices.Clone(c.trace[max(0, len(c.trace)-traceLength):])})
}

// unseenFor reports whether versions of a place's workload, or of one of its cells, around a time were not observed.
func (c *Checker) unseenFor(of Place, at time.Time) bool {
	return c.unseen(gapKey{workload: of.Workload}, at) ||
		slices.ContainsFunc(c.cellsOf(of), func(s *checkedCell) bool { return c.unseen(gapKey{cell: s.UID}, at) })
}

// review drops suspicions that were a matter of the order in which events were seen.
func (c *Checker) review(now time.Time) {
	c.suspicions = slices.DeleteFunc(c.suspicions, func(s suspicion) bool {
		if now.After(s.until) {
			return false
		}
		most, known := c.inForce(s.of, s.at, s.added)
		return known && c.sum(s.of, s.added) <= most
	})
	c.reviewTwins(now)
}

// ripen makes violations of suspicions that were not dropped in time.
func (c *Checker) ripen(now time.Time) {
	c.suspicions = slices.DeleteFunc(c.suspicions, func(s suspicion) bool {
		if !now.After(s.until) {
			return false
		}
		c.violate(s.at, ruleGlobal, s.what)
		if n := len(c.Violations); n > 0 && c.Violations[n-1].What == s.what {
			c.Violations[n-1].Trace = s.trace
		}
		return true
	})
	c.ripenTwins(now)
}
