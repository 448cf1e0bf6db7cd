package main

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// settling is how long before a write it may have been decided: a pass looks at the world, begins writes for 2 s, and
	// the client repeats one that was answered 429. What the world told later does not count against the pass. This and
	// the other times here are of a machine that runs: what it was measured to stand still comes on top.
	settling = 5 * time.Second
	// ordering is how long it may take until events of one cluster are seen after later ones of another.
	ordering = time.Second
	// leaseEnd is how long after it was cut off a member may still disrupt: a lease of 40 s, 5 s until a CloneSet asks
	// again, and a pass.
	leaseEnd = 40*time.Second + settling + settling
)

// report is what a checker found, and how much it looked at.
type report struct {
	violations                          []violation
	entries, disruptions, creations     int
	foreign, placements, userChanges    int
	largestDown, largestAdded, excesses int32
}

// checker goes through a log in the order of time. It is pure.
type checker struct {
	report
	asked   deletions
	cells   map[types.UID]*cell
	pods    map[types.UID]*podNow
	ledgers map[string]*ledger // by workload
	blind   map[string]time.Time
	cut     map[string]time.Time
	silent  map[string]bool
	// due are pods that become available by the passing of time.
	due      []duePod
	suspects []suspect
	story    []string
	// stood are all stalls of the log.
	stood stalls
	// holes are the times in which versions of cells and workloads were not seen.
	holes map[lostKey]stalls
}

type lostKey struct {
	cell     types.UID
	workload string
}

// cell is a CloneSet of a member.
type cell struct {
	cluster string
	setState
	specs []cellSpec // those in force, the oldest first
	// down are unavailable pods that are not our doing, up by pods above replicas that we did not add.
	down, up int32
	// news are the pods that others made unavailable, or that they kept from becoming available.
	news []loss
}

type podNow struct {
	podState
	cluster   string
	available bool
	since     time.Time // when it became available
}

// loss is a pod that is not available, and not by our doing.
type loss struct {
	at  time.Time // when it was lost
	due time.Time // since when it would be available; zero for one that was
}

type duePod struct {
	at  time.Time
	uid types.UID
	// readySince tells whether the pod is still the one that was waited for.
	readySince time.Time
}

// judge returns what was wrong in a log, which is sorted (see [ordered]).
func judge(log []entry, asked deletions) report {
	c := &checker{
		asked: asked, cells: map[types.UID]*cell{}, pods: map[types.UID]*podNow{}, ledgers: map[string]*ledger{},
		blind: map[string]time.Time{}, cut: map[string]time.Time{}, silent: map[string]bool{},
	}
	c.stood = stallsOf(log)
	c.holes = lostOf(log)
	for i := range log {
		c.passTo(log[i].at)
		c.take(&log[i])
		c.entries++
	}
	if n := len(log); n > 0 {
		c.passTo(log[n-1].at.Add(time.Hour))
	}
	return c.report
}

// stallsOf returns the stalls that a log tells of.
func stallsOf(log []entry) stalls {
	var all []stall
	for i := range log {
		if log[i].stood != nil {
			all = append(all, *log[i].stood)
		}
	}
	return merged(all)
}

// lostOf returns when versions of what were not seen.
func lostOf(log []entry) map[lostKey]stalls {
	all := map[lostKey][]stall{}
	for i := range log {
		if l := log[i].lost; l != nil {
			key := lostKey{l.cell, l.workload}
			all[key] = append(all[key], stall{from: l.from, to: log[i].at})
		}
	}
	out := map[lostKey]stalls{}
	for key, times := range all {
		out[key] = merged(times)
	}
	return out
}

// unseen tells whether versions of a cell or workload around a time were not seen.
func (c *checker) unseen(key lostKey, at time.Time) bool {
	return slices.ContainsFunc(c.holes[key], func(s stall) bool {
		return !at.Before(c.stood.before(s.from, ordering)) && !at.After(c.stood.after(s.to, ordering))
	})
}

