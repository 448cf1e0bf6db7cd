package placement

import (
	"slices"
	"sort"
	"strings"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/topology/division"
)

// divideSpread serves CloneSets that a WorkloadSpread names: its subsets are filled in their order, each over the members that its
// requiredNodeSelector matches. Limits hold over all of them together.
func divideSpread(f *Facts) (divided, []Note, *kinds.Rejection) {
	parts := f.Division.Parts
	g := *f
	g.Workload.Open, g.Workload.Subsets = false, parts
	if f.Last != nil {
		last := *f.Last
		last.Cells, last.Limits = spreadCells(f, f.Last.Cells), nil
		parts = slices.Concat(parts, removedParts(f, last.Cells))
		g.Workload.Subsets = parts
		for i := range parts {
			// What is new matches no member where it matches none: replicas go to the next subset then.
			last.Limits = append(last.Limits, topology.SubsetLimits{Subset: parts[i].Name})
		}
		g.Last, g.Reports = &last, spreadReports(f, last.Cells)
	}
	g.left = leftPlaces(&g)
	result, notes, refusal := divideSubsets(&g)
	if refusal != nil {
		return divided{}, nil, refusal
	}
	for i := range result.cells {
		c := &result.cells[i]
		c.Subset, c.SpreadSubset = "", c.Subset
		if c.Replicas == 0 && c.SpreadSubset != "" && !hasPart(f, c.SpreadSubset) {
			c.Reason = topology.Reason{Code: CellUnmatched}
		}
	}
	for i := range notes {
		notes[i].Message = strings.ReplaceAll(notes[i].Message, "nodeSelectorTerm", f.Division.SelectorName)
	}
	result.subsets = map[string]int32{"": f.Workload.Replicas}
	return result, slices.Concat(notes, removedSpreadNotes(f, result.cells)), nil
}

// spreadCells returns the cells of the last decision as cells of the subsets that there are now. What a member has in none of them, because
// the WorkloadSpread is new or another one, counts for the subsets that it matches, in their order, as far as those have room: so it
// stays where it is. Replicas of removed subsets that find no room keep the name of their subset, see removedParts.
func spreadCells(f *Facts, cells []topology.Cell) []topology.Cell {
	if f.Last.Spread != nil && *f.Last.Spread == f.Division.Ref {
		var out []topology.Cell
		for _, c := range cells {
			if inRemovedSubset(f, &c) && !keepsRemoved(f, c.Cluster) {
				c.SpreadSubset = f.Division.Parts[0].Name
			}
			c.Subset, c.SpreadSubset = c.SpreadSubset, ""
			out = add(out, c)
		}
		return out
	}
	with := func(removed int) []topology.Cell {
		kept, left := reassign(f, cells, true, removed)
		if left > 0 {
			if anew, fewer := reassign(f, cells, false, removed); fewer < left {
				return anew
			}
		}
		return kept
	}
	out := with(0)
	if len(removedParts(f, out)) == 0 {
		return out
	}
	// The subsets share what the removed ones do not have, and these have what finds no room in the subsets.
	enough := func(n int) bool { return sumRemoved(removedParts(f, with(n))) <= n }
	return with(sort.Search(int(f.Workload.Replicas), enough))
}

