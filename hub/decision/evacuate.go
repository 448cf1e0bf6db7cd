package decision

import (
	"fmt"
	"slices"
	"strings"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/topology/division"
	"github.com/flotilla-dev/flotilla/topology/failover"
	"github.com/flotilla-dev/flotilla/topology/lending"
)

// leftPlaces are the places whose replicas are to be elsewhere, each with the reason that a cell there gets: the
// member is lost or drained, the policy no longer selects it, it no longer matches the subset, or the workload has the
// subset no more. Where nobody matches a subset any more, as after a slip of the pen, what runs of it stays.
func leftPlaces(d *draft) map[place]string {
	left, last := map[place]string{}, lastCells(d)
	for i := range d.workload.Subsets {
		subset := &d.workload.Subsets[i]
		matched := slices.ContainsFunc(
			d.facts.Members,
			func(m Member) bool { return m.Selected && d.matches(subset, &m, last) },
		)
		for j := range d.facts.Members {
			m := &d.facts.Members[j]
			at := place{subset.Name, m.Name}
			switch {
			case subset.Removed && last[cellID{subset: subset.Name, cluster: m.Name}] == nil:
			case m.Lost:
				left[at] = CellLost
			case subset.Removed && (m.Selected || m.Ready || d.facts.Failover.Mode == topology.FailoverFence):
				left[at] = CellSubsetRemoved
			case m.Taint == division.NoExecute:
				left[at] = CellDraining
			case !matched:
			case !m.Selected && !m.Ready && !d.noTwin():
				left[at] = CellAbandoned
			case !m.Selected:
				left[at] = CellExcluded
			case !d.matches(subset, m, last):
				left[at] = CellUnmatched
			}
		}
	}
	return left
}

// matches tells whether a member can have pods of a subset. One that is not Ready keeps its cell even if its zones are
// not known now.
func (d *draft) matches(subset *kinds.Subset, m *Member, last map[cellID]*topology.Cell) bool {
	switch {
	case d.facts.Division != nil && d.workload.Open:
		part := func(part kinds.Subset) bool { return MatchTerm(&part.Term, m).OK }
		return !m.Ready || holdsRemoved(d, m) || slices.ContainsFunc(d.facts.Division.Parts, part)
	case d.workload.Open:
		return true
	case !m.Ready && last[cellID{subset: subset.Name, cluster: m.Name}] != nil:
		return true
	}
	return MatchTerm(&subset.Term, m).OK
}

// leftBy is the taint by which the division sees a place: others are to have what is there, as with a taint that
// drives everything out. What nobody takes stays.
func (d *draft) leftBy(subset string, m *Member) division.Effect {
	if d.left[place{subset, m.Name}] != "" {
		return division.NoExecute
	}
	return m.Taint
}

// lost tells whether others are to start what a place has without waiting for it: nobody hears of its member, and the
// policy's failover gives it up, or a person took it out. With Fence only what is known to be gone is replaced.
func lost(code string) bool { return code == CellLost || code == CellAbandoned }

// dismissed tells whether a person's change, and not a state of the member, makes a place be left: its cell goes with
// its last pod.
func dismissed(code string) bool {
	return code == CellExcluded || code == CellAbandoned || code == CellUnmatched || code == CellSubsetRemoved
}

// stepwise tells whether a reason says that a place was left as others got available: what it has of its number is its
// own again when it is left no more.
func stepwise(code string) bool {
	return code == CellDraining || code == CellExcluded || code == CellUnmatched || code == CellSubsetRemoved
}

// markDismissed gives the cells that keep what nobody takes the reason why they were to be left.
func (d *draft) markDismissed(cells []topology.Cell) {
	for i := range cells {
		c := &cells[i]
		if code := d.left[place{c.Subset, c.Cluster}]; dismissed(code) && c.Replicas > 0 {
			c.Reason = topology.Reason{Code: code}
		}
	}
}

// withoutDismissed leaves out the cells of places that are dismissed and have no replicas any more. A member that was
// drained, and then is selected no more, as one that leaves, is dismissed as well: its taint says the reason why it is
// left, and keeps no cell.
func (d *draft) withoutDismissed(cells []topology.Cell) []topology.Cell {
	selected := map[string]bool{}
	for i := range d.facts.Members {
		selected[d.facts.Members[i].Name] = d.facts.Members[i].Selected
	}
	has := map[place]int32{}
	for i := range cells {
		has[place{cells[i].Subset, cells[i].Cluster}] += cells[i].Replicas
	}
	return slices.DeleteFunc(cells, func(c topology.Cell) bool {
		at := place{c.Subset, c.Cluster}
		return has[at] == 0 && (dismissed(d.left[at]) || d.left[at] == CellDraining && !selected[c.Cluster])
	})
}

