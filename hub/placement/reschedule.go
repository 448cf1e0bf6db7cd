package placement

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/topology/division"
)

const (
	// defaultReschedule holds where the schema's default was not applied.
	defaultReschedule = time.Minute
	// firstRetry is how long a member that found no node gets nothing more, at least; each time doubles it, up to lastRetry.
	firstRetry = time.Minute
	lastRetry  = 30 * time.Minute
	// forgetTries is how long after its retry was due a member's tries count no more: what failed then says little now.
	forgetTries = time.Hour
	// lookAgain is how soon pods that wait are looked at again: room that a member reports wakes nobody who misses no replicas.
	lookAgain = time.Minute
)

// standing is what is known of a cell's nodes, beside the room that its member reports.
type standing struct {
	// found is how many of its replicas find no node, waiting how many of them others may have: they are no available pods, so
	// that moving them costs nothing. kept is how many of those nobody else takes.
	found, waiting, kept int32
	// replicas of the last decision.
	replicas int32
	// more is how many replicas the cell may get at most; nil for no bound.
	more *int32
	// proven: all it has is Ready, more than it once found nodes for. What was remembered holds no more.
	proven bool
}

// has is how many replicas the cell counts as having.
func (s *standing) has() int32 { return s.replicas - s.waiting + s.kept }

// standingsOf judges the cells of the last decision by what members tell of pods without a node, and by what is remembered of
// those that went elsewhere. It is nil where the policy leaves pods where they are. A WorkloadSpread has its own strategy for them.
//
//	pods wait       the cell counts as having the others alone, and gets nothing more
//	some went       the cell gets nothing more until retryAfter; then one replica of those that nobody runs, and the rest once
//	                that one is Ready; and at once what the member reports to have room for beyond what it had then
//
// So what runs elsewhere never comes back for it, and two members that are both full pass a pod to and fro ever more rarely.
func standingsOf(f *Facts) map[cellID]*standing {
	if f.Reschedule == nil || f.WorkloadSpread != nil || f.Last == nil {
		return nil
	}
	members, ordered := map[string]*Member{}, map[place]int32{}
	for i := range f.Members {
		members[f.Members[i].Name] = &f.Members[i]
	}
	for i := range f.Last.Cells {
		c := &f.Last.Cells[i]
		ordered[place{c.Subset, c.Cluster}] += c.Replicas
	}
	out := map[cellID]*standing{}
	missing := f.missing()
	for i := range f.Last.Cells {
		c := &f.Last.Cells[i]
		m := members[c.Cluster]
		if m == nil || !m.Selected || !m.Ready || gone(m) || c.Leaving > 0 {
			continue
		}
		if s := f.standingOf(m, c, ordered[place{c.Subset, c.Cluster}], missing); s != nil {
			out[idOf(c)] = s
		}
	}
	return out
}

// missing tells whether there are replicas that no cell of the last decision has, or whose pods find no node, or whose cell is to
// lose them. Where there are none a member that had no nodes is not tried again: what it got would be taken from what runs elsewhere.
func (f *Facts) missing() bool {
	members := map[string]*Member{}
	for i := range f.Members {
		members[f.Members[i].Name] = &f.Members[i]
	}
	var runs int32
	for i := range f.Last.Cells {
		c := &f.Last.Cells[i]
		if m := members[c.Cluster]; m == nil || !m.Selected || gone(m) {
			continue
		}
		report := f.Reports[c.Cluster]
		runs += c.Replicas - c.Leaving - min(report.waitingIn(c), c.Replicas)
	}
	return runs < f.Workload.Replicas
}

