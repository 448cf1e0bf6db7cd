package placement

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/topology/division"
)

// divided is the outcome of the division, in the terms of a placement.
type divided struct {
	cells    []topology.Cell // replicas and reason decided; cells with none that the last decision did not have are left out
	subsets  map[string]int32
	unplaced []topology.Unplaced
}

// candidate is a cell that may get replicas, and what is told of it.
type candidate struct {
	division.Cell
	told    string // the zone to tell of a subset's cell
	assumed []string
}

// divide finds the cells that there may be and divides the replicas over them.
func divide(f *Facts) (divided, []Note, *Refusal) {
	if f.Workload.Open {
		return divideOpen(f)
	}
	return divideSubsets(f)
}

// divideSubsets serves workloads with subsets: a cell is a subset in a member that matches its node selector.
func divideSubsets(f *Facts) (divided, []Note, *Refusal) {
	in := division.Input{Replicas: f.Workload.Replicas, Salt: f.Workload.Key.String()}
	last := lastCells(f)
	var all []candidate
	unmatched := map[string]bool{}
	for i := range f.Workload.Subsets {
		subset := &f.Workload.Subsets[i]
		in.Subsets = append(in.Subsets, subset.Subset)
		found := subsetCandidates(f, subset, last)
		unmatched[subset.Name] = len(found) == 0
		all = append(all, found...)
	}
	for i := range all {
		in.Cells = append(in.Cells, all[i].Cell)
	}
	plan, err := division.Divide(in)
	if err != nil {
		return divided{}, nil, &Refusal{InvalidSubsets, fmt.Sprintf("%s: %v", f.Workload.Key.Sentence(), err)}
	}
	result := divided{subsets: map[string]int32{}}
	for _, cell := range cellsOf(plan.Cells, all, last) {
		// A cell without replicas is one only if it was one before.
		if cell.Replicas > 0 || last[idOf(&cell)] != nil {
			result.cells = append(result.cells, cell)
		}
	}
	for _, s := range plan.Subsets {
		result.subsets[s.Name] = s.Replicas
	}
	var notes []Note
	for _, name := range slices.Sorted(maps.Keys(unmatched)) {
		if !unmatched[name] {
			continue
		}
		missing := unplacedOf(plan.Unplaced, name)
		note := unmatchedNote(f, name, missing > 0)
		if missing > 0 && f.Last != nil && !hadSubset(f.Last, name) {
			return divided{}, nil, &Refusal{SubsetUnmatched, note.Message + "; what is placed stays as it was"}
		}
		notes = append(notes, note)
	}
	result.unplaced = unplacedReasons(plan.Unplaced)
	return result, append(notes, unplacedNotes(f, plan.Unplaced)...), nil
}

// subsetCandidates returns the members that match a subset. A member that is not Ready keeps its cell even if its zones are
// not known now. Where no member matches any more, the members that have pods of the subset keep them: nothing replaces
// those.
func subsetCandidates(f *Facts, subset *Subset, last map[cellID]*topology.Cell) []candidate {
	var found, kept []candidate
	for i := range f.Members {
		m := &f.Members[i]
		had := last[cellID{subset: subset.Name, cluster: m.Name}]
		matched := matchTerm(&subset.Term, m)
		c := candidate{
			Cell:    division.Cell{Subset: subset.Name, Cluster: m.Name, Weight: 1, Frozen: !m.Ready},
			assumed: matched.assumed,
		}
		if len(matched.zones) == 1 {
			c.told = matched.zones[0]
		}
		if had != nil {
			c.Current = had.Replicas
			if !m.Ready {
				matched.ok, c.told = matched.ok || m.Selected, cmp.Or(c.told, had.Zone)
			}
		}
		switch {
		case m.Selected && matched.ok:
			found = append(found, c)
		case c.Current > 0:
			c.Frozen, c.told = true, had.Zone
			kept = append(kept, c)
		}
	}
	if len(found) == 0 {
		return kept
	}
	return found
}

