package decision

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/capacity"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/topology/division"
)

// divided is the outcome of the division, in the terms of a placement.
type divided struct {
	// replicas and reason decided; cells with none that the last decision did not have are left out
	cells    []topology.Cell
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
func divide(d *draft) (divided, []Note, *kinds.Rejection) {
	if d.facts.Division != nil {
		return divideSpread(d)
	}
	if d.workload.Open {
		return divideOpen(d)
	}
	return divideSubsets(d)
}

// divideSubsets serves workloads with subsets: a cell is a subset in a member that matches its node selector.
func divideSubsets(d *draft) (divided, []Note, *kinds.Rejection) {
	in := division.Input{
		Replicas: d.workload.Replicas,
		Salt:     d.workload.Key.String(),
		Spread:   spreadOf(d),
		Pools:    poolsOf(d),
	}
	in.Spread.By, in.Spread.MaxSkew = "", 0 // the subsets say over what
	last := lastCells(d)
	var all []candidate
	unmatched, runs := map[string]bool{}, map[string]bool{}
	for i := range d.workload.Subsets {
		subset := &d.workload.Subsets[i]
		if subset.Removed {
			continue
		}
		in.Subsets = append(in.Subsets, subset.Subset)
		found, matched := subsetCandidates(d, subset, last)
		unmatched[subset.Name], runs[subset.Name] = !matched, len(found) > 0
		all = append(all, found...)
	}
	for i := range all {
		in.Cells = append(in.Cells, all[i].Cell)
	}
	divideIn := division.Divide
	if d.workload.Adaptive != nil {
		divideIn = d.divideAdaptive
	}
	plan, err := divideIn(in)
	if err != nil {
		return divided{}, nil, &kinds.Rejection{
			Reason:  kinds.InvalidSubsets,
			Message: fmt.Sprintf("%s: %v", d.workload.Key.Sentence(), err),
		}
	}
	result := divided{subsets: map[string]int32{}}
	for _, cell := range cellsOf(plan.Cells, all, last) {
		// A cell without replicas is one only if it was one before.
		if cell.Replicas > 0 || last[idOf(&cell)] != nil {
			result.cells = append(result.cells, cell)
		}
	}
	d.markDismissed(result.cells)
	result.cells = append(result.cells, removedCells(d, last)...)
	for _, s := range plan.Subsets {
		result.subsets[s.Name] = s.Replicas
	}
	var adapted []Note
	if d.workload.Adaptive != nil {
		markStandIns(result.cells, plan.Subsets, last)
		adapted = adaptiveNotes(d, in.Subsets, plan.Subsets)
	}
	for i := range plan.Unplaced {
		if u := &plan.Unplaced[i]; unmatched[u.Subset] {
			u.Reason = division.Reason{
				Code: division.UnplacedNoCell,
			} // the members that keep what runs of it are none to bring back
		}
	}
	var notes []Note
	for _, name := range slices.Sorted(maps.Keys(unmatched)) {
		if !unmatched[name] {
			continue
		}
		missing := unplacedOf(plan.Unplaced, name)
		note := unmatchedNote(d, name, missing > 0)
		if runs[name] {
			note.Message += "; what runs of it stays where it is"
		}
		if missing > 0 && d.last != nil && !hadSubset(d.last, name) {
			return divided{}, nil, &kinds.Rejection{
				Reason:  SubsetUnmatched,
				Message: note.Message + "; what is placed stays as it was",
			}
		}
		notes = append(notes, note)
	}
	result.unplaced = unplacedReasons(plan.Unplaced)
	return result, slices.Concat(notes, unplacedNotes(d, plan.Unplaced), adapted), nil
}

// subsetCandidates returns the members that match a subset, and those that no longer do and are to be left. A member
// that is not Ready keeps its cell even if its zones are not known now. Where no member matches any more, as after a
// zone was renamed, matched is false, and the members that have pods of the subset keep them: nothing replaces those.
func subsetCandidates(
	d *draft,
	subset *kinds.Subset,
	last map[cellID]*topology.Cell,
) (found []candidate, matched bool) {
	for i := range d.facts.Members {
		m := &d.facts.Members[i]
		had := last[cellID{subset: subset.Name, cluster: m.Name}]
		match := MatchTerm(&subset.Term, m)
		c := candidate{
			Cell: division.Cell{
				Subset:  subset.Name,
				Cluster: m.Name,
				Region:  m.Region,
				Weight:  weightOf(d, m),
				Frozen:  !m.Ready,
				Taint:   d.leftBy(subset.Name, m),
			},
			assumed: match.Assumed,
		}
		if len(match.Zones) == 1 {
			c.told = match.Zones[0]
		}
		c.Capacity = capacity.Free(m.Room(match.Zones, d.workload.Requests), d.ordered(had), there(d, m, subset.Name))
		if c.Capacity != nil {
			c.Capacity = new(min(*c.Capacity+leavingRoom(d, m, match.Zones), capacity.MostPods))
		}
		if had != nil {
			c.Current = d.counted(m, had)
			if !m.Ready {
				match.OK, c.told = match.OK || m.Selected, cmp.Or(c.told, had.Zone)
			}
		}
		c.Within = c.told
		d.narrow(&c.Cell, cellID{subset: subset.Name, cluster: m.Name})
		switch {
		case m.Selected && match.OK:
			found, matched = append(found, c), true
		case had == nil:
		case d.left[place{subset.Name, m.Name}] != "":
			c.told, c.Within = had.Zone, had.Zone
			found = append(found, c)
		case had.Replicas > 0:
			c.Frozen, c.told = true, had.Zone
			found = append(found, c)
		}
	}
	return found, matched
}

// divideOpen serves workloads without subsets: the policy's spread says over what.
func divideOpen(d *draft) (divided, []Note, *kinds.Rejection) {
	last := lastCells(d)
	all := openCells(d, last)
	in := division.Input{
		Replicas: d.workload.Replicas, Subsets: []division.Subset{{}}, Salt: d.workload.Key.String(), Spread: spreadOf(d),
		Pools: poolsOf(d),
	}
	for i := range all {
		in.Cells = append(in.Cells, all[i].Cell)
	}
	plan, err := division.Divide(in)
	if err != nil {
		return divided{}, nil, &kinds.Rejection{
			Reason:  kinds.InvalidSubsets,
			Message: fmt.Sprintf("%s: %v", d.workload.Key.Sentence(), err),
		}
	}
	result := divided{
		cells:   dropUnused(cellsOf(plan.Cells, all, last), last),
		subsets: map[string]int32{"": d.workload.Replicas}, unplaced: unplacedReasons(plan.Unplaced),
	}
	d.markDismissed(result.cells)
	return result, unplacedNotes(d, plan.Unplaced), nil
}

// openCells returns the cells of a workload without subsets: the members that the policy selects, or their zones where
// it spreads over zones or names some, and the cells that are to be left.
func openCells(d *draft, last map[cellID]*topology.Cell) []candidate {
	zonal := zonal(d)
	var cells []candidate
	for i := range d.facts.Members {
		m := &d.facts.Members[i]
		zones := []string{""}
		if zonal {
			zones = namedZones(m.Zones)
		}
		if !m.Selected || zonal && !m.Ready {
			zones = lastZones(d, m)
		}
		var has int32
		for _, zone := range zones {
			has += d.ordered(last[cellID{cluster: m.Name, zone: zone}])
		}
		for _, zone := range zones {
			c := candidate{Cell: division.Cell{
				Cluster: m.Name, Zone: zone, Region: m.Region, Weight: weightOf(d, m), Frozen: !m.Ready, Taint: d.leftBy("", m),
				Current: d.counted(m, last[cellID{cluster: m.Name, zone: zone}]),
			}}
			var only []string
			if zone != "" {
				only = []string{zone}
			}
			// The report counts the pods of all zones together: what is missing may come to any of them.
			c.Capacity = capacity.Free(m.Room(only, d.workload.Requests), has, there(d, m, ""))
			d.narrow(&c.Cell, cellID{cluster: m.Name, zone: zone})
			cells = append(cells, c)
		}
	}
	return cells
}

// zonal tells whether the cells of a workload without subsets are zones. Ordinals belong to members, whose controllers
// do not divide them over zones.
func zonal(d *draft) bool {
	return d.workload.Ordinals == nil && spreadsByZone(&d.facts.Spread)
}

func spreadsByZone(spread *topology.Spread) bool {
	return spread.By == topology.SpreadByZone ||
		slices.ContainsFunc(spread.Places, func(p topology.SpreadPlace) bool { return p.Zone != "" })
}

// namedZones leaves out the zone "" of nodes without the label where there are named zones: the pods of such a member
// are bound to its named zones, so that nothing could run on those nodes. A member without any named zone is one zone.
func namedZones(zones []string) []string {
	named := slices.DeleteFunc(slices.Clone(zones), func(zone string) bool { return zone == "" })
	if len(named) == 0 {
		return zones
	}
	return named
}

// lastZones returns the zones in which a member had cells: one that is not Ready, or not selected, gets no new ones.
func lastZones(d *draft, m *Member) []string {
	var zones []string
	if d.last != nil {
		for i := range d.last.Cells {
			if d.last.Cells[i].Cluster == m.Name {
				zones = append(zones, d.last.Cells[i].Zone)
			}
		}
	}
	return zones
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
		cell := topology.Cell{
			Subset:   s.Subset,
			Cluster:  s.Cluster,
			Zone:     cmp.Or(s.Zone, c.told),
			Replicas: s.Replicas,
			Reason:   reasonOf(s.Reason, c.assumed),
		}
		if had := last[idOf(&cell)]; had != nil && had.Replicas == cell.Replicas && had.Replaced == 0 &&
			had.Reason.Code != CellSubsetRemoved {
			cell.Reason = had.Reason
		}
		cells = append(cells, cell)
	}
	return cells
}