// passTo lets pods become available, and suspicions ripen, until the time.
func (c *checker) passTo(now time.Time) {
	for len(c.due) > 0 && !c.due[0].at.After(now) {
		next := c.due[0]
		c.due = c.due[1:]
		c.ripen(next.at)
		pod := c.pods[next.uid]
		if pod == nil || !pod.ready || !pod.active || !pod.readySince.Equal(next.readySince) || pod.available {
			continue
		}
		pod.available, pod.since = true, next.at
		c.tell(next.at, pod.cluster, "pod "+pod.name+" available")
		c.settle(c.cells[pod.owner])
		c.review(next.at)
	}
	c.ripen(now)
}

func (c *checker) take(e *entry) {
	switch {
	case e.pod != nil:
		c.takePod(e)
	case e.set != nil:
		c.takeSet(e)
	case e.placed != nil:
		c.takePlaced(e)
	case e.asked != nil:
		l := c.ledger(e.asked.workload)
		if n := len(l.asked); n > 0 && l.asked[n-1].generation >= e.asked.generation {
			break // its status changed
		}
		c.userChanges++
		l.asked = append(l.asked, *e.asked)
		c.tell(e.at, e.cluster, fmt.Sprintf("the user asks: %s generation %d, replicas %d", e.asked.workload,
			e.asked.generation, e.asked.replicas))
	case e.silent != nil:
		if e.silent.silent != c.silent[e.cluster] {
			c.tell(e.at, e.cluster, fmt.Sprintf("the hub takes it for silent: %t", e.silent.silent))
		}
		c.silent[e.cluster] = e.silent.silent
	case e.cut != nil && e.cut.cut:
		c.cut[e.cluster] = e.at
		c.tell(e.at, e.cluster, "cut off from the hub")
	case e.cut != nil:
		delete(c.cut, e.cluster)
		c.tell(e.at, e.cluster, "not cut off any more")
	case e.stood != nil:
		c.tell(e.at, e.cluster, fmt.Sprintf("%s for %s", e.note, e.stood.to.Sub(e.stood.from).Round(time.Millisecond)))
		return
	case !e.blind.IsZero():
		c.blind[e.cluster] = c.stood.after(e.at, e.blind.Sub(e.at))
		c.tell(e.at, e.cluster, e.note)
	default:
		c.tell(e.at, e.cluster, e.note)
	}
	c.excuseSilent()
	c.review(e.at)
}

func (c *checker) takeSet(e *entry) {
	s := c.cells[e.set.uid]
	if s == nil {
		s = &cell{cluster: e.cluster}
		c.cells[e.set.uid] = s
	}
	before, grew, shrank := s.lowest(), int32(0), int32(0)
	first := len(s.specs) == 0
	s.setState = *e.set
	if n := len(s.specs); n == 0 || s.specs[n-1].generation < e.set.spec.generation {
		s.specs = append(s.specs, e.set.spec)
		c.tell(e.at, e.cluster, fmt.Sprintf("CloneSet %s of %s, %s", s.name, s.of, e.set.spec))
	}
	s.specs = slices.DeleteFunc(s.specs, func(spec cellSpec) bool {
		return spec.generation < s.observed && spec.generation != s.specs[len(s.specs)-1].generation
	})
	if after := s.lowest(); first {
		grew = after
	} else {
		grew, shrank = max(after-before, 0), max(before-after, 0)
	}
	s.down += grew
	s.up += shrank
	c.settle(s)
	if e.set.gone {
		c.withdrawn(s, e)
		delete(c.cells, e.set.uid)
	}
}

// withdrawn judges a CloneSet that is no more: the garbage collector takes its pods, and it was us who took the
// CloneSet. Nobody asks for that in a run, and who scales in is told so first.
func (c *checker) withdrawn(set *cell, e *entry) {
	if available, _ := c.count(set); available > 0 && set.lowest() > 0 && !c.unseen(lostKey{cell: set.uid}, e.at) {
		c.violate(e.at, ruleCell, fmt.Sprintf("%s: CloneSet %s of %s is gone, and %d of its pods were available; in force %v",
			e.cluster, set.name, set.of, available, set.specs))
	}
}

