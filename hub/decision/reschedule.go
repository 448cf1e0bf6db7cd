package decision

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/capacity"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/topology/division"
)

const (
	// defaultReschedule holds where the schema's default was not applied.
	defaultReschedule = time.Minute
	// firstRetry is how long a member that found no node gets nothing more, at least; each time doubles it, up to
	// lastRetry.
	firstRetry = time.Minute
	lastRetry  = 30 * time.Minute
	// forgetTries is how long after its retry was due a member's tries count no more: what failed then says little now.
	forgetTries = time.Hour
	// lookAgain is how soon pods that wait are looked at again: room that a member reports wakes nobody who misses no
	// replicas.
	lookAgain = time.Minute
	// trialSlack is how long after a pod that finds no node would be reported nothing more is waited for: reports take
	// their way.
	trialSlack = 30 * time.Second
	// wrongClock is how far in the future a time that was written cannot lie, unless a clock was wrong.
	wrongClock = time.Minute
)

// standing is what is known of a cell's nodes, beside the room that its member reports.
type standing struct {
	// found is how many of its replicas find no node, waiting how many of them others may have: they are no available
	// pods, so that moving them costs nothing. kept is how many of those nobody else takes.
	found, waiting, kept int32
	// replicas of the last decision.
	replicas int32
	// most is how many replicas the cell may have at most, beside what it has and keeps; nil for no bound.
	most *int32
	// room is how many pods the cell could have by what its member reports, nil where that is not known.
	room *int32
	// proven: more found nodes than it once had nodes for. What was remembered holds no more.
	proven bool
}

// has is how many replicas the cell counts as having.
func (s *standing) has() int32 { return s.replicas - s.waiting + s.kept }

// standingsOf judges the cells of the last decision by what members tell of pods without a node, and by what is
// remembered of those that went elsewhere. It is nil where pods are left where they are.
//
//	pods wait       the cell counts as having the others alone, and gets nothing more
//	some went       the cell gets nothing more until retryAfter; then one replica of those that nobody runs, and the rest once
//	                that one is Ready, or was not reported to find no node in time; and at once what the member reports to have
//	                room for beyond the most that it had when it was tried, or found no node
//
// So what runs elsewhere never comes back for it, and two members that are both full pass a pod to and fro ever more
// rarely.
func standingsOf(d *draft) map[cellID]*standing {
	if d.reschedule == nil || d.last == nil {
		return nil
	}
	members, ordered := map[string]*Member{}, map[place]int32{}
	for i := range d.facts.Members {
		members[d.facts.Members[i].Name] = &d.facts.Members[i]
	}
	for i := range d.last.Cells {
		c := &d.last.Cells[i]
		ordered[place{c.Subset, c.Cluster}] += c.Replicas
	}
	out := map[cellID]*standing{}
	missing := d.missing()
	for i := range d.last.Cells {
		c := &d.last.Cells[i]
		m := members[c.Cluster]
		if m == nil || !m.Ready || d.left[place{c.Subset, c.Cluster}] != "" || c.Replaced > 0 {
			continue
		}
		if s := d.standingOf(m, c, ordered[place{c.Subset, c.Cluster}], missing); s != nil {
			out[idOf(c)] = s
		}
	}
	return out
}

// missing tells whether there are replicas that no cell of the last decision has, or whose pods find no node, or whose
// cell is to lose them. Where there are none a member that had no nodes is not tried again: what it got would be taken
// from what runs elsewhere.
func (d *draft) missing() bool {
	if d.short {
		return true
	}
	members := map[string]*Member{}
	for i := range d.facts.Members {
		members[d.facts.Members[i].Name] = &d.facts.Members[i]
	}
	var runs int32
	for i := range d.last.Cells {
		c := &d.last.Cells[i]
		if m := members[c.Cluster]; m == nil || d.left[place{c.Subset, c.Cluster}] != "" {
			continue
		}
		report := d.reports[c.Cluster]
		runs += c.Replicas - c.Replaced - min(report.WaitingIn(c), c.Replicas)
	}
	return runs < d.workload.Replicas
}

// added is how many replicas no cell was told to have.
func (d *draft) added() int32 {
	n := int64(d.workload.Replicas)
	for i := range d.last.Cells {
		n -= int64(d.last.Cells[i].Replicas - d.last.Cells[i].Replaced)
	}
	return int32(max(n, 0))
}

