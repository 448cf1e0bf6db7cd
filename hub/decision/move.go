package decision

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/topology/division"
	"github.com/flotilla-dev/flotilla/topology/failover"
	"github.com/flotilla-dev/flotilla/topology/lending"
)

// move turns what the division gives into orders: pods of members that are drained, or that came back, go step by
// step, and those of lost members are left as they are ([failover.Move]); those of places that shrink go as others are
// available ([failover.Clear]). It returns what that uses of each subset's limits.
func move(d *draft, result *divided) map[string]lending.Amounts {
	shrink := shrinks(d, result)
	if !moves(d, result.cells) && len(shrink.at) == 0 {
		return nil
	}
	last := lastCells(d)
	used := map[string]lending.Amounts{}
	var moves []subsetMove
	for i := range d.workload.Subsets {
		subset := &d.workload.Subsets[i]
		if subset.Removed {
			continue
		}
		places := placesOf(d, result.cells, subset.Name)
		if len(places) == 0 {
			continue
		}
		amounts := subset.Amounts(result.subsets[subset.Name])
		limits := failover.Limits{
			Unavailable: amounts.Unavailable,
			Surge:       amounts.Surge,
			NoTwin:      d.noTwin(),
		}
		cells := make([]failover.Cell, len(places))
		for j := range places {
			if c := &places[j].cell; shrink.at[place{subset.Name, c.Key}] {
				c.Shrinks, c.Total = true, max(
					c.Total,
					d.reports[c.Key].Use[subset.Name].Desired,
				) // it may yet make what it was told before
			}
			cells[j] = places[j].cell
		}
		moved := failover.Move(cells, limits)
		used[subset.Name] = lending.Amounts{Unavailable: moved.Unavailable, Surge: moved.Surge}
		moves = append(moves, subsetMove{subset, places, cells, moved.Orders})
	}
	clearAll(d, result, moves, shrink, used, last)
	for _, m := range moves {
		var waits int32
		for j := range m.places {
			m.places[j].tell(d, result.cells, m.orders[j], last)
			waits += m.orders[j].Waits
		}
		waits -= keepReturned(m.places, result.cells, waits)
		if waits > 0 {
			result.unplaced = append(
				result.unplaced,
				topology.Unplaced{Subset: m.subset.Name, Replicas: waits, Reason: topology.Reason{Code: UnplacedMoving}},
			)
		}
	}
	return used
}

// settleRounds bounds how often a decision in the middle of a move is made again.
const settleRounds = 8

// settle divides and moves. In the middle of a move it does so again from its own result until that changes nothing:
// what one step gives to a member can be what another one runs already. So it does for the strategy Adaptive, which
// goes by what is Ready: where fewer are to be, the cells that give are chosen after the subsets.
func settle(d *draft) *kinds.Rejection {
	base := d.last
	defer func() { d.last, d.takenBack = base, nil }()
	for range settleRounds {
		d.takenBack = takeBack(d)
		result, notes, rejection := divideWaiting(d)
		if rejection != nil {
			return rejection
		}
		d.result, d.notes = result, notes
		if d.workload.Adaptive != nil && base != nil && len(d.result.unplaced) > 0 && !d.short {
			// The next decision would see that replicas are missing, and try members again.
			d.short, d.last = true, base
			d.standings = standingsOf(d)
			continue
		}
		d.used = move(d, &d.result)
		if d.used == nil && (d.workload.Adaptive == nil || base == nil) {
			break
		}
		next := withCells(base, d.result.cells)
		next.Unplaced = d.result.unplaced // what waits is no replica less
		if d.facts.Division != nil {
			next.Spread = &d.facts.Division.Ref
			next.Cells = withoutRemoved(d, next.Cells, d.result.cells)
		}
		if slices.EqualFunc(d.last.Cells, next.Cells, sameNumbers) {
			break
		}
		d.last = next
	}
	return nil
}

func sameNumbers(a, b topology.Cell) bool {
	return idOf(&a) == idOf(&b) && a.Replicas == b.Replicas && a.Replaced == b.Replaced
}

