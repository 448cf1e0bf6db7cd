package main

import (
	"fmt"
	"slices"
	"time"
)

// ledger is what the hub says of a workload.
type ledger struct {
	asked []askedState
	// matched is the generation of the user's object that the last placement followed.
	matched int64
	last    *placedState
	bounds  map[string][]bound // by subset, the oldest first
}

// bound is what holds for a subset over all members from a time on.
type bound struct {
	at                time.Time
	unavailable, more int32
}

// suspect is a place that was beyond its bound when we took a pod down, or added one.
type suspect struct {
	of    place
	at    time.Time
	until time.Time // it is dropped if all is well before
	added bool
	what  string
	story []string
}

func (c *checker) ledger(workload string) *ledger {
	l := c.ledgers[workload]
	if l == nil {
		l = &ledger{bounds: map[string][]bound{}}
		c.ledgers[workload] = l
	}
	return l
}

func (c *checker) takePlaced(e *entry) {
	c.placements++
	p, l := e.placed, c.ledger(e.placed.workload)
	if l.last != nil && l.last.generation == p.generation {
		return
	}
	c.tell(e.at, e.cluster, fmt.Sprintf("placement of %s, sequence %d: %s", p.workload, p.sequence, p))
	if p.placed+p.unplaced != p.replicas {
		c.violate(e.at, ruleSum,
			fmt.Sprintf("the placement of %s (sequence %d) places %d replicas and tells of %d that are not placed, of %d",
				p.workload, p.sequence, p.placed, p.unplaced, p.replicas))
	}
	c.checkAsked(e, l)
	for name, s := range p.subsets {
		var before subsetState
		if l.last != nil {
			before = l.last.subsets[name]
		}
		more := s.held.Break > max(s.limit.Break, before.held.Break) || s.held.Add > max(s.limit.Add, before.held.Add)
		if next := l.last == nil || p.generation == l.last.generation+1; more && next { // and not after one that was not seen
			c.violate(e.at, ruleLent, fmt.Sprintf("the cells of %s hold %+v together (sequence %d): the limits are %+v, and "+
				"they held %+v before",
				place{p.workload, name}, s.held, p.sequence, s.limit, before.held))
		}
		l.bounds[name] = append(l.bounds[name], bound{e.at, max(s.limit.Break, s.held.Break), max(s.limit.Add, s.held.Add)})
	}
	l.last = p
}

// checkAsked wants that the numbers of a placement are those of one generation of the user's object, and not of an
// older one than the last placement's.
func (c *checker) checkAsked(e *entry, l *ledger) {
	p := e.placed
	for _, asked := range l.asked {
		if asked.generation < l.matched || asked.replicas != p.replicas {
			continue
		}
		same := true
		for name, s := range p.subsets {
			number, has := asked.numbers[name]
			same = same && (!s.whole || asked.amounts(name, s.replicas) == s.limit && (!has || number == s.replicas))
		}
		if same {
			l.matched = asked.generation
			return
		}
	}
	if n := len(l.asked); n > 0 && l.asked[n-1].generation-l.asked[0].generation >= int64(n) {
		return // it may follow a generation that was not seen
	}
	if c.unseen(lostKey{workload: p.workload}, e.at) {
		return // it may follow a generation of which only a later version was seen
	}
	c.violate(e.at, ruleLent,
		fmt.Sprintf("the placement of %s (sequence %d) has numbers that no generation of it from %d on asks for: %s",
			p.workload, p.sequence, l.matched, p))
}

// String returns the numbers of the placement.
func (p *placedState) String() string {
	text := fmt.Sprintf("replicas %d, placed %d", p.replicas, p.placed)
	names := make([]string, 0, len(p.subsets))
	for name := range p.subsets {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		s := p.subsets[name]
		text += fmt.Sprintf("; subset %q: %d replicas, limits %+v, held %+v", name, s.replicas, s.limit, s.held)
	}
	return text
}

// sum returns how many pods all members of a place took down, or added above replicas, by our doing.
func (c *checker) sum(of place, added bool) int32 {
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
func (c *checker) inForce(of place, at time.Time, added bool) (int32, bool) {
	l := c.ledgers[of.workload]
	if l == nil {
		return 0, false
	}
	most, found, from := int32(0), false, c.stood.before(at, ordering)
	bounds := l.bounds[of.subset]
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

// suspect looks at a place at the moment of a disruption or a creation.
func (c *checker) suspect(of place, at time.Time, added bool) {
	total := c.sum(of, added)
	if added {
		c.largestAdded = max(c.largestAdded, total)
	} else {
		c.largestDown = max(c.largestDown, total)
	}
	most, known := c.inForce(of, at, added)
	if known && total <= most || c.blindFor(of, at) {
		return
	}
	c.excesses++
	what := "unavailable by our doing"
	if added {
		what = "above replicas by our doing"
	}
	c.suspects = append(c.suspects, suspect{of, at, c.stood.after(at, ordering), added,
		fmt.Sprintf("%s: %d pods are %s over all members, at most %d may be", of, total, what, most),
		slices.Clone(c.story[max(0, len(c.story)-storyLength):])})
}

// blindFor tells whether versions of a place's workload, or of one of its cells, around a time were not seen.
func (c *checker) blindFor(of place, at time.Time) bool {
	return c.unseen(lostKey{workload: of.workload}, at) ||
		slices.ContainsFunc(c.cellsOf(of), func(s *cell) bool { return c.unseen(lostKey{cell: s.uid}, at) })
}

// review drops suspicions that were a matter of the order in which events were seen.
func (c *checker) review(now time.Time) {
	c.suspects = slices.DeleteFunc(c.suspects, func(s suspect) bool {
		if now.After(s.until) {
			return false
		}
		most, known := c.inForce(s.of, s.at, s.added)
		return known && c.sum(s.of, s.added) <= most
	})
}

// ripen makes violations of suspicions that were not dropped in time.
func (c *checker) ripen(now time.Time) {
	c.suspects = slices.DeleteFunc(c.suspects, func(s suspect) bool {
		if !now.After(s.until) {
			return false
		}
		c.violate(s.at, ruleGlobal, s.what)
		if n := len(c.violations); n > 0 && c.violations[n-1].what == s.what {
			c.violations[n-1].story = s.story
		}
		return true
	})
}