// dropUnused leaves out the cells of clusters that have no replicas and had no cell. A cluster that is used keeps a
// cell in each of its zones, so that the zones its pods may run in do not change by scaling.
func dropUnused(cells []topology.Cell, last map[cellID]*topology.Cell) []topology.Cell {
	used := map[string]bool{}
	for i := range cells {
		used[cells[i].Cluster] = used[cells[i].Cluster] || cells[i].Replicas > 0 || last[idOf(&cells[i])] != nil
	}
	return slices.DeleteFunc(cells, func(c topology.Cell) bool { return !used[c.Cluster] })
}

func lastCells(d *draft) map[cellID]*topology.Cell {
	cells := map[cellID]*topology.Cell{}
	if d.last != nil {
		for i := range d.last.Cells {
			cells[idOf(&d.last.Cells[i])] = &d.last.Cells[i]
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
func unplacedNotes(d *draft, unplaced []division.Unplaced) []Note {
	var notes []Note
	for _, u := range unplaced {
		if u.Reason.Code == division.UnplacedNoCell && u.Subset != "" {
			continue
		}
		// A frozen member comes back by itself; for the rest somebody has to change a bound or add room.
		notes = append(
			notes,
			Note{
				Reason:  Unplaced,
				Message: d.workload.Key.Sentence() + ": " + u.Message(),
				Stalled: u.Reason.Code != division.UnplacedFrozen,
			},
		)
	}
	return notes
}

// unmatchedNote says which value of a subset's node selector no member has.
func unmatchedNote(d *draft, name string, stalled bool) Note {
	i := slices.IndexFunc(d.workload.Subsets, func(s kinds.Subset) bool { return s.Name == name })
	message := fmt.Sprintf(
		"subset %q of %s matches no member: %s; correct the subset's nodeSelectorTerm or join a member there",
		name,
		d.workload.Key.Sentence(),
		WhyUnmatched(&d.workload.Subsets[i].Term, d.facts.Members),
	)
	return Note{Reason: SubsetUnmatched, Message: message, Stalled: stalled}
}

// WhyUnmatched names the first requirement that no selected member meets.
func WhyUnmatched(term *corev1.NodeSelectorTerm, members []Member) string {
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
			met = met || MatchTerm(&single, &members[j]).OK
			have = append(have, valuesOf(r.Key, &members[j])...)
		}
		if met {
			continue
		}
		slices.Sort(have)
		known := "none"
		if have = slices.Compact(have); len(have) > 0 {
			known = strings.Join(have[:min(len(have), ClustersInColumn)], ", ")
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
