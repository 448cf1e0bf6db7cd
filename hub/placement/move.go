package placement

import (
	"cmp"
	"slices"
	"strings"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/topology/division"
	"github.com/flotilla-dev/flotilla/topology/failover"
	"github.com/flotilla-dev/flotilla/topology/lending"
)

// move turns what the division gives into orders: pods of members that are drained, or that came back, go step by step, and
// those of lost members are left as they are ([failover.Move]); those of places that shrink go as others are available
// ([failover.Clear]). It returns what that uses of each subset's limits.
func move(f *Facts, result *divided) map[string]lending.Amounts {
	shrink := shrinks(f, result)
	if !moves(f, result.cells) && len(shrink.at) == 0 {
		return nil
	}
	last := lastCells(f)
	used := map[string]lending.Amounts{}
	var moves []subsetMove
	for i := range f.Workload.Subsets {
		subset := &f.Workload.Subsets[i]
		if subset.Removed {
			continue
		}
		places := placesOf(f, result.cells, subset.Name)
		if len(places) == 0 {
			continue
		}
		amounts := subset.Amounts(result.subsets[subset.Name])
		limits := failover.Limits{Unavailable: amounts.Break, Surge: amounts.Add, NoTwin: f.Failover.Mode == topology.FailoverFence}
		cells := make([]failover.Cell, len(places))
		for j := range places {
			if c := &places[j].cell; shrink.at[place{subset.Name, c.Key}] {
				c.Shrinks, c.Total = true, max(c.Total, f.Reports[c.Key].Use[subset.Name].Desired) // it may yet make what it was told before
			}
			cells[j] = places[j].cell
		}
		moved := failover.Move(cells, limits)
		used[subset.Name] = lending.Amounts{Break: moved.Break, Add: moved.Add}
		moves = append(moves, subsetMove{subset, places, cells, moved.Orders})
	}
	clearAll(f, result, moves, shrink, used, last)
	for _, m := range moves {
		var waits int32
		for j := range m.places {
			m.places[j].tell(f, result.cells, m.orders[j], last)
			waits += m.orders[j].Waits
		}
		waits -= keepReturned(m.places, result.cells, waits)
		if waits > 0 {
			result.unplaced = append(result.unplaced, topology.Unplaced{Subset: m.subset.Name, Replicas: waits, Reason: topology.Reason{Code: UnplacedMoving}})
		}
	}
	return used
}

// settleRounds bounds how often a decision in the middle of a move is made again.
const settleRounds = 8

// settle divides and moves. In the middle of a move it does so again from its own result until that changes nothing: what one
// step gives to a member can be what another one runs already. So it does for the strategy Adaptive, which goes by what is Ready:
// where fewer are to be, the cells that give are chosen after the subsets.
func settle(f *Facts) (result divided, used map[string]lending.Amounts, notes []Note, refusal *kinds.Rejection) {
	base := f.Last
	defer func() { f.Last, f.takenBack = base, nil }()
	for range settleRounds {
		f.takenBack = takeBack(f)
		if result, notes, refusal = divideWaiting(f); refusal != nil {
			return result, nil, nil, refusal
		}
		if f.Workload.Adaptive != nil && base != nil && len(result.unplaced) > 0 && !f.short {
			// The next decision would see that replicas are missing, and try members again.
			f.short, f.Last = true, base
			f.standings = standingsOf(f)
			continue
		}
		used = move(f, &result)
		if used == nil && (f.Workload.Adaptive == nil || base == nil) {
			break
		}
		next := withCells(base, result.cells)
		next.Unplaced = result.unplaced // what waits is no replica less
		if f.Division != nil {
			next.Spread = &f.Division.Ref
			next.Cells = withoutRemoved(f, next.Cells, result.cells)
		}
		if slices.EqualFunc(f.Last.Cells, next.Cells, sameNumbers) {
			break
		}
		f.Last = next
	}
	return result, used, notes, nil
}

func sameNumbers(a, b topology.Cell) bool {
	return idOf(&a) == idOf(&b) && a.Replicas == b.Replicas && a.Leaving == b.Leaving
}

// withCells returns a decision with other cells, which keep what they were lent.
func withCells(base *topology.WorkloadPlacementSpec, cells []topology.Cell) *topology.WorkloadPlacementSpec {
	out := *base
	out.Cells = slices.Clone(cells)
	for i := range out.Cells {
		c := &out.Cells[i]
		if j := slices.IndexFunc(base.Cells, func(had topology.Cell) bool { return idOf(&had) == idOf(c) }); j >= 0 {
			had := &base.Cells[j]
			c.Share, c.Held, c.Frozen, c.Sequence, c.Overrides, c.Adopt = had.Share, had.Held, had.Frozen, had.Sequence, had.Overrides, had.Adopt
		}
	}
	for i := range base.Cells {
		if !slices.ContainsFunc(cells, func(c topology.Cell) bool { return idOf(&c) == idOf(&base.Cells[i]) }) {
			out.Cells = append(out.Cells, base.Cells[i])
		}
	}
	return &out
}

// keepReturned makes pods of members that are back their own again, in place of those that would have to wait for them to go. It
// returns how many.
func keepReturned(places []movingPlace, cells []topology.Cell, waits int32) (kept int32) {
	for i := range places {
		p := &places[i]
		if !p.member.Ready || p.left != "" || p.cell.Shrinks {
			continue
		}
		for _, j := range p.cells {
			c := &cells[j]
			n := min(c.Leaving, waits-kept)
			if n <= 0 {
				continue
			}
			if kept, c.Leaving = kept+n, c.Leaving-n; c.Leaving == 0 {
				c.Reason = topology.Reason{Code: division.CellKept}
			}
		}
	}
	return kept
}