// standingOf judges one cell, of a place that has been told to have ordered replicas; nil where there is nothing to say.
func (f *Facts) standingOf(m *Member, c *topology.Cell, ordered int32, missing bool) *standing {
	report, had := f.Reports[c.Cluster], c.Unschedulable
	s := &standing{replicas: c.Replicas}
	// A report on an earlier order says nothing of this one.
	told := report.Sequence >= c.Sequence
	if told {
		s.found = min(report.waitingIn(c), c.Replicas)
	}
	switch {
	case s.found > 0:
		s.more = new(int32(0))
		if had == nil || !f.Now.Before(had.RetryAfter.Add(f.rescheduleAfter()-f.waitFor(had.Tries))) {
			// Pods that wait since the last ones went are given time: those of one outage come in one report or two.
			s.waiting = s.found
		}
	case had == nil:
		return nil
	case told && c.Replicas > had.Replicas && report.Use[c.Subset].Ready+report.waiting(c.Subset) >= ordered:
		s.proven = true // what is not Ready waits in other zones of the member
	default:
		most := had.Replicas
		if missing && !f.Now.Before(had.RetryAfter.Time) {
			most++
		}
		if room := f.roomOf(m, c); room != nil && had.Room != nil {
			most = max(most, had.Replicas+*room-*had.Room)
		}
		s.more = new(max(most-c.Replicas, 0))
	}
	return s
}

// waiting returns how many pods of a subset find no node, in all zones of the member.
func (r *Report) waiting(subset string) int32 {
	var n int32
	for _, u := range r.Unschedulable {
		if u.Subset == subset {
			n += u.Pods
		}
	}
	return n
}

// waitingIn returns how many pods of a cell find no node. A subset's cell is one, whatever zones its member has.
func (r *Report) waitingIn(c *topology.Cell) int32 {
	var n int32
	for _, u := range r.Unschedulable {
		if u.Subset == c.Subset && (c.Subset != "" || c.Zone == "" || c.Zone == u.Zone) {
			n += u.Pods
		}
	}
	return n
}

// roomOf returns how many pods a cell could have by what its member reports, nil where that is not known, or not for one zone of
// several.
func (f *Facts) roomOf(m *Member, c *topology.Cell) *int32 {
	var zones []string
	switch at := slices.IndexFunc(f.Workload.Subsets, func(s Subset) bool { return s.Name == c.Subset }); {
	case f.Workload.Open && c.Zone != "", at < 0:
		return nil
	case !f.Workload.Open:
		zones = matchTerm(&f.Workload.Subsets[at].Term, m).zones
	}
	alone := *m
	alone.Promised = Room{} // what others were promised comes and goes
	room := roomFor(&alone, zones, f.Workload.Requests)
	if room == nil {
		return nil
	}
	return new(min(f.Reports[m.Name].Use[c.Subset].Ready, mostRoom) + *room)
}

// rescheduleAfter is how long a pod may find no node.
func (f *Facts) rescheduleAfter() time.Duration {
	if after, err := time.ParseDuration(f.Reschedule.After); err == nil {
		return after
	}
	return defaultReschedule
}

// waitFor is how long a member gets nothing more after it found no node for the tries-th time.
func (f *Facts) waitFor(tries int32) time.Duration {
	first := max(firstRetry, f.rescheduleAfter())
	return min(first<<min(max(tries-1, 0), 10), max(lastRetry, first))
}

// narrow bounds what the division may give a cell.
func (f *Facts) narrow(c *division.Cell, id cellID) {
	s := f.standings[id]
	if s == nil {
		return
	}
	if s.waiting > 0 {
		c.Current = min(c.Current, s.has())
	}
	if s.more != nil && (c.Capacity == nil || *c.Capacity > *s.more) {
		c.Capacity = s.more
	}
}

// divideWaiting divides, so that pods which find no node go to others; those that nobody takes wait where they are, since a
// member's own means may find them a node yet.
func divideWaiting(f *Facts) (divided, []Note, *Refusal) {
	waits := false
	for _, s := range f.standings {
		s.kept = 0
		waits = waits || s.waiting > 0
	}
	result, notes, refusal := divide(f)
	if !waits || refusal != nil {
		return result, notes, refusal
	}
	left, kept := map[string]int32{}, false
	for _, u := range result.unplaced {
		left[u.Subset] += u.Replicas
	}
	for _, id := range slices.SortedFunc(maps.Keys(f.standings), compareIDs) {
		s := f.standings[id]
		s.kept = min(s.waiting, left[id.subset])
		left[id.subset] -= s.kept
		kept = kept || s.kept > 0
	}
	if !kept {
		return result, notes, nil
	}
	return divide(f)
}

