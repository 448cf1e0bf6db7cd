package placement

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

// Subsets that a workload has no more are left step by step: their cells stay, get nothing, and give up pods as others get available
// in the subsets that are left ([failover.Clear]), within the limits that the removed subset had. Nothing of them is updated meanwhile.

// removedSubsets are those that the last decision had and the workload has no more, and of which something may still run.
func removedSubsets(f *Facts) []kinds.Subset {
	if f.Last == nil || f.Workload.Open {
		return nil
	}
	var removed []kinds.Subset
	for i := range f.Last.Cells {
		c := &f.Last.Cells[i]
		known := func(s kinds.Subset) bool { return s.Name == c.Subset }
		if c.Subset == "" || slices.ContainsFunc(f.Workload.Subsets, known) || slices.ContainsFunc(removed, known) || emptied(f, c) ||
			!slices.ContainsFunc(f.Members, func(m Member) bool { return m.Name == c.Cluster }) {
			continue
		}
		var may lending.Amounts
		if at := slices.IndexFunc(f.Last.Limits, func(l topology.SubsetLimits) bool { return l.Subset == c.Subset }); at >= 0 {
			may.Break, may.Add = f.Last.Limits[at].Break, f.Last.Limits[at].Add
		}
		removed = append(removed, kinds.Subset{
			Subset: division.Subset{Name: c.Subset}, Removed: true, Amounts: func(int32) lending.Amounts { return may },
		})
	}
	return removed
}

// removedCells are the cells of removed subsets, with nothing that they are to have.
func removedCells(f *Facts, last map[cellID]*topology.Cell) []topology.Cell {
	var cells []topology.Cell
	for i := range f.Workload.Subsets {
		s := &f.Workload.Subsets[i]
		for j := 0; s.Removed && j < len(f.Members); j++ {
			if had := last[cellID{subset: s.Name, cluster: f.Members[j].Name}]; had != nil {
				cells = append(cells, topology.Cell{Subset: s.Name, Cluster: had.Cluster, Zone: had.Zone, Reason: topology.Reason{Code: CellSubsetRemoved}})
			}
		}
	}
	return cells
}

// leavingRoom is how many pods of removed subsets take room in some zones of a member, all if names is empty: others get it.
func leavingRoom(f *Facts, m *Member, names []string) int32 {
	var n int32
	for i := 0; f.Last != nil && i < len(f.Last.Cells); i++ {
		c := &f.Last.Cells[i]
		in := len(names) == 0 || slices.Contains(names, c.Zone) || c.Zone == "" && len(names) == len(namedZones(m.Zones))
		if c.Cluster == m.Name && in && slices.ContainsFunc(f.Workload.Subsets, func(s kinds.Subset) bool { return s.Removed && s.Name == c.Subset }) {
			n += there(f, m, c.Subset)
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
func removedNotes(f *Facts, spec *topology.WorkloadPlacementSpec) []Note {
	var notes []Note
	for i := range f.Workload.Subsets {
		s := &f.Workload.Subsets[i]
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
		message := fmt.Sprintf("%d pods of subset %s, which was removed, run on in %s; they go as others are available in the subsets that are left",
			n, s.Name, nameColumn(slices.Compact(clusters)))
		if slices.ContainsFunc(spec.Unplaced, func(u topology.Unplaced) bool { return u.Reason.Code != UnplacedMoving }) {
			message += "; as many stay as those have no place for: " + strings.Join([]string{"raise a bound", "add nodes or members", "or lower the replicas"}, ", ")
		}
		notes = append(notes, Note{Reason: Placed, Message: message})
	}
	return notes
}