// standingOf judges one cell, of a place that has been told to have ordered replicas; nil where there is nothing to
// say.
func (d *draft) standingOf(m *Member, c *topology.Cell, ordered int32, missing bool) *standing {
	report, had := d.reports[c.Cluster], c.Unschedulable
	if d.respread() {
		report = capacity.Report{} // it tells of the subsets of before
	}
	s := &standing{replicas: c.Replicas}
	// A report on an earlier order says nothing of this one.
	told := report.Sequence >= c.Sequence
	if told {
		// A pod that is Ready has a node, whatever a member says.
		s.found = min(report.WaitingIn(c), c.Replicas, max(ordered-report.Use[c.Subset].Ready, 0))
	}
	s.room = d.roomOf(m, c)
	switch {
	case !told && min(report.WaitingIn(c), ordered-report.Use[c.Subset].Ready) > 0:
		// What waited last is not moved by that report, and nothing more comes to where it waits.
		s.most = new(c.Replicas)
	case s.found > 0:
		s.most = new(c.Replicas)
		if had == nil || d.retryDue(had) || !d.facts.Now.Before(d.failedAt(had).Add(d.rescheduleAfter())) {
			// Pods that wait since the last ones went are given time: those of one outage come in one report or two.
			s.waiting = s.found
		}
	case had == nil:
		return nil
	case told && c.Replicas > had.Replicas && d.provenBy(&report, c, ordered):
		s.proven = true
	default:
		most := had.Replicas
		if missing && d.retryDue(had) {
			most++
			if d.workload.Adaptive != nil {
				most = max(most, had.Replicas+d.added()) // as published: what is new may go where it was closed
			}
		}
		if s.room != nil && had.Room != nil {
			most = max(most, had.Replicas+*s.room-*had.Room)
		}
		s.most = new(max(most, c.Replicas))
	}
	return s
}

// respread tells whether the last decision went by another divider, or this one goes by none.
func (d *draft) respread() bool {
	was := d.last.Spread
	if d.facts.Division == nil || was == nil {
		return d.facts.Division != nil || was != nil
	}
	return *was != d.facts.Division.Ref
}

// provenBy tells whether what a cell got beyond what it once had nodes for has found some, by a report on its order:
// all that its place has is Ready, but for what waits in other zones; or it was made, and no pod was reported to find
// no node for as long as that takes. The latter counts where pods are not Ready for other reasons.
func (d *draft) provenBy(report *capacity.Report, c *topology.Cell, ordered int32) bool {
	use, waiting := report.Use[c.Subset], report.Waiting(c.Subset)
	if use.Ready+waiting >= ordered {
		return true
	}
	due := d.trialOver(c)
	return !due.IsZero() && !d.facts.Now.Before(due) && use.Total+waiting >= ordered
}

// trialOver is when the member of a cell would have told that it found no node for what the cell got beyond what it
// once had nodes for, or kept because nobody took it; zero where it has nothing more.
func (d *draft) trialOver(c *topology.Cell) time.Time {
	u := c.Unschedulable
	if u == nil || c.Replicas <= u.Replicas {
		return time.Time{}
	}
	tried := d.failedAt(u) // what nobody took was tried on
	if u.TriedAt != nil {
		tried = u.TriedAt.Time
	}
	return tried.Add(d.rescheduleAfter() + trialSlack)
}

// roomOf returns how many pods a cell could have by what its member reports, nil where that is not known, or not for
// one zone or subset of several that are reported on together.
func (d *draft) roomOf(m *Member, c *topology.Cell) *int32 {
	var zones []string
	switch at := slices.IndexFunc(d.workload.Subsets, func(s kinds.Subset) bool { return s.Name == c.Subset }); {
	case d.facts.Division != nil, d.workload.Open && c.Zone != "", at < 0:
		return nil
	case !d.workload.Open:
		zones = MatchTerm(&d.workload.Subsets[at].Term, m).Zones
	}
	alone := *m
	alone.Reserved = capacity.Amounts{} // what others were promised comes and goes
	room := alone.Room(zones, d.workload.Requests)
	if room == nil {
		return nil
	}
	return new(min(d.reports[m.Name].Use[c.Subset].Ready, capacity.MostPods) + *room)
}

// rescheduleAfter is how long a pod may find no node.
func (d *draft) rescheduleAfter() time.Duration {
	if after, err := time.ParseDuration(d.reschedule.After); err == nil {
		return after
	}
	return defaultReschedule
}

// waitFor is how long a member gets nothing more after it found no node for the tries-th time.
func (d *draft) waitFor(tries int32) time.Duration {
	first := max(firstRetry, d.rescheduleAfter())
	if a := d.workload.Adaptive; a != nil {
		first = a.Closed
	}
	wait := first
	for ; tries > 1 && wait < lastRetry; tries-- {
		wait *= 2
	}
	return min(wait, max(lastRetry, first))
}