// withCells returns a decision with other cells, which keep what they were lent.
func withCells(base *topology.WorkloadPlacementSpec, cells []topology.Cell) *topology.WorkloadPlacementSpec {
	out := *base
	out.Cells = slices.Clone(cells)
	for i := range out.Cells {
		c := &out.Cells[i]
		if j := slices.IndexFunc(base.Cells, func(had topology.Cell) bool { return idOf(&had) == idOf(c) }); j >= 0 {
			had := &base.Cells[j]
			c.Granted, c.Reserved, c.Waiting, c.Sequence, c.Overrides, c.Adoption = had.Granted, had.Reserved, had.Waiting,
				had.Sequence, had.Overrides, had.Adoption
		}
	}
	for i := range base.Cells {
		if !slices.ContainsFunc(cells, func(c topology.Cell) bool { return idOf(&c) == idOf(&base.Cells[i]) }) {
			out.Cells = append(out.Cells, base.Cells[i])
		}
	}
	return &out
}

// keepReturned makes pods of members that are back their own again, in place of those that would have to wait for them
// to go. It returns how many.
func keepReturned(places []movingPlace, cells []topology.Cell, waits int32) (kept int32) {
	for i := range places {
		p := &places[i]
		if !p.member.Ready || p.left != "" || p.cell.Shrinks {
			continue
		}
		for _, j := range p.cells {
			c := &cells[j]
			n := min(c.Replaced, waits-kept)
			if n <= 0 {
				continue
			}
			if kept, c.Replaced = kept+n, c.Replaced-n; c.Replaced == 0 {
				c.Reason = topology.Reason{Code: division.CellKept}
			}
		}
	}
	return kept
}

// moves tells whether there is anything to take care of: most of the time there is not.
func moves(d *draft, cells []topology.Cell) bool {
	if d.last == nil {
		return false
	}
	return slices.ContainsFunc(d.last.Cells, func(c topology.Cell) bool { return c.Replaced > 0 }) ||
		slices.ContainsFunc(cells, func(c topology.Cell) bool { return d.left[place{c.Subset, c.Cluster}] != "" })
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
func placesOf(d *draft, cells []topology.Cell, subset string) []movingPlace {
	members := map[string]*Member{}
	for i := range d.facts.Members {
		members[d.facts.Members[i].Name] = &d.facts.Members[i]
	}
	byCluster := map[string]*movingPlace{}
	for i := range cells {
		c := &cells[i]
		if c.Subset != subset {
			continue
		}
		p := byCluster[c.Cluster]
		if p == nil {
			p = &movingPlace{subset: subset, member: members[c.Cluster], left: d.left[place{subset, c.Cluster}]}
			p.cell.Key = c.Cluster
			byCluster[c.Cluster] = p
		}
		p.cell.Want += c.Replicas
		p.cells = append(p.cells, i)
	}
	drained := map[string]bool{}
	for i := range d.last.Cells {
		c := &d.last.Cells[i]
		if p := byCluster[c.Cluster]; p != nil && c.Subset == subset {
			p.cell.Have += c.Replicas
			p.cell.Replaced += c.Replaced
			drained[c.Cluster] = drained[c.Cluster] || stepwise(c.Reason.Code) || c.Reason.Code == CellShrinking
		}
	}
	lent := lastLent(d)
	var places []movingPlace
	for cluster, p := range byCluster {
		use := d.reports[cluster].Use[subset]
		m := p.member
		// What is beyond the order that the member follows goes again: a rollout added it.
		p.cell.Available, p.cell.Total = min(use.Available, use.Desired), use.Total
		p.cell.Lost, p.cell.Silent = lost(p.left), !m.Ready
		p.cell.Gradual = !p.cell.Lost && (p.left != "" || m.Ready && p.cell.Replaced > 0 && !drained[cluster])
		if d.rolls(cluster, subset, lent[place{subset, cluster}]) {
			held := confirmed(lent[place{subset, cluster}], d.reports[cluster].Sequence, use)
			p.cell.MayDisrupt = max(held.Unavailable-max(use.Desired-use.Available, 0), 0)
			p.cell.MaySurge = max(held.Surge-max(use.Total-use.Desired, 0), 0)
		}
		places = append(places, *p)
	}
	slices.SortFunc(places, func(a, b movingPlace) int { return strings.Compare(a.cell.Key, b.cell.Key) })
	return places
}

// confirmed is what a place may still use of what it was lent: what it confirmed a lower share of is not its own any
// more.
func confirmed(lent lending.Cell, sequence int64, use work.SubsetUse) lending.Amounts {
	if sequence < lent.Sequence {
		return lent.Reserved
	}
	in := LendingReport(sequence, use).InUse
	return lending.Amounts{
		Unavailable: min(lent.Reserved.Unavailable, max(lent.Granted.Unavailable, in.Unavailable)),
		Surge:       min(lent.Reserved.Surge, max(lent.Granted.Surge, in.Surge)),
	}
}

// rolls tells whether a rollout may be going on in a place.
func (d *draft) rolls(cluster, subset string, lent lending.Cell) bool {
	if d.last.Revision != d.workload.Revision {
		return true
	}
	report := d.reports[cluster]
	use := report.Use[subset]
	return report.Sequence < d.last.RevisionSequence ||
		use.Updated < min(max(lent.Granted.Updated, lent.Reserved.Updated), use.Total)
}

// tell writes an order into the cells of a place: those that leave stay where they are, and those that wait are left
// out.
func (p *movingPlace) tell(d *draft, cells []topology.Cell, order failover.Order, last map[cellID]*topology.Cell) {
	leaving, waits := order.Replaced, order.Waits
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
		c.Replicas, c.Replaced = c.Replicas+stay-wait, stay
		switch {
		case stay > 0:
			c.Reason = p.reason(d, had)
		case had != nil && had.Replicas == c.Replicas && had.Replaced == 0 && had.Reason.Code != CellSubsetRemoved:
			c.Reason = had.Reason
		}
	}
	if leaving > 0 { // its zones are others than before: the first cell has the rest
		c := &cells[p.cells[0]]
		c.Replicas, c.Replaced = c.Replicas+leaving, c.Replaced+leaving
		c.Reason = p.reason(d, cmp.Or(last[idOf(c)], c))
	}
}