// divideOpen serves workloads without subsets: the policy's spread says over what.
func divideOpen(f *Facts) (divided, []Note, *Refusal) {
	last := lastCells(f)
	groups := openGroups(f, last)
	names := slices.Sorted(maps.Keys(groups))
	key := f.Workload.Key.String()
	entries := make([]division.Entry, len(names))
	for i, name := range names {
		entries[i] = groupEntry(key+"/"+name, groups[name])
	}
	shares, rest := division.Seats(int64(f.Workload.Replicas), entries)
	result := divided{subsets: map[string]int32{"": f.Workload.Replicas}}
	var unplaced int32
	for i, name := range names {
		in := division.Input{Replicas: int32(shares[i]), Subsets: []division.Subset{{}}, Salt: key}
		for _, c := range groups[name] {
			in.Cells = append(in.Cells, c.Cell)
		}
		plan, err := division.Divide(in)
		if err != nil {
			return divided{}, nil, &Refusal{InvalidSubsets, fmt.Sprintf("%s: %v", key, err)}
		}
		result.cells = append(result.cells, cellsOf(plan.Cells, groups[name], last)...)
		unplaced += unplacedOf(plan.Unplaced, "")
	}
	result.cells = dropUnused(result.cells, last)
	if unplaced += int32(rest); unplaced == 0 {
		return result, nil, nil
	}
	reason := division.UnplacedFrozen
	if len(names) == 0 {
		reason = division.UnplacedNoCell
	}
	missing := []division.Unplaced{{Replicas: unplaced, Reason: division.Reason{Code: reason}}}
	result.unplaced = unplacedReasons(missing)
	return result, unplacedNotes(f, missing), nil
}

// openGroups returns the cells by what they are first spread evenly over: zones, regions, or nothing ("").
func openGroups(f *Facts, last map[cellID]*topology.Cell) map[string][]candidate {
	groups := map[string][]candidate{}
	for i := range f.Members {
		m := &f.Members[i]
		if !m.Selected {
			continue
		}
		zones := []string{""}
		if f.Spread.By == topology.SpreadByZone {
			zones = namedZones(m.Zones)
			if !m.Ready {
				zones = lastZones(f, m)
			}
		}
		for _, zone := range zones {
			c := candidate{Cell: division.Cell{Cluster: m.Name, Zone: zone, Weight: 1, Frozen: !m.Ready}}
			if had := last[cellID{cluster: m.Name, zone: zone}]; had != nil {
				c.Current = had.Replicas
			}
			group := zone
			if f.Spread.By == topology.SpreadByRegion {
				group = m.Region
			}
			groups[group] = append(groups[group], c)
		}
	}
	return groups
}

// namedZones leaves out the zone "" of nodes without the label where there are named zones: the pods of such a member are
// bound to its named zones, so that nothing could run on those nodes. A member without any named zone is one zone.
func namedZones(zones []string) []string {
	named := slices.DeleteFunc(slices.Clone(zones), func(zone string) bool { return zone == "" })
	if len(named) == 0 {
		return zones
	}
	return named
}

// lastZones returns the zones in which a member had cells: one that is not Ready gets no new ones.
func lastZones(f *Facts, m *Member) []string {
	var zones []string
	if f.Last != nil {
		for i := range f.Last.Cells {
			if f.Last.Cells[i].Cluster == m.Name {
				zones = append(zones, f.Last.Cells[i].Zone)
			}
		}
	}
	return zones
}

// groupEntry is one group as a receiver: what its frozen cells have stays, and only a healthy cell takes more.
func groupEntry(key string, cells []candidate) division.Entry {
	e := division.Entry{Key: key, Weight: 1}
	for i := range cells {
		e.Current += int64(cells[i].Current)
		if cells[i].Frozen {
			e.Min += int64(cells[i].Current)
		} else {
			e.Max = division.Unbounded
		}
	}
	e.Max = max(e.Max, e.Min)
	return e
}

// cellsOf turns shares into cells. A number that did not change keeps its reason.
func cellsOf(shares []division.Share, candidates []candidate, last map[cellID]*topology.Cell) []topology.Cell {
	told := map[cellID]*candidate{}
	for i := range candidates {
		c := &candidates[i]
		told[cellID{c.Subset, c.Cluster, c.Zone}] = c
	}
	var cells []topology.Cell
	for _, s := range shares {
		c := told[cellID{s.Subset, s.Cluster, s.Zone}]
		cell := topology.Cell{Subset: s.Subset, Cluster: s.Cluster, Zone: cmp.Or(s.Zone, c.told), Replicas: s.Replicas, Reason: reasonOf(s.Reason, c.assumed)}
		if had := last[idOf(&cell)]; had != nil && had.Replicas == cell.Replicas {
			cell.Reason = had.Reason
		}
		cells = append(cells, cell)
	}
	return cells
}

