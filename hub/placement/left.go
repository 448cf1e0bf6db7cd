package placement

import (
	"fmt"
	"slices"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/topology/division"
)

// leftPlaces are the places whose replicas are to be elsewhere, each with the reason that a cell there gets: the member is lost or
// drained, the policy no longer selects it, it no longer matches the subset, or the workload has the subset no more. Where nobody matches a subset any more, as after a slip
// of the pen, what runs of it stays.
func leftPlaces(f *Facts) map[place]string {
	left, last := map[place]string{}, lastCells(f)
	for i := range f.Workload.Subsets {
		subset := &f.Workload.Subsets[i]
		matched := slices.ContainsFunc(f.Members, func(m Member) bool { return m.Selected && f.matches(subset, &m, last) })
		for j := range f.Members {
			m := &f.Members[j]
			at := place{subset.Name, m.Name}
			switch {
			case subset.Removed && last[cellID{subset: subset.Name, cluster: m.Name}] == nil:
			case m.Lost:
				left[at] = CellLost
			case subset.Removed && (m.Selected || m.Ready || f.Failover.Mode == topology.FailoverFence):
				left[at] = CellSubsetRemoved
			case m.Taint == division.NoExecute:
				left[at] = CellDraining
			case !matched:
			case !m.Selected && !m.Ready && f.Failover.Mode != topology.FailoverFence:
				left[at] = CellAbandoned
			case !m.Selected:
				left[at] = CellExcluded
			case !f.matches(subset, m, last):
				left[at] = CellUnmatched
			}
		}
	}
	return left
}

// matches tells whether a member can have pods of a subset. One that is not Ready keeps its cell even if its zones are not known now.
func (f *Facts) matches(subset *kinds.Subset, m *Member, last map[cellID]*topology.Cell) bool {
	switch {
	case f.Division != nil && f.Workload.Open:
		part := func(part kinds.Subset) bool { return matchTerm(&part.Term, m).ok }
		return !m.Ready || holdsRemoved(f, m) || slices.ContainsFunc(f.Division.Parts, part)
	case f.Workload.Open:
		return true
	case !m.Ready && last[cellID{subset: subset.Name, cluster: m.Name}] != nil:
		return true
	}
	return matchTerm(&subset.Term, m).ok
}

// leftBy is the taint by which the division sees a place: others are to have what is there, as with a taint that drives everything
// out. What nobody takes stays.
func (f *Facts) leftBy(subset string, m *Member) division.Effect {
	if f.left[place{subset, m.Name}] != "" {
		return division.NoExecute
	}
	return m.Taint
}

// lost tells whether others are to start what a place has without waiting for it: nobody hears of its member, and the policy's failover
// gives it up, or a person took it out. With Fence only what is known to be gone is replaced.
func lost(code string) bool { return code == CellLost || code == CellAbandoned }

// dismissed tells whether a person's change, and not a state of the member, makes a place be left: its cell goes with its last pod.
func dismissed(code string) bool {
	return code == CellExcluded || code == CellAbandoned || code == CellUnmatched || code == CellSubsetRemoved
}

// stepwise tells whether a reason says that a place was left as others got available: what it has of its number is its own again when
// it is left no more.
func stepwise(code string) bool {
	return code == CellDraining || code == CellExcluded || code == CellUnmatched || code == CellSubsetRemoved
}

// markDismissed gives the cells that keep what nobody takes the reason why they were to be left.
func (f *Facts) markDismissed(cells []topology.Cell) {
	for i := range cells {
		c := &cells[i]
		if code := f.left[place{c.Subset, c.Cluster}]; dismissed(code) && c.Replicas > 0 {
			c.Reason = topology.Reason{Code: code}
		}
	}
}

// withoutDismissed leaves out the cells of places that are dismissed and have no replicas any more. A member that was drained, and then is selected
// no more, as one that leaves, is dismissed as well: its taint says the reason why it is left, and keeps no cell.
func (f *Facts) withoutDismissed(cells []topology.Cell) []topology.Cell {
	selected := map[string]bool{}
	for i := range f.Members {
		selected[f.Members[i].Name] = f.Members[i].Selected
	}
	has := map[place]int32{}
	for i := range cells {
		has[place{cells[i].Subset, cells[i].Cluster}] += cells[i].Replicas
	}
	return slices.DeleteFunc(cells, func(c topology.Cell) bool {
		at := place{c.Subset, c.Cluster}
		return has[at] == 0 && (dismissed(f.left[at]) || f.left[at] == CellDraining && !selected[c.Cluster])
	})
}

// dismissedNotes say what stays in members that are to be left, because nobody takes it.
func dismissedNotes(f *Facts, spec *topology.WorkloadPlacementSpec) []Note {
	stays, codes := map[string]int32{}, map[string]string{}
	var clusters []string
	for i := range spec.Cells {
		c := &spec.Cells[i]
		code := f.left[place{c.Subset, c.Cluster}]
		if n := c.Replicas - c.Leaving; n > 0 && dismissed(code) {
			clusters, codes[c.Cluster] = append(clusters, c.Cluster), code
			stays[c.Cluster] += n
		}
	}
	slices.Sort(clusters)
	var notes []Note
	for _, cluster := range slices.Compact(clusters) {
		why := "which " + policyName(&f.Policy) + " no longer selects, or which is not accepted any more"
		if codes[cluster] == CellUnmatched {
			why = "which no longer matches their subset"
		}
		notes = append(notes, Note{Reason: Placed, Message: fmt.Sprintf(
			"%d replicas stay in member %s, %s, because no other member takes them; add nodes or members, or raise a bound", stays[cluster], cluster, why)})
	}
	return notes
}