// reason is the reason of a cell of which something is leaving.
func (p *movingPlace) reason(d *draft, had *topology.Cell) topology.Reason {
	if p.cell.Shrinks && p.left == "" {
		return topology.Reason{Code: CellShrinking}
	}
	return lostReason(d, p.subset, p.member, had)
}

// Cells can be to have fewer though as many replicas are to run: subsets have other numbers, one more subset takes a
// part, a bound became lower, or a drain was taken back in the middle. Of what is too many there as many available
// pods stay as others lack ([failover.Clear]); the rest goes at once, and so does as much as the replicas became
// fewer. With the strategy Adaptive, and by the subsets of a divider, all goes at once.

// shrinking is what a decision takes from places that are not left.
type shrinking struct {
	// at are the places with pods that are too many.
	at map[place]bool
	// stay is how many pods may stay in them: those that stay already, and those that go for another reason than that
	// fewer are to run.
	stay int32
}

// shrinks finds the places that are to have fewer pods while others may lack some.
func shrinks(d *draft, result *divided) shrinking {
	if d.last == nil || d.workload.Adaptive != nil || d.facts.Division != nil {
		return shrinking{}
	}
	s := shrinking{at: map[place]bool{}}
	waits, fewer := false, -d.workload.Replicas
	for _, u := range d.last.Unplaced {
		waits, fewer = waits || u.Reason.Code == UnplacedMoving, fewer+u.Replicas
	}
	away := d.away()
	var goes int32
	keeps, holds := false, false // something may stay; others wait for what stays, or is on its way out
	for at, n := range numbersOf(d, result) {
		fewer += n.number
		above, use := max(n.have-n.want, 0), d.reports[at.cluster].Use[at.subset]
		stays := min(n.leaving, above)
		switch {
		case !n.stands || d.left[at] != "" || n.other:
		case away[at.cluster]:
			if stays > 0 {
				s.at[at], holds = true, true
			}
		default:
			s.stay, goes = s.stay+stays, goes+above-stays
			keeps = keeps || above > 0 && (stays > 0 || min(use.Available, use.Desired, n.have) > n.want)
			s.at[at] = above > 0
			if waits && max(use.Total, use.Desired) > max(n.have, n.want) {
				s.at[at], holds = true, true
			}
		}
	}
	s.stay += max(goes-max(fewer, 0), 0)
	if (s.stay == 0 || !keeps) && !holds {
		return shrinking{}
	}
	return s
}

// placeNumbers is what a place has, what of that leaves, its number without that, and what it is to have, if it stands
// at all. other: what leaves there does so for another reason than that it shrinks, or was left step by step before.
type placeNumbers struct {
	have, leaving, number, want int32
	stands, other               bool
}