// reassign gives what members have to the subsets, and returns how many replicas none of them takes. With keep those that are in a subset
// of the same name stay in it. removed is how many of the replicas stay in removed subsets.
func reassign(f *Facts, cells []topology.Cell, keep bool, removed int) (out []topology.Cell, left int64) {
	parts, rooms, loose := f.Division.Parts, spreadRooms(f, removed), map[string]int32{}
	for i := range cells {
		c := cells[i]
		at := slices.IndexFunc(parts, func(p kinds.Subset) bool { return keep && f.Last.Spread != nil && p.Name == c.SpreadSubset })
		m := slices.IndexFunc(f.Members, func(m Member) bool { return m.Name == c.Cluster })
		if at < 0 || m < 0 || f.Members[m].Ready && !matchTerm(&parts[at].Term, &f.Members[m]).ok {
			loose[c.Cluster] += c.Replicas
			continue
		}
		c.Subset, c.SpreadSubset, rooms[at] = c.SpreadSubset, "", rooms[at]-int64(c.Replicas)
		out = append(out, c)
	}
	for i := range parts {
		for j := range f.Members {
			m := &f.Members[j]
			n := min(int64(loose[m.Name]), max(rooms[i], 0))
			if parts[i].Name == "" {
				n = min(n, max(int64(loose[m.Name]-removedOf(f, cells, m.Name)), 0))
			}
			if n == 0 || !matchTerm(&parts[i].Term, m).ok {
				continue
			}
			rooms[i], loose[m.Name] = rooms[i]-n, loose[m.Name]-int32(n)
			at := slices.IndexFunc(out, func(c topology.Cell) bool { return c.Cluster == m.Name && c.Subset == parts[i].Name })
			if at < 0 {
				at, out = len(out), append(out, topology.Cell{Cluster: m.Name, Subset: parts[i].Name, Reason: topology.Reason{Code: division.CellKept}})
			}
			out[at].Replicas += int32(n)
		}
		left += max(-rooms[i], 0)
	}
	out = append(out, removedCellsOf(f, cells, loose)...)
	for _, n := range loose {
		left += int64(n)
	}
	return append(out, homeless(f, cells, loose)...), left
}

// homeless are cells for what members have that match no subset any more: they count for the subset that they had, or else for the first
// one, and are left step by step.
func homeless(f *Facts, cells []topology.Cell, loose map[string]int32) []topology.Cell {
	parts := f.Division.Parts
	var out []topology.Cell
	for i := range f.Members {
		m := &f.Members[i]
		if loose[m.Name] == 0 || slices.ContainsFunc(parts, func(p kinds.Subset) bool { return matchTerm(&p.Term, m).ok }) {
			continue
		}
		at := slices.IndexFunc(cells, func(c topology.Cell) bool { return c.Cluster == m.Name })
		c := cells[at]
		had := slices.IndexFunc(parts, func(p kinds.Subset) bool { return p.Name == c.SpreadSubset })
		c.Subset, c.SpreadSubset, c.Replicas, c.Leaving = parts[max(had, 0)].Name, "", loose[m.Name], 0
		out = append(out, c)
	}
	return out
}

// spreadRooms returns how many replicas each subset gets of those that are not in removed ones: the subsets are
// filled in their order, and those that no member matches get none.
func spreadRooms(f *Facts, removed int) []int64 {
	parts, left := f.Division.Parts, max(int64(f.Workload.Replicas)-int64(removed), 0)
	rooms := make([]int64, len(parts))
	for i := range parts {
		matched := slices.ContainsFunc(f.Members, func(m Member) bool { return m.Selected && matchTerm(&parts[i].Term, &m).ok })
		if !matched {
			continue
		}
		rooms[i] = left
		if parts[i].Max != nil {
			rooms[i] = min(left, int64(parts[i].Max.IntVal))
		}
		left -= rooms[i]
	}
	return rooms
}

// spreadReports shares out what members have reported, which is of all subsets together, over their cells. Pods that are told to find no
// node are none of them.
func spreadReports(f *Facts, cells []topology.Cell) map[string]Report {
	out := map[string]Report{}
	left := map[string]int32{}
	for name, report := range f.Reports {
		left[name] = report.Use[""].Ready
		report.Use = map[string]work.SubsetUse{}
		out[name] = report
	}
	for i := range cells {
		c := &cells[i]
		if report, ok := out[c.Cluster]; ok {
			there := min(left[c.Cluster], max(c.Replicas-report.waitingIn(c), 0))
			left[c.Cluster] -= there
			report.Use[c.Subset] = work.SubsetUse{Ready: there}
		}
	}
	return out
}

// withoutSpread returns cells of a decision that went by a WorkloadSpread as those of one that does not: one for each cluster.
func withoutSpread(cells []topology.Cell) []topology.Cell {
	var out []topology.Cell
	for _, c := range cells {
		c.SpreadSubset, c.Zone = "", ""
		out = add(out, c)
	}
	return out
}