// failedAt is when a member found no node the last time.
func (d *draft) failedAt(u *topology.Unschedulable) time.Time {
	if u.FailedAt != nil {
		return u.FailedAt.Time
	}
	return u.RetryAfter.Add(-d.waitFor(u.Tries)) // as a hub of an earlier version wrote it
}

// retryAt is when a member that found no node may be tried again.
func (d *draft) retryAt(u *topology.Unschedulable) time.Time {
	return d.failedAt(u).Add(d.waitFor(u.Tries))
}

// retryDue tells whether a member that found no node may be tried again. What failed in the future was written by a
// clock that was wrong: nothing is known of when it was.
func (d *draft) retryDue(u *topology.Unschedulable) bool {
	return !d.facts.Now.Before(d.retryAt(u)) || d.failedAt(u).After(d.facts.Now.Add(wrongClock))
}

// narrow bounds what the division may give a cell.
func (d *draft) narrow(c *division.Cell, id cellID) {
	s := d.standings[id]
	if s == nil {
		return
	}
	if s.waiting > 0 {
		c.Current = min(c.Current, s.has())
	}
	if s.most == nil {
		return
	}
	// What the cell has by now counts, also what it was given in an earlier round of the same decision.
	most := *s.most
	if s.waiting > 0 {
		most = min(most, s.has())
	}
	switch more := max(most-c.Current, 0); {
	case c.Capacity == nil:
		c.Growth = &more // of its room nothing is known
	case *c.Capacity > more:
		c.Capacity = &more
	}
}

// divideWaiting divides, so that pods which find no node go to others; those that nobody takes wait where they are,
// since a member's own means may find them a node yet.
func divideWaiting(d *draft) (divided, []Note, *kinds.Rejection) {
	waits := false
	for _, s := range d.standings {
		s.kept = 0
		waits = waits || s.waiting > 0
	}
	result, notes, refusal := divide(d)
	if !waits || refusal != nil {
		return result, notes, refusal
	}
	left, kept := map[string]int32{}, false
	var all int32
	for _, u := range result.unplaced {
		left[u.Subset] += u.Replicas
		all += u.Replicas
	}
	keep := func(left map[string]int32) {
		for _, id := range slices.SortedFunc(maps.Keys(d.standings), compareIDs) {
			s := d.standings[id]
			n := min(s.waiting-s.kept, max(left[id.subset], 0), all)
			s.kept += n
			left[id.subset] -= n
			all -= n
			kept = kept || n > 0
		}
	}
	keep(left)
	if d.workload.Adaptive != nil { // what one subset is to have and nobody takes may wait in the one that had it
		keep(d.lost(result.cells))
	}
	if !kept {
		return result, notes, nil
	}
	return divide(d)
}

// lost is by how many replicas each subset has fewer than by the last decision, without those that are kept.
func (d *draft) lost(cells []topology.Cell) map[string]int32 {
	lost := map[string]int32{}
	for id, s := range d.standings {
		lost[id.subset] -= s.kept
	}
	for i := range d.last.Cells {
		lost[idOf(&d.last.Cells[i]).subset] += d.last.Cells[i].Replicas
	}
	for i := range cells {
		lost[idOf(&cells[i]).subset] -= cells[i].Replicas
	}
	return lost
}

// takers names those who take what a subset has no nodes for: its other cells, or with the strategy Adaptive all cells.
func (d *draft) takers(subset string) string {
	if d.workload.Adaptive != nil {
		return ""
	}
	return subset
}

func compareIDs(a, b cellID) int {
	return cmp.Or(
		strings.Compare(a.subset, b.subset),
		strings.Compare(a.cluster, b.cluster),
		strings.Compare(a.zone, b.zone),
	)
}