// numbersOf sums the last decision, and what is to be, by place.
func numbersOf(d *draft, result *divided) map[place]placeNumbers {
	numbers := map[place]placeNumbers{}
	for i := range d.last.Cells {
		c := &d.last.Cells[i]
		n := numbers[place{c.Subset, c.Cluster}]
		n.have, n.leaving, n.number = n.have+c.Replicas, n.leaving+c.Replaced, n.number+c.Replicas-c.Replaced
		n.other = n.other || c.Replaced > 0 && c.Reason.Code != CellShrinking && !stepwise(c.Reason.Code)
		numbers[place{c.Subset, c.Cluster}] = n
	}
	for i := range result.cells {
		c := &result.cells[i]
		n := numbers[place{c.Subset, c.Cluster}]
		n.want, n.stands = n.want+c.Replicas, true
		numbers[place{c.Subset, c.Cluster}] = n
	}
	return numbers
}

// clearAll orders what is left of removed subsets, and what stays in places that shrink, and lets the others grow no
// further than the limits permit. It adds what that uses of the limits of subsets that shrink.
func clearAll(
	d *draft,
	result *divided,
	moves []subsetMove,
	shrink shrinking,
	used map[string]lending.Amounts,
	last map[cellID]*topology.Cell,
) {
	limits := failover.Limits{NoTwin: d.noTwin()}
	var places []movingPlace
	for i := range d.workload.Subsets {
		s := &d.workload.Subsets[i]
		if !s.Removed {
			continue
		}
		may := s.Amounts(0)
		limits.Unavailable, limits.Surge = limits.Unavailable+may.Unavailable, limits.Surge+may.Surge
		places = append(places, placesOf(d, result.cells, s.Name)...)
	}
	free := lending.Amounts{
		Unavailable: limits.Unavailable,
		Surge:       limits.Surge,
	} // nobody else uses the limits of what is removed
	parts := make([]failover.Part, len(moves))
	own := map[string]lending.Amounts{}
	for i := range moves {
		m := &moves[i]
		parts[i] = failover.Part{Cells: m.cells, Orders: m.orders}
		if slices.ContainsFunc(m.cells, func(c failover.Cell) bool { return c.Shrinks }) {
			may := m.subset.Amounts(result.subsets[m.subset.Name])
			limits.Unavailable, limits.Surge = limits.Unavailable+may.Unavailable, limits.Surge+may.Surge
			own[m.subset.Name] = may
		}
	}
	if len(places) == 0 && len(own) == 0 {
		return
	}
	var gone []failover.Cell
	for i := range places {
		gone = append(gone, places[i].cell)
	}
	rest := failover.Rest{Stay: shrink.stay}
	for i := range result.unplaced {
		rest.Unplaced += result.unplaced[i].Replicas
	}
	cleared := failover.Clear(gone, parts, rest, limits)
	for i := range places {
		places[i].tell(d, result.cells, cleared.Orders[i], last)
		result.subsets[places[i].subset] += cleared.Orders[i].Replicas
	}
	left := lending.Amounts{
		Unavailable: max(cleared.Unavailable-free.Unavailable, 0),
		Surge:       max(cleared.Surge-free.Surge, 0),
	}
	for i := range moves {
		name := moves[i].subset.Name
		may := own[name]
		take := lending.Amounts{Unavailable: min(left.Unavailable, may.Unavailable), Surge: min(left.Surge, may.Surge)}
		left = lending.Amounts{Unavailable: left.Unavailable - take.Unavailable, Surge: left.Surge - take.Surge}
		used[name] = lending.Amounts{
			Unavailable: max(used[name].Unavailable, take.Unavailable),
			Surge:       max(used[name].Surge, take.Surge),
		}
	}
}

// shrinkNotes say what runs on in places that shrink.
func shrinkNotes(spec *topology.WorkloadPlacementSpec) []Note {
	var n int32
	var clusters []string
	for i := range spec.Cells {
		if c := &spec.Cells[i]; c.Replaced > 0 && c.Reason.Code == CellShrinking {
			n, clusters = n+c.Replaced, append(clusters, c.Cluster)
		}
	}
	if n == 0 {
		return nil
	}
	slices.Sort(clusters)
	return []Note{
		{
			Reason: Placed,
			Message: fmt.Sprintf(
				"%d pods run on in %s above the numbers there; they go as others are available",
				n,
				nameColumn(slices.Compact(clusters)),
			),
		},
	}
}