// lowest is the lowest number of replicas in force.
func (s *cell) lowest() int32 {
	n := int32(0)
	for i, spec := range s.specs {
		if i == 0 || spec.replicas < n {
			n = spec.replicas
		}
	}
	return n
}

// highest is the highest number of replicas in force.
func (s *cell) highest() int32 {
	n := int32(0)
	for _, spec := range s.specs {
		n = max(n, spec.replicas)
	}
	return n
}

func (c *checker) takePod(e *entry) {
	p := *e.pod
	set := c.cells[p.owner]
	before := c.pods[p.uid]
	now := &podNow{podState: p, cluster: e.cluster}
	if p.gone {
		now.active, now.ready = false, false
		delete(c.pods, p.uid)
	} else {
		c.pods[p.uid] = now
	}
	if before != nil {
		now.since = before.since
	}
	wait := time.Duration(0)
	if set != nil {
		wait = set.ready
	}
	if now.active && now.ready {
		at := now.readySince.Add(wait)
		if now.available = !at.After(e.at); !now.available {
			c.wait(duePod{at, p.uid, now.readySince})
		}
	}
	c.kept(set, before, now, e)
	switch {
	case before == nil && now.active:
		c.creations++
		c.tell(e.at, e.cluster, fmt.Sprintf("pod %s created (%s)", p.name, p.image))
		c.settle(set)
		c.created(set, e)
	case now.available && !before.available:
		now.since = e.at
		c.tell(e.at, e.cluster, "pod "+p.name+" available")
		c.settle(set)
	case before != nil && before.available && !now.available:
		c.lost(set, before, now, e)
	case before != nil && before.active && !now.active:
		c.tell(e.at, e.cluster, "pod "+p.name+", which was not available, ended")
		c.settle(set)
	case before != nil && before.image != now.image:
		c.tell(e.at, e.cluster, fmt.Sprintf("pod %s, which was not available, gets %s", p.name, p.image))
	}
}

// kept takes that a pod which was ready is so no more, before it was available.
func (c *checker) kept(set *cell, before, now *podNow, e *entry) {
	if set == nil || before == nil || before.available || !before.ready || !before.active || now.ready && now.active {
		return
	}
	if ours, _ := c.cause(now, e); !ours {
		set.news = append(set.news, loss{e.at, before.readySince.Add(set.ready)})
	}
}

// cause tells whether it is our doing that a pod is not available, and how it came about.
func (c *checker) cause(now *podNow, e *entry) (ours bool, how string) {
	switch {
	case now.ended && now.deleted.IsZero():
		return false, "it ended by itself"
	case !now.active:
		if c.asked.byUs(podKey{e.cluster, now.name}, now.deleted, e.at) {
			return true, "deleted by us"
		}
		return false, "deleted by others"
	case now.shut:
		return true, "updated in place"
	}
	return false, "it failed by itself"
}

// lost takes that a pod is available no more.
func (c *checker) lost(set *cell, before, now *podNow, e *entry) {
	ours, how := c.cause(now, e)
	c.tell(e.at, e.cluster, fmt.Sprintf("pod %s unavailable: %s", now.name, how))
	if set == nil {
		return // its CloneSet is gone
	}
	if !ours {
		c.foreign++
		set.down++
		set.news = append(set.news, loss{at: e.at})
		c.settle(set)
		return
	}
	c.disruptions++
	c.settle(set)
	c.disrupted(set, before, e)
}

func (c *checker) wait(d duePod) {
	at, _ := slices.BinarySearchFunc(c.due, d, func(a, b duePod) int {
		if a.at.After(b.at) {
			return 1
		}
		return -1
	})
	c.due = slices.Insert(c.due, at, d)
}

// count returns how many pods of a CloneSet are available, and how many there are.
func (c *checker) count(set *cell) (available, active int32) {
	for _, pod := range c.pods {
		if pod.owner != set.uid {
			continue
		}
		if pod.available {
			available++
		}
		if pod.active {
			active++
		}
	}
	return available, active
}