// remember writes into the cells what is known of their nodes after the decision.
func (d *draft) remember(cells []topology.Cell) {
	last, selected := lastCells(d), map[string]bool{}
	for i := range d.facts.Members {
		selected[d.facts.Members[i].Name] = d.facts.Members[i].Selected
	}
	taken := map[string]bool{} // by takers: a cell gets more
	for i := range cells {
		had := last[idOf(&cells[i])]
		takers := d.takers(cells[i].Subset)
		taken[takers] = taken[takers] || cells[i].Replicas > 0 && (had == nil || cells[i].Replicas > had.Replicas)
	}
	for i := range cells {
		c := &cells[i]
		had := last[idOf(c)]
		c.Unschedulable = nil
		// A member that is left is another one when it comes again: it may have been made anew.
		if d.reschedule == nil || had == nil || !selected[c.Cluster] {
			continue
		}
		s := d.standings[idOf(c)]
		switch {
		case s != nil && s.proven:
			continue
		case s != nil && s.waiting > 0 && c.Replicas < had.Replicas:
			c.Unschedulable = d.failed(had, s, taken[d.takers(c.Subset)])
			if taken[d.takers(c.Subset)] {
				c.Reason = topology.Reason{Code: CellUnschedulable, Params: map[string]string{ParamAfter: d.reschedule.After}}
			}
			continue
		}
		c.Unschedulable = d.asOf(had.Unschedulable)
		if u := c.Unschedulable; u != nil && c.Replicas > max(u.Replicas, had.Replicas) {
			u.TriedAt = new(metav1.NewTime(d.facts.Now.Truncate(time.Second)))
			if s != nil {
				u.Room = mostOf(u.Room, s.room)
			}
		}
	}
}

// asOf is what is remembered, by the reschedule.after that holds now.
func (d *draft) asOf(u *topology.Unschedulable) *topology.Unschedulable {
	if u == nil {
		return nil
	}
	out := *u
	out.RetryAfter = metav1.NewTime(d.retryAt(u))
	return &out
}

// failed is what is remembered of a cell that loses replicas now, because its member finds no node for them. If nobody
// takes them (there are fewer to be) it is no try more.
func (d *draft) failed(had *topology.Cell, s *standing, taken bool) *topology.Unschedulable {
	u := &topology.Unschedulable{
		Replicas: had.Replicas - s.waiting,
		Tries:    1,
		FailedAt: new(metav1.NewTime(d.facts.Now.Truncate(time.Second))),
		Room:     s.room,
	}
	if before := had.Unschedulable; before != nil && d.facts.Now.Before(d.retryAt(before).Add(forgetTries)) {
		u.Tries = before.Tries
		if taken {
			u.Tries = min(before.Tries, 30) + 1
		}
		if before.Room != nil {
			u.Room = mostOf(before.Room, s.room) // room that comes and goes is no more room
		}
	}
	u.RetryAfter = metav1.NewTime(d.retryAt(u))
	return u
}

// mostOf is the greater room; nil where one of them is not known.
func mostOf(a, b *int32) *int32 {
	if a == nil || b == nil {
		return nil
	}
	return new(max(*a, *b))
}

// retryIn returns when a decision can change by time alone because of pods without a node, 0 for never: somebody waits
// for a place, and a member that found no node for more may be tried again.
func (d *draft) retryIn(spec *topology.WorkloadPlacementSpec) time.Duration {
	waits := false
	for _, s := range d.standings {
		waits = waits || s.found > 0
	}
	again := time.Duration(0)
	if waits {
		again = lookAgain
	}
	for i := range spec.Cells {
		u := spec.Cells[i].Unschedulable
		if u == nil || !waits && len(spec.Unplaced) == 0 {
			continue
		}
		for _, due := range []time.Time{d.retryAt(u), d.trialOver(&spec.Cells[i])} {
			if wait := due.Sub(d.facts.Now); wait > 0 {
				again = Sooner(again, wait)
			}
		}
	}
	return again
}

// waitNotes say for which members no node is found, and what becomes of it.
func waitNotes(d *draft, spec *topology.WorkloadPlacementSpec) []Note {
	kept, most := map[string]int32{}, map[string][]string{}
	for _, id := range slices.SortedFunc(maps.Keys(d.standings), compareIDs) {
		if n := d.standings[id].kept; n > 0 {
			kept[id.cluster] += n
		}
	}
	for i := range spec.Cells {
		if c := &spec.Cells[i]; c.Unschedulable != nil {
			of := ""
			if part := cmp.Or(c.Subset, c.SpreadSubset, c.Zone); part != "" {
				of = " of " + part
			}
			most[c.Cluster] = append(most[c.Cluster], fmt.Sprintf("%d replicas%s", c.Unschedulable.Replicas, of))
		}
	}
	var notes []Note
	for _, cluster := range slices.Sorted(maps.Keys(kept)) {
		notes = append(notes, Note{Reason: Placed, Message: fmt.Sprintf(
			"%d pods find no node in member %s, and no other member takes them, so they wait there; add nodes or members, or "+
				"raise a bound",
			kept[cluster],
			cluster,
		)})
	}
	for _, cluster := range slices.Sorted(maps.Keys(most)) {
		notes = append(notes, Note{Reason: Placed, Message: fmt.Sprintf(
			"member %s found nodes for no more than %s, so others got the rest", cluster, strings.Join(most[cluster], ", "))})
	}
	return notes
}