// dismissedNotes say what stays in members that are to be left, because nobody takes it.
func dismissedNotes(d *draft, spec *topology.WorkloadPlacementSpec) []Note {
	stays, codes := map[string]int32{}, map[string]string{}
	var clusters []string
	for i := range spec.Cells {
		c := &spec.Cells[i]
		code := d.left[place{c.Subset, c.Cluster}]
		if n := c.Replicas - c.Replaced; n > 0 && dismissed(code) {
			clusters, codes[c.Cluster] = append(clusters, c.Cluster), code
			stays[c.Cluster] += n
		}
	}
	slices.Sort(clusters)
	var notes []Note
	for _, cluster := range slices.Compact(clusters) {
		why := "which " + PolicyName(&d.facts.Policy) + " no longer selects, or which is not accepted any more"
		if codes[cluster] == CellUnmatched {
			why = "which no longer matches their subset"
		}
		notes = append(notes, Note{Reason: Placed, Message: fmt.Sprintf(
			"%d replicas stay in member %s, %s, because no other member takes them; add nodes or members, or raise a bound",
			stays[cluster],
			cluster,
			why,
		)})
	}
	return notes
}

// away are the members that are not heard of.
func (d *draft) away() map[string]bool {
	away := map[string]bool{}
	for i := range d.facts.Members {
		away[d.facts.Members[i].Name] = !d.facts.Members[i].Ready
	}
	return away
}

// counted is what the division takes a cell to have: what its member was told, without what others stand in for. A
// member that is to be left, and one that was to be left step by step and is no more, counts with all that it has.
func (d *draft) counted(m *Member, had *topology.Cell) int32 {
	switch {
	case had == nil:
		return 0
	case d.left[place{had.Subset, m.Name}] != "", stepwise(had.Reason.Code):
		return had.Replicas
	}
	return had.Replicas - had.Replaced + d.takenBack[idOf(had)]
}

// takeBack gives members that are back what others stand in for and do not run: pods that run are better than pods
// that are to start. It returns by how much the division's start differs from the last decision.
func takeBack(d *draft) map[cellID]int32 {
	if d.last == nil || !slices.ContainsFunc(d.last.Cells, func(c topology.Cell) bool { return c.Replaced > 0 }) {
		return nil
	}
	members := map[string]*Member{}
	for i := range d.facts.Members {
		members[d.facts.Members[i].Name] = &d.facts.Members[i]
	}
	back := map[cellID]int32{}
	for i := range d.workload.Subsets {
		takeBackSubset(d, d.workload.Subsets[i].Name, members, back)
	}
	return back
}

func takeBackSubset(d *draft, subset string, members map[string]*Member, back map[cellID]int32) {
	here := map[string]int32{} // what a member that is back runs beyond its number, and what the others miss
	missing := map[string]int32{}
	for i := range d.last.Cells {
		c := &d.last.Cells[i]
		m := members[c.Cluster]
		if c.Subset != subset || m == nil || !m.Ready || d.left[place{subset, c.Cluster}] != "" {
			continue
		}
		available := d.reports[c.Cluster].Use[subset].Available
		if c.Replaced > 0 && !stepwise(c.Reason.Code) && c.Reason.Code != CellShrinking {
			if _, known := here[c.Cluster]; !known {
				here[c.Cluster] = available
			}
			here[c.Cluster] -= c.Replicas - c.Replaced
		} else {
			if _, known := missing[c.Cluster]; !known {
				missing[c.Cluster] = -available
			}
			missing[c.Cluster] += c.Replicas - c.Replaced
		}
	}
	for i := range d.last.Cells {
		c := &d.last.Cells[i]
		take := min(c.Replaced, here[c.Cluster])
		if c.Subset != subset || take <= 0 {
			continue
		}
		for j := range d.last.Cells {
			o := &d.last.Cells[j]
			if n := min(take, missing[o.Cluster], o.Replicas-o.Replaced+back[idOf(o)]); o.Subset == subset && n > 0 &&
				o.Cluster != c.Cluster {
				back[idOf(c)], back[idOf(o)] = back[idOf(c)]+n, back[idOf(o)]-n
				take, here[c.Cluster], missing[o.Cluster] = take-n, here[c.Cluster]-n, missing[o.Cluster]-n
			}
		}
	}
}

// moveNotes say what others stand in for, and what waits for its place.
func moveNotes(d *draft, spec *topology.WorkloadPlacementSpec) []Note {
	var notes []Note
	leaving := map[string]int32{}
	var clusters []string
	for i := range spec.Cells {
		c := &spec.Cells[i]
		if c.Replaced == 0 || c.Reason.Code == CellSubsetRemoved || c.Reason.Code == CellShrinking {
			continue
		}
		if leaving[c.Cluster] == 0 {
			clusters = append(clusters, c.Cluster)
		}
		leaving[c.Cluster] += c.Replaced
	}
	slices.Sort(clusters)
	for _, cluster := range slices.Compact(clusters) {
		i := slices.IndexFunc(d.facts.Members, func(m Member) bool { return m.Name == cluster })
		text := fmt.Sprintf("others stand in for %d replicas of member %s", leaving[cluster], cluster)
		switch m := &d.facts.Members[i]; {
		case m.Lost:
			text += ", which counts as lost"
		case !m.Ready:
			text += ", which is not heard of"
		default:
			text += "; they go there as the others are available"
		}
		notes = append(notes, Note{Reason: Placed, Message: text})
	}
	for _, u := range spec.Unplaced {
		if u.Reason.Code == UnplacedMoving && !d.workload.Alone {
			notes = append(
				notes,
				Note{
					Reason:  Placed,
					Message: fmt.Sprintf("%d replicas move, and start as the pods that they replace are gone", u.Replicas),
				},
			)
		}
	}
	return notes
}

