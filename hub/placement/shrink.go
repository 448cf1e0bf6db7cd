package placement

import (
	"fmt"
	"slices"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/topology/failover"
	"github.com/flotilla-dev/flotilla/topology/lending"
)

// Cells can be to have fewer though as many replicas are to run: subsets have other numbers, one more subset takes a part, a bound became
// lower, or a drain was taken back in the middle. Of what is too many there as many available pods stay as others lack
// ([failover.Clear]); the rest goes at once, and so does as much as the replicas became fewer. With the strategy Adaptive, and by the
// subsets of a WorkloadSpread, all goes at once.

// shrinking is what a decision takes from places that are not left.
type shrinking struct {
	// at are the places with pods that are too many.
	at map[place]bool
	// stay is how many pods may stay in them: those that stay already, and those that go for another reason than that fewer are to run.
	stay int32
}

// shrinks finds the places that are to have fewer pods while others may lack some.
func shrinks(f *Facts, result *divided) shrinking {
	if f.Last == nil || f.Workload.Adaptive != nil || f.Division != nil {
		return shrinking{}
	}
	s := shrinking{at: map[place]bool{}}
	waits, fewer := false, -f.Workload.Replicas
	for _, u := range f.Last.Unplaced {
		waits, fewer = waits || u.Reason.Code == UnplacedMoving, fewer+u.Replicas
	}
	away := f.away()
	var goes int32
	keeps, holds := false, false // something may stay; others wait for what stays, or is on its way out
	for at, n := range numbersOf(f, result) {
		fewer += n.number
		above, use := max(n.have-n.want, 0), f.Reports[at.cluster].Use[at.subset]
		stays := min(n.leaving, above)
		switch {
		case !n.stands || f.left[at] != "" || n.other:
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

// placeNumbers is what a place has, what of that leaves, its number without that, and what it is to have, if it stands at all. other: what
// leaves there does so for another reason than that it shrinks, or was left step by step before.
type placeNumbers struct {
	have, leaving, number, want int32
	stands, other               bool
}

// numbersOf sums the last decision, and what is to be, by place.
func numbersOf(f *Facts, result *divided) map[place]placeNumbers {
	numbers := map[place]placeNumbers{}
	for i := range f.Last.Cells {
		c := &f.Last.Cells[i]
		n := numbers[place{c.Subset, c.Cluster}]
		n.have, n.leaving, n.number = n.have+c.Replicas, n.leaving+c.Leaving, n.number+c.Replicas-c.Leaving
		n.other = n.other || c.Leaving > 0 && c.Reason.Code != CellShrinking && !stepwise(c.Reason.Code)
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

// clearAll orders what is left of removed subsets, and what stays in places that shrink, and lets the others grow no further than the
// limits permit. It adds what that uses of the limits of subsets that shrink.
func clearAll(f *Facts, result *divided, moves []subsetMove, shrink shrinking, used map[string]lending.Amounts, last map[cellID]*topology.Cell) {
	limits := failover.Limits{NoTwin: f.Failover.Mode == topology.FailoverFence}
	var places []movingPlace
	for i := range f.Workload.Subsets {
		s := &f.Workload.Subsets[i]
		if !s.Removed {
			continue
		}
		may := s.Amounts(0)
		limits.Unavailable, limits.Surge = limits.Unavailable+may.Break, limits.Surge+may.Add
		places = append(places, placesOf(f, result.cells, s.Name)...)
	}
	free := lending.Amounts{Break: limits.Unavailable, Add: limits.Surge} // nobody else uses the limits of what is removed
	parts := make([]failover.Part, len(moves))
	own := map[string]lending.Amounts{}
	for i := range moves {
		m := &moves[i]
		parts[i] = failover.Part{Cells: m.cells, Orders: m.orders}
		if slices.ContainsFunc(m.cells, func(c failover.Cell) bool { return c.Shrinks }) {
			may := m.subset.Amounts(result.subsets[m.subset.Name])
			limits.Unavailable, limits.Surge = limits.Unavailable+may.Break, limits.Surge+may.Add
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
		places[i].tell(f, result.cells, cleared.Orders[i], last)
		result.subsets[places[i].subset] += cleared.Orders[i].Replicas
	}
	left := lending.Amounts{Break: max(cleared.Break-free.Break, 0), Add: max(cleared.Add-free.Add, 0)}
	for i := range moves {
		name := moves[i].subset.Name
		may := own[name]
		take := lending.Amounts{Break: min(left.Break, may.Break), Add: min(left.Add, may.Add)}
		left = lending.Amounts{Break: left.Break - take.Break, Add: left.Add - take.Add}
		used[name] = lending.Amounts{Break: max(used[name].Break, take.Break), Add: max(used[name].Add, take.Add)}
	}
}

// shrinkNotes say what runs on in places that shrink.
func shrinkNotes(spec *topology.WorkloadPlacementSpec) []Note {
	var n int32
	var clusters []string
	for i := range spec.Cells {
		if c := &spec.Cells[i]; c.Leaving > 0 && c.Reason.Code == CellShrinking {
			n, clusters = n+c.Leaving, append(clusters, c.Cluster)
		}
	}
	if n == 0 {
		return nil
	}
	slices.Sort(clusters)
	return []Note{{Reason: Placed, Message: fmt.Sprintf("%d pods run on in %s above the numbers there; they go as others are available", n, nameColumn(slices.Compact(clusters)))}}
}