// settle closes holes that were filled, those that are our doing first.
func (c *checker) settle(set *cell) {
	if set == nil {
		return
	}
	available, active := c.count(set)
	set.down = min(set.down, max(set.lowest()-available, 0))
	set.up = min(set.up, max(active-set.lowest(), 0))
}

// excuseSilent takes what members took down before they were silent as pods that failed by themselves: they are charged
// to their cell, and nobody else waits for them.
func (c *checker) excuseSilent() {
	for _, set := range c.cells {
		if c.silent[set.cluster] {
			available, active := c.count(set)
			set.down = max(set.lowest()-available, 0)
			set.up = max(active-set.lowest(), 0)
		}
	}
}

// disrupted judges a pod that we made unavailable.
func (c *checker) disrupted(set *cell, pod *podNow, e *entry) {
	decided := c.stood.before(e.at, settling)
	if pod.since.After(decided) {
		return // the pass may have begun when the pod was not available, and then it is free to go
	}
	available, _ := c.count(set)
	unknown := int32(0)
	for _, l := range set.news {
		if l.due.After(e.at) {
			continue // who does not know that it was lost takes it for one that is not available yet
		}
		if l.at.After(decided) || c.blind[set.cluster].After(l.at) && c.blind[set.cluster].After(decided) {
			unknown++
		}
	}
	allowed := func(spec cellSpec) bool { return spec.replicas-available-unknown <= spec.maxUnavailable }
	if !slices.ContainsFunc(set.specs, allowed) && !c.unseen(lostKey{cell: set.uid}, e.at) {
		c.violate(e.at, ruleCell, fmt.Sprintf("%s: CloneSet %s of %s made pod %s unavailable: %d are available then (%d "+
			"losses it may not have known); in force %v",
			e.cluster, set.name, set.of, pod.name, available, unknown, set.specs))
	}
	if available+unknown >= set.lowest() {
		return // a pod too many went
	}
	if since, ok := c.cut[e.cluster]; ok && e.at.Sub(since)-c.stood.within(since, e.at) > leaseEnd {
		c.violate(e.at, ruleLease, fmt.Sprintf("%s: CloneSet %s of %s made pod %s unavailable %.0f s after the member was "+
			"cut off",
			e.cluster, set.name, set.of, pod.name, e.at.Sub(since).Seconds()))
	}
	c.suspect(set.of, e.at, false)
}

// created judges a pod that was created: nobody but us creates any.
func (c *checker) created(set *cell, e *entry) {
	if set == nil {
		return
	}
	_, active := c.count(set)
	allowed := func(spec cellSpec) bool { return active <= spec.replicas+spec.maxSurge }
	if !slices.ContainsFunc(set.specs, allowed) && !c.unseen(lostKey{cell: set.uid}, e.at) {
		c.violate(e.at, ruleCell, fmt.Sprintf("%s: CloneSet %s of %s created pod %s: there are %d then; in force %v",
			e.cluster, set.name, set.of, e.pod.name, active, set.specs))
	}
	if active > set.highest() {
		c.suspect(set.of, e.at, true)
	}
}

func (c *checker) violate(at time.Time, rule, what string) {
	const most = 50 // the rest of a broken run reads the same
	if len(c.violations) < most {
		c.violations = append(c.violations, violation{at, rule, what,
			slices.Clone(c.story[max(0, len(c.story)-storyLength):])})
	}
}

func (c *checker) tell(at time.Time, cluster, what string) {
	c.story = append(c.story, fmt.Sprintf("%s %-5s %s", at.Format(clockFormat), cluster, what))
}

// cellsOf returns the cells of a place, in a stable order.
func (c *checker) cellsOf(of place) []*cell {
	var out []*cell
	for _, uid := range slices.Sorted(maps.Keys(c.cells)) {
		if c.cells[uid].of == of {
			out = append(out, c.cells[uid])
		}
	}
	return out
}