// lostReason is the reason of a cell whose pods others stand in for.
func lostReason(d *draft, subset string, m *Member, had *topology.Cell) topology.Reason {
	switch code := d.left[place{subset, m.Name}]; {
	case code == CellLost:
		return topology.Reason{Code: CellLost, Params: map[string]string{ParamAfter: d.facts.Failover.After}}
	case code != "":
		return topology.Reason{Code: code}
	case !m.Ready && had != nil && had.Replaced > 0:
		return had.Reason // it is not heard of again, and not lost yet
	}
	return topology.Reason{Code: CellReturned}
}

// Subsets that a workload has no more are left step by step: their cells stay, get nothing, and give up pods as others
// get available in the subsets that are left ([failover.Clear]), within the limits that the removed subset had.
// Nothing of them is updated meanwhile.

// removedSubsets are those that the last decision had and the workload has no more, and of which something may still
// run.
func removedSubsets(d *draft) []kinds.Subset {
	if d.last == nil || d.workload.Open {
		return nil
	}
	var removed []kinds.Subset
	for i := range d.last.Cells {
		c := &d.last.Cells[i]
		known := func(s kinds.Subset) bool { return s.Name == c.Subset }
		if c.Subset == "" || slices.ContainsFunc(d.workload.Subsets, known) || slices.ContainsFunc(removed, known) ||
			emptied(d, c) ||
			!slices.ContainsFunc(d.facts.Members, func(m Member) bool { return m.Name == c.Cluster }) {
			continue
		}
		var may lending.Amounts
		if at := slices.IndexFunc(d.last.Limits, func(l topology.SubsetLimits) bool { return l.Subset == c.Subset }); at >= 0 {
			may.Unavailable, may.Surge = d.last.Limits[at].Unavailable, d.last.Limits[at].Surge
		}
		removed = append(removed, kinds.Subset{
			Subset: division.Subset{Name: c.Subset}, Removed: true, Amounts: func(int32) lending.Amounts { return may },
		})
	}
	return removed
}

// removedCells are the cells of removed subsets, with nothing that they are to have.
func removedCells(d *draft, last map[cellID]*topology.Cell) []topology.Cell {
	var cells []topology.Cell
	for i := range d.workload.Subsets {
		s := &d.workload.Subsets[i]
		for j := 0; s.Removed && j < len(d.facts.Members); j++ {
			if had := last[cellID{subset: s.Name, cluster: d.facts.Members[j].Name}]; had != nil {
				cells = append(
					cells,
					topology.Cell{
						Subset:  s.Name,
						Cluster: had.Cluster,
						Zone:    had.Zone,
						Reason:  topology.Reason{Code: CellSubsetRemoved},
					},
				)
			}
		}
	}
	return cells
}

// leavingRoom is how many pods of removed subsets take room in some zones of a member, all if names is empty: others
// get it.
func leavingRoom(d *draft, m *Member, names []string) int32 {
	var n int32
	for i := 0; d.last != nil && i < len(d.last.Cells); i++ {
		c := &d.last.Cells[i]
		in := len(names) == 0 || slices.Contains(names, c.Zone) || c.Zone == "" && len(names) == len(namedZones(m.Zones))
		if c.Cluster == m.Name && in &&
			slices.ContainsFunc(d.workload.Subsets, func(s kinds.Subset) bool { return s.Removed && s.Name == c.Subset }) {
			n += there(d, m, c.Subset)
		}
	}
	return n
}

// subsetMove is what a subset moves.
type subsetMove struct {
	subset *kinds.Subset
	places []movingPlace
	cells  []failover.Cell
	orders []failover.Order
}

// removedNotes say what is left of removed subsets.
func removedNotes(d *draft, spec *topology.WorkloadPlacementSpec) []Note {
	var notes []Note
	for i := range d.workload.Subsets {
		s := &d.workload.Subsets[i]
		if !s.Removed {
			continue
		}
		var n int32
		var clusters []string
		for j := range spec.Cells {
			if c := &spec.Cells[j]; c.Subset == s.Name && c.Replicas > 0 {
				n, clusters = n+c.Replicas, append(clusters, c.Cluster)
			}
		}
		if n == 0 {
			continue
		}
		slices.Sort(clusters)
		message := fmt.Sprintf(
			"%d pods of subset %s, which was removed, run on in %s; they go as others are available in the subsets that are "+
				"left",
			n,
			s.Name,
			nameColumn(slices.Compact(clusters)),
		)
		if slices.ContainsFunc(spec.Unplaced, func(u topology.Unplaced) bool { return u.Reason.Code != UnplacedMoving }) {
			message += "; as many stay as those have no place for: " + strings.Join(
				[]string{"raise a bound", "add nodes or members", "or lower the replicas"},
				", ",
			)
		}
		notes = append(notes, Note{Reason: Placed, Message: message})
	}
	return notes
}