func compareIDs(a, b cellID) int {
	return cmp.Or(strings.Compare(a.subset, b.subset), strings.Compare(a.cluster, b.cluster), strings.Compare(a.zone, b.zone))
}

// remember writes into the cells what is known of their nodes after the decision.
func (f *Facts) remember(cells []topology.Cell) {
	last := lastCells(f)
	for i := range cells {
		c := &cells[i]
		had := last[idOf(c)]
		c.Unschedulable = nil
		if f.Reschedule == nil || f.WorkloadSpread != nil || had == nil {
			continue
		}
		c.Unschedulable = had.Unschedulable
		s := f.standings[idOf(c)]
		switch {
		case s == nil:
		case s.proven:
			c.Unschedulable = nil
		case s.waiting > 0 && c.Replicas < had.Replicas:
			c.Unschedulable = f.failed(had, s)
			c.Reason = topology.Reason{Code: CellUnschedulable, Params: map[string]string{ParamAfter: f.Reschedule.After}}
		}
	}
}

// failed is what is remembered of a cell that loses replicas now, because its member finds no node for them.
func (f *Facts) failed(had *topology.Cell, s *standing) *topology.Unschedulable {
	tries := int32(1)
	if before := had.Unschedulable; before != nil && f.Now.Before(before.RetryAfter.Add(forgetTries)) {
		tries = min(before.Tries, 30) + 1
	}
	u := &topology.Unschedulable{
		Replicas: had.Replicas - s.waiting, Tries: tries,
		RetryAfter: metav1.NewTime(f.Now.Add(f.waitFor(tries)).Truncate(time.Second)),
	}
	if i := slices.IndexFunc(f.Members, func(m Member) bool { return m.Name == had.Cluster }); i >= 0 {
		u.Room = f.roomOf(&f.Members[i], had)
	}
	return u
}

// retryIn returns when a decision can change by time alone because of pods without a node, 0 for never: somebody waits for a
// place, and a member that found no node for more may be tried again.
func (f *Facts) retryIn(spec *topology.WorkloadPlacementSpec) time.Duration {
	waits := false
	for _, s := range f.standings {
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
		if wait := u.RetryAfter.Sub(f.Now); wait > 0 {
			again = sooner(again, wait)
		}
	}
	return again
}

// waitNotes say for which members no node is found, and what becomes of it.
func waitNotes(f *Facts, spec *topology.WorkloadPlacementSpec) []Note {
	kept, most := map[string]int32{}, map[string][]string{}
	for _, id := range slices.SortedFunc(maps.Keys(f.standings), compareIDs) {
		if n := f.standings[id].kept; n > 0 {
			kept[id.cluster] += n
		}
	}
	for i := range spec.Cells {
		if c := &spec.Cells[i]; c.Unschedulable != nil {
			of := ""
			if part := cmp.Or(c.Subset, c.Zone); part != "" {
				of = " of " + part
			}
			most[c.Cluster] = append(most[c.Cluster], fmt.Sprintf("%d replicas%s", c.Unschedulable.Replicas, of))
		}
	}
	var notes []Note
	for _, cluster := range slices.Sorted(maps.Keys(kept)) {
		notes = append(notes, Note{Reason: Placed, Message: fmt.Sprintf(
			"%d pods find no node in member %s, and no other member takes them, so they wait there; add nodes or members, or raise a bound", kept[cluster], cluster)})
	}
	for _, cluster := range slices.Sorted(maps.Keys(most)) {
		notes = append(notes, Note{Reason: Placed, Message: fmt.Sprintf(
			"member %s found nodes for no more than %s, so others got the rest", cluster, strings.Join(most[cluster], ", "))})
	}
	return notes
}