// dropUnused leaves out the cells of clusters that have no replicas and had no cell. A cluster that is used keeps a cell in
// each of its zones, so that the zones its pods may run in do not change by scaling.
func dropUnused(cells []topology.Cell, last map[cellID]*topology.Cell) []topology.Cell {
	used := map[string]bool{}
	for i := range cells {
		used[cells[i].Cluster] = used[cells[i].Cluster] || cells[i].Replicas > 0 || last[idOf(&cells[i])] != nil
	}
	return slices.DeleteFunc(cells, func(c topology.Cell) bool { return !used[c.Cluster] })
}

func lastCells(f *Facts) map[cellID]*topology.Cell {
	cells := map[cellID]*topology.Cell{}
	if f.Last != nil {
		for i := range f.Last.Cells {
			cells[idOf(&f.Last.Cells[i])] = &f.Last.Cells[i]
		}
	}
	return cells
}

func hadSubset(last *topology.WorkloadPlacementSpec, name string) bool {
	return slices.ContainsFunc(last.Limits, func(l topology.SubsetLimits) bool { return l.Subset == name })
}

func unplacedOf(unplaced []division.Unplaced, subset string) int32 {
	var n int32
	for _, u := range unplaced {
		if u.Subset == subset {
			n += u.Replicas
		}
	}
	return n
}

func unplacedReasons(unplaced []division.Unplaced) []topology.Unplaced {
	var out []topology.Unplaced
	for _, u := range unplaced {
		out = append(out, topology.Unplaced{Subset: u.Subset, Replicas: u.Replicas, Reason: reasonOf(u.Reason, nil)})
	}
	return out
}

// unplacedNotes tells what has no cell for another reason than an unmatched subset.
func unplacedNotes(f *Facts, unplaced []division.Unplaced) []Note {
	var notes []Note
	for _, u := range unplaced {
		if u.Reason.Code == division.UnplacedNoCell && u.Subset != "" {
			continue
		}
		// A frozen member comes back by itself; for the rest somebody has to change a bound or add room.
		notes = append(notes, Note{Reason: Unplaced, Message: f.Workload.Key.Sentence() + ": " + u.Message(), Stalled: u.Reason.Code != division.UnplacedFrozen})
	}
	return notes
}

// unmatchedNote says which value of a subset's node selector no member has.
func unmatchedNote(f *Facts, name string, stalled bool) Note {
	i := slices.IndexFunc(f.Workload.Subsets, func(s Subset) bool { return s.Name == name })
	message := fmt.Sprintf("subset %q of %s matches no member: %s; correct the subset's nodeSelectorTerm or join a member there",
		name, f.Workload.Key.Sentence(), whyUnmatched(&f.Workload.Subsets[i].Term, f.Members))
	return Note{Reason: SubsetUnmatched, Message: message, Stalled: stalled}
}

// whyUnmatched names the first requirement that no selected member meets.
func whyUnmatched(term *corev1.NodeSelectorTerm, members []Member) string {
	for i := range term.MatchExpressions {
		r := term.MatchExpressions[i]
		if r.Operator != corev1.NodeSelectorOpIn {
			continue
		}
		single := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{r}}
		var have []string
		met := false
		for j := range members {
			if !members[j].Selected {
				continue
			}
			met = met || matchTerm(&single, &members[j]).ok
			have = append(have, valuesOf(r.Key, &members[j])...)
		}
		if met {
			continue
		}
		slices.Sort(have)
		known := "none"
		if have = slices.Compact(have); len(have) > 0 {
			known = strings.Join(have[:min(len(have), clustersInColumn)], ", ")
		}
		wanted := `"` + strings.Join(r.Values, `" or "`) + `"`
		switch r.Key {
		case topology.LabelCluster:
			return fmt.Sprintf("no member is named %s (members: %s)", wanted, known)
		case corev1.LabelTopologyRegion:
			return fmt.Sprintf("no member has region %s (regions: %s)", wanted, known)
		default:
			return fmt.Sprintf("no member has zone %s (zones: %s)", wanted, known)
		}
	}
	return "no selected member meets all its requirements at once"
}

// valuesOf returns what a member has of a key that the hub knows.
func valuesOf(key string, m *Member) []string {
	switch key {
	case topology.LabelCluster:
		return []string{m.Name}
	case corev1.LabelTopologyRegion:
		return slices.DeleteFunc([]string{m.Region}, func(s string) bool { return s == "" })
	}
	return slices.DeleteFunc(slices.Clone(m.Zones), func(s string) bool { return s == "" })
}