// moves tells whether there is anything to take care of: most of the time there is not.
func moves(f *Facts, cells []topology.Cell) bool {
	if f.Last == nil {
		return false
	}
	return slices.ContainsFunc(f.Last.Cells, func(c topology.Cell) bool { return c.Leaving > 0 }) ||
		slices.ContainsFunc(cells, func(c topology.Cell) bool { return f.left[place{c.Subset, c.Cluster}] != "" })
}

// movingPlace is all that a subset has in one member, with the indexes of its cells.
type movingPlace struct {
	subset string
	member *Member
	left   string // why it is to be left, "" where it is not
	cell   failover.Cell
	cells  []int
}

// placesOf sums the cells of a subset by member.
func placesOf(f *Facts, cells []topology.Cell, subset string) []movingPlace {
	members := map[string]*Member{}
	for i := range f.Members {
		members[f.Members[i].Name] = &f.Members[i]
	}
	byCluster := map[string]*movingPlace{}
	for i := range cells {
		c := &cells[i]
		if c.Subset != subset {
			continue
		}
		p := byCluster[c.Cluster]
		if p == nil {
			p = &movingPlace{subset: subset, member: members[c.Cluster], left: f.left[place{subset, c.Cluster}]}
			p.cell.Key = c.Cluster
			byCluster[c.Cluster] = p
		}
		p.cell.Want += c.Replicas
		p.cells = append(p.cells, i)
	}
	drained := map[string]bool{}
	for i := range f.Last.Cells {
		c := &f.Last.Cells[i]
		if p := byCluster[c.Cluster]; p != nil && c.Subset == subset {
			p.cell.Have += c.Replicas
			p.cell.Leaving += c.Leaving
			drained[c.Cluster] = drained[c.Cluster] || stepwise(c.Reason.Code) || c.Reason.Code == CellShrinking
		}
	}
	lent := lastLent(f)
	var places []movingPlace
	for cluster, p := range byCluster {
		use := f.Reports[cluster].Use[subset]
		m := p.member
		// What is beyond the order that the member follows goes again: a rollout added it.
		p.cell.Available, p.cell.Total = min(use.Available, use.Desired), use.Total
		p.cell.Lost, p.cell.Silent = lost(p.left), !m.Ready
		p.cell.Gradual = !p.cell.Lost && (p.left != "" || m.Ready && p.cell.Leaving > 0 && !drained[cluster])
		if f.rolls(cluster, subset, lent[place{subset, cluster}]) {
			held := confirmed(lent[place{subset, cluster}], f.Reports[cluster].Sequence, use)
			p.cell.MayBreak = max(held.Break-max(use.Desired-use.Available, 0), 0)
			p.cell.MayAdd = max(held.Add-max(use.Total-use.Desired, 0), 0)
		}
		places = append(places, *p)
	}
	slices.SortFunc(places, func(a, b movingPlace) int { return strings.Compare(a.cell.Key, b.cell.Key) })
	return places
}

// confirmed is what a place may still use of what it was lent: what it confirmed a lower share of is not its own any more.
func confirmed(lent lending.Cell, sequence int64, use work.SubsetUse) lending.Amounts {
	if sequence < lent.Sequence {
		return lent.Held
	}
	in := LendingReport(sequence, use).InUse
	return lending.Amounts{
		Break: min(lent.Held.Break, max(lent.Share.Break, in.Break)),
		Add:   min(lent.Held.Add, max(lent.Share.Add, in.Add)),
	}
}

// rolls tells whether a rollout may be going on in a place.
func (f *Facts) rolls(cluster, subset string, lent lending.Cell) bool {
	if f.Last.Revision != f.Workload.Revision {
		return true
	}
	report := f.Reports[cluster]
	use := report.Use[subset]
	return report.Sequence < f.Last.RevisionSequence || use.Updated < min(max(lent.Share.Update, lent.Held.Update), use.Total)
}

// tell writes an order into the cells of a place: those that leave stay where they are, and those that wait are left out.
func (p *movingPlace) tell(f *Facts, cells []topology.Cell, order failover.Order, last map[cellID]*topology.Cell) {
	leaving, waits := order.Leaving, order.Waits
	for _, i := range p.cells {
		c := &cells[i]
		had := last[idOf(c)]
		before := int32(0)
		if had != nil {
			before = had.Replicas
		}
		stay := min(leaving, max(before-c.Replicas, 0))
		wait := min(waits, max(c.Replicas-before, 0))
		leaving, waits = leaving-stay, waits-wait
		c.Replicas, c.Leaving = c.Replicas+stay-wait, stay
		switch {
		case stay > 0:
			c.Reason = p.reason(f, had)
		case had != nil && had.Replicas == c.Replicas && had.Leaving == 0 && had.Reason.Code != CellSubsetRemoved:
			c.Reason = had.Reason
		}
	}
	if leaving > 0 { // its zones are others than before: the first cell has the rest
		c := &cells[p.cells[0]]
		c.Replicas, c.Leaving = c.Replicas+leaving, c.Leaving+leaving
		c.Reason = p.reason(f, cmp.Or(last[idOf(c)], c))
	}
}

// reason is the reason of a cell of which something is leaving.
func (p *movingPlace) reason(f *Facts, had *topology.Cell) topology.Reason {
	if p.cell.Shrinks && p.left == "" {
		return topology.Reason{Code: CellShrinking}
	}
	return lostReason(f, p.subset, p.member, had)
}
