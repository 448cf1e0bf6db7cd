package decision

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/capacity"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/topology/division"
)

// divideSpread serves workloads that an object of another kind divides: its subsets are filled in their order, each
// over the members that its requiredNodeSelector matches. Limits hold over all of them together.
func divideSpread(d *draft) (divided, []Note, *kinds.Rejection) {
	parts := d.facts.Division.Parts
	g := *d
	g.workload.Open, g.workload.Subsets = false, parts
	if d.last != nil {
		last := *d.last
		last.Cells, last.Limits = spreadCells(d, d.last.Cells), nil
		parts = slices.Concat(parts, removedParts(d, last.Cells))
		g.workload.Subsets = parts
		for i := range parts {
			// What is new matches no member where it matches none: replicas go to the next subset then.
			last.Limits = append(last.Limits, topology.SubsetLimits{Subset: parts[i].Name})
		}
		g.last, g.reports = &last, spreadReports(d, last.Cells)
	}
	g.left = leftPlaces(&g)
	result, notes, refusal := divideSubsets(&g)
	if refusal != nil {
		return divided{}, nil, refusal
	}
	for i := range result.cells {
		c := &result.cells[i]
		c.Subset, c.SpreadSubset = "", c.Subset
		if c.Replicas == 0 && c.SpreadSubset != "" && !hasPart(d, c.SpreadSubset) {
			c.Reason = topology.Reason{Code: CellUnmatched}
		}
	}
	for i := range notes {
		notes[i].Message = strings.ReplaceAll(notes[i].Message, "nodeSelectorTerm", d.facts.Division.SelectorName)
	}
	result.subsets = map[string]int32{"": d.workload.Replicas}
	return result, slices.Concat(notes, removedSpreadNotes(d, result.cells)), nil
}

// spreadCells returns the cells of the last decision as cells of the subsets that there are now. What a member has in
// none of them, because the divider is new or another one, counts for the subsets that it matches, in their
// order, as far as those have room: so it stays where it is. Replicas of removed subsets that find no room keep the
// name of their subset, see removedParts.
func spreadCells(d *draft, cells []topology.Cell) []topology.Cell {
	if d.last.Spread != nil && *d.last.Spread == d.facts.Division.Ref {
		var out []topology.Cell
		for _, c := range cells {
			if inRemovedSubset(d, &c) && !keepsRemoved(d, c.Cluster) {
				c.SpreadSubset = d.facts.Division.Parts[0].Name
			}
			c.Subset, c.SpreadSubset = c.SpreadSubset, ""
			out = add(out, c)
		}
		return out
	}
	with := func(removed int) []topology.Cell {
		kept, left := reassign(d, cells, true, removed)
		if left > 0 {
			if anew, fewer := reassign(d, cells, false, removed); fewer < left {
				return anew
			}
		}
		return kept
	}
	out := with(0)
	if len(removedParts(d, out)) == 0 {
		return out
	}
	// The subsets share what the removed ones do not have, and these have what finds no room in the subsets.
	enough := func(n int) bool { return sumRemoved(removedParts(d, with(n))) <= n }
	return with(sort.Search(int(d.workload.Replicas), enough))
}

// reassign gives what members have to the subsets, and returns how many replicas none of them takes. With keep those
// that are in a subset of the same name stay in it. removed is how many of the replicas stay in removed subsets.
func reassign(d *draft, cells []topology.Cell, keep bool, removed int) (out []topology.Cell, left int64) {
	parts, rooms, loose := d.facts.Division.Parts, spreadRooms(d, removed), map[string]int32{}
	for i := range cells {
		c := cells[i]
		at := slices.IndexFunc(
			parts,
			func(p kinds.Subset) bool { return keep && d.last.Spread != nil && p.Name == c.SpreadSubset },
		)
		m := slices.IndexFunc(d.facts.Members, func(m Member) bool { return m.Name == c.Cluster })
		if at < 0 || m < 0 || d.facts.Members[m].Ready && !MatchTerm(&parts[at].Term, &d.facts.Members[m]).OK {
			loose[c.Cluster] += c.Replicas
			continue
		}
		c.Subset, c.SpreadSubset, rooms[at] = c.SpreadSubset, "", rooms[at]-int64(c.Replicas)
		out = append(out, c)
	}
	for i := range parts {
		for j := range d.facts.Members {
			m := &d.facts.Members[j]
			n := min(int64(loose[m.Name]), max(rooms[i], 0))
			if parts[i].Name == "" {
				n = min(n, max(int64(loose[m.Name]-removedOf(d, cells, m.Name)), 0))
			}
			if n == 0 || !MatchTerm(&parts[i].Term, m).OK {
				continue
			}
			rooms[i], loose[m.Name] = rooms[i]-n, loose[m.Name]-int32(n)
			at := slices.IndexFunc(out, func(c topology.Cell) bool { return c.Cluster == m.Name && c.Subset == parts[i].Name })
			if at < 0 {
				at, out = len(out), append(out, topology.Cell{Cluster: m.Name, Subset: parts[i].Name,
					Reason: topology.Reason{Code: division.CellKept}})
			}
			out[at].Replicas += int32(n)
		}
		left += max(-rooms[i], 0)
	}
	out = append(out, removedCellsOf(d, cells, loose)...)
	for _, n := range loose {
		left += int64(n)
	}
	return append(out, homeless(d, cells, loose)...), left
}

// homeless are cells for what members have that match no subset any more: they count for the subset that they had, or
// else for the first one, and are left step by step.
func homeless(d *draft, cells []topology.Cell, loose map[string]int32) []topology.Cell {
	parts := d.facts.Division.Parts
	var out []topology.Cell
	for i := range d.facts.Members {
		m := &d.facts.Members[i]
		if loose[m.Name] == 0 || slices.ContainsFunc(parts, func(p kinds.Subset) bool { return MatchTerm(&p.Term, m).OK }) {
			continue
		}
		at := slices.IndexFunc(cells, func(c topology.Cell) bool { return c.Cluster == m.Name })
		c := cells[at]
		had := slices.IndexFunc(parts, func(p kinds.Subset) bool { return p.Name == c.SpreadSubset })
		c.Subset, c.SpreadSubset, c.Replicas, c.Replaced = parts[max(had, 0)].Name, "", loose[m.Name], 0
		out = append(out, c)
	}
	return out
}

// spreadRooms returns how many replicas each subset gets of those that are not in removed ones: the subsets are
// filled in their order, and those that no member matches get none.
func spreadRooms(d *draft, removed int) []int64 {
	parts, left := d.facts.Division.Parts, max(int64(d.workload.Replicas)-int64(removed), 0)
	rooms := make([]int64, len(parts))
	for i := range parts {
		matched := slices.ContainsFunc(
			d.facts.Members,
			func(m Member) bool { return m.Selected && MatchTerm(&parts[i].Term, &m).OK },
		)
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

// spreadReports shares out what members have reported, which is of all subsets together, over their cells. Pods that
// are told to find no node are none of them.
func spreadReports(d *draft, cells []topology.Cell) map[string]capacity.Report {
	out := map[string]capacity.Report{}
	left := map[string]int32{}
	for name, report := range d.reports {
		left[name] = report.Use[""].Ready
		report.Use = map[string]work.SubsetUse{}
		out[name] = report
	}
	for i := range cells {
		c := &cells[i]
		if report, ok := out[c.Cluster]; ok {
			there := min(left[c.Cluster], max(c.Replicas-report.WaitingIn(c), 0))
			left[c.Cluster] -= there
			report.Use[c.Subset] = work.SubsetUse{Ready: there}
		}
	}
	return out
}

// withoutSpread returns cells of a decision that went by a divider as those of one that does not: one for each
// cluster.
func withoutSpread(cells []topology.Cell) []topology.Cell {
	var out []topology.Cell
	for _, c := range cells {
		c.SpreadSubset, c.Zone = "", ""
		out = add(out, c)
	}
	return out
}

// Replicas of a subset that is removed from a divider stay in their members, as they stay on their nodes in one
// cluster. Where a member matches another subset that has room, they count for that one. Elsewhere the cell keeps the
// name of the removed subset: its replicas are in no subset, and go first when the workload is scaled in.

// inRemovedSubset reports whether a cell of the last decision is of a subset that the divider no longer has.
func inRemovedSubset(d *draft, c *topology.Cell) bool {
	return d.last.Spread != nil && c.SpreadSubset != "" && !hasPart(d, c.SpreadSubset)
}

func hasPart(d *draft, name string) bool {
	return slices.ContainsFunc(d.facts.Division.Parts, func(p kinds.Subset) bool { return p.Name == name })
}

// keepsRemoved reports whether replicas of removed subsets stay in the member: nothing else drives them out.
func keepsRemoved(d *draft, cluster string) bool {
	return slices.ContainsFunc(d.facts.Members, func(m Member) bool {
		return m.Name == cluster && m.Selected && !m.Lost && m.Taint != division.NoExecute
	})
}

// holdsRemoved reports whether the member has replicas of removed subsets, which stay there.
func holdsRemoved(d *draft, m *Member) bool {
	return d.last != nil && keepsRemoved(d, m.Name) && slices.ContainsFunc(d.last.Cells, func(c topology.Cell) bool {
		return c.Cluster == m.Name && c.Replicas > 0 && inRemovedSubset(d, &c)
	})
}

// removedOf returns how many replicas of removed subsets a member had that stay there.
func removedOf(d *draft, cells []topology.Cell, cluster string) (n int32) {
	for i := range cells {
		if c := &cells[i]; c.Cluster == cluster && inRemovedSubset(d, c) && keepsRemoved(d, cluster) {
			n += c.Replicas
		}
	}
	return n
}

// removedCellsOf returns cells of removed subsets for the replicas of members in loose that no subset takes, and takes
// them off there.
func removedCellsOf(d *draft, cells []topology.Cell, loose map[string]int32) []topology.Cell {
	var out []topology.Cell
	for _, c := range cells {
		n := min(c.Replicas, loose[c.Cluster])
		if n == 0 || !inRemovedSubset(d, &c) || !keepsRemoved(d, c.Cluster) {
			continue
		}
		loose[c.Cluster] -= n
		c.Subset, c.SpreadSubset, c.Replicas, c.Replaced = c.SpreadSubset, "", n, min(c.Replaced, n)
		out = append(out, c)
	}
	return out
}

// withoutRemoved leaves out cells of removed subsets that the result of a round does not have: they count for another
// subset.
func withoutRemoved(d *draft, cells, result []topology.Cell) []topology.Cell {
	return slices.DeleteFunc(cells, func(c topology.Cell) bool {
		same := func(r topology.Cell) bool { return idOf(&r) == idOf(&c) }
		return inRemovedSubset(d, &c) && !slices.ContainsFunc(result, same)
	})
}

// removedParts returns a subset for each removed one of which members have cells: it has what they have, less what the
// workload is scaled in by, and matches no other member.
func removedParts(d *draft, cells []topology.Cell) []kinds.Subset {
	var parts []kinds.Subset
	scaledIn := scaledInBy(d)
	for i := range cells {
		c := &cells[i]
		if c.Subset == "" || hasPart(d, c.Subset) {
			continue
		}
		n := c.Replicas
		if slices.ContainsFunc(d.facts.Members, func(m Member) bool { return m.Name == c.Cluster && m.Ready }) {
			n -= min(n, scaledIn)
			scaledIn -= c.Replicas - n
		}
		at := slices.IndexFunc(parts, func(p kinds.Subset) bool { return p.Name == c.Subset })
		if at < 0 {
			at, parts = len(parts), append(parts, removedPart(c.Subset))
		}
		p := &parts[at]
		p.Min = new(intstr.FromInt32(p.Min.IntVal + n))
		p.Max = p.Min
		p.Term.MatchExpressions[0].Values = append(p.Term.MatchExpressions[0].Values, c.Cluster)
	}
	return parts
}

func removedPart(name string) kinds.Subset {
	part := kinds.Subset{Subset: division.Subset{Name: name, Min: new(intstr.FromInt32(0))}}
	clusters := corev1.NodeSelectorRequirement{Key: topology.LabelCluster, Operator: corev1.NodeSelectorOpIn}
	part.Term.MatchExpressions = []corev1.NodeSelectorRequirement{clusters}
	return part
}

// scaledInBy returns how many replicas the last decision placed above those that are to be.
func scaledInBy(d *draft) int32 {
	n := -int64(d.workload.Replicas)
	for i := range d.last.Cells {
		n += int64(d.last.Cells[i].Replicas - d.last.Cells[i].Replaced)
	}
	return int32(max(n, 0))
}

func sumRemoved(parts []kinds.Subset) (n int) {
	for i := range parts {
		n += int(parts[i].Min.IntVal)
	}
	return n
}

// removedSpreadNotes name the members that have replicas of removed subsets.
func removedSpreadNotes(d *draft, cells []topology.Cell) []Note {
	var in []string
	for i := range cells {
		if c := &cells[i]; c.Replicas > 0 && c.SpreadSubset != "" && !hasPart(d, c.SpreadSubset) {
			in = append(in, fmt.Sprintf("%d of %s in member %s", c.Replicas, c.SpreadSubset, c.Cluster))
		}
	}
	if len(in) == 0 {
		return nil
	}
	return []Note{{Reason: Placed, Message: fmt.Sprintf(d.facts.Division.RemovedFormat, listed(in))}}
}

// adoptStrategy makes the times of the strategy hold for the whole decision. A divider has a strategy of its
// own for pods without a node, also that of leaving them where they are. With Fence nothing moves: a pod that waits
// can find a node just when another one takes its place.
func adoptStrategy(d *draft) *kinds.Rejection {
	if d.facts.Division != nil {
		d.workload.Adaptive, d.reschedule = d.facts.Division.Adaptive, nil
	}
	a := d.workload.Adaptive
	switch {
	case a == nil:
	case d.facts.Failover.Mode == topology.FailoverFence:
		d.workload.Adaptive = nil
		d.workload.Remarks = append(
			slices.Clone(d.workload.Remarks),
			"scheduleStrategy Adaptive is not carried out with failover.mode Fence; pods that find no node wait",
		)
	default:
		d.reschedule = &topology.Reschedule{After: a.Critical.String()}
	}
	return nil
}

// divideAdaptive divides over subsets that are filled in their order, as far as their cells take what they get; the
// next subsets get the rest. What runs stays where it is, also where an earlier subset may have it again. Where no
// subset takes the rest it stays unplaced in the first one that its numbers allow it to.
func (d *draft) divideAdaptive(in division.Input) (division.Plan, error) {
	subsets, seen := in.Subsets, d.seenIn(&in)
	in.Subsets = make([]division.Subset, len(subsets))
	for {
		shares, err := division.Overflow(in.Replicas, subsets, seen)
		if err != nil {
			return division.Plan{}, err
		}
		for i := range shares {
			n := new(intstr.FromInt32(shares[i].Replicas))
			in.Subsets[i] = division.Subset{Name: shares[i].Name, Min: n, Max: n}
		}
		plan, err := division.Divide(in)
		if err != nil {
			return division.Plan{}, err
		}
		again := false
		for i := range plan.Subsets {
			s := &plan.Subsets[i]
			s.Reason = shares[i].Reason
			if s.Placed < shares[i].Replicas && !seen[i].Unschedulable {
				seen[i] = division.Seen{
					Replicas:      s.Placed,
					Ready:         min(seen[i].Ready, s.Placed),
					Starting:      s.Placed,
					Unschedulable: true,
				}
				again = true
			}
		}
		if !again { // each round closes a subset
			return plan, nil
		}
	}
}

// seenIn sums by subset what the cells have and what of that is Ready. Pods that find no node are no part of it.
func (d *draft) seenIn(in *division.Input) []division.Seen {
	seen := make([]division.Seen, len(in.Subsets))
	at := make(map[string]*division.Seen, len(seen))
	for i := range in.Subsets {
		at[in.Subsets[i].Name] = &seen[i]
	}
	for i := range in.Cells {
		c := &in.Cells[i]
		s := at[c.Subset]
		s.Replicas += c.Current
		s.Ready += min(d.reports[c.Cluster].Use[c.Subset].Ready, c.Current)
	}
	return seen
}

// markStandIns says of cells that get more in place of pods of other subsets that they do.
func markStandIns(cells []topology.Cell, shares []division.SubsetShare, last map[cellID]*topology.Cell) {
	standIn := map[string]bool{}
	for i := range shares {
		standIn[shares[i].Name] = shares[i].Reason.Code == division.SubsetStandIn
	}
	for i := range cells {
		c := &cells[i]
		if had := last[idOf(c)]; standIn[c.Subset] && c.Replicas > 0 && (had == nil || c.Replicas > had.Replicas) {
			c.Reason = topology.Reason{Code: CellStandIn}
		}
	}
}

// adaptiveNotes say which subsets have others than their own numbers.
func adaptiveNotes(d *draft, subsets []division.Subset, shares []division.SubsetShare) []Note {
	plain, err := division.Overflow(d.workload.Replicas, subsets, nil)
	if err != nil {
		return nil // it was divided by the same numbers
	}
	var fewer, more []string
	for i := range shares {
		title := "the part in no subset"
		if shares[i].Name != "" {
			title = "subset " + shares[i].Name
		}
		switch n := shares[i].Placed - plain[i].Replicas; {
		case n < 0:
			fewer = append(fewer, fmt.Sprintf("%s has %d of its %d replicas", title, shares[i].Placed, plain[i].Replicas))
		case n > 0:
			more = append(more, fmt.Sprintf("%s has %d more", title, n))
		}
	}
	if len(fewer) == 0 || len(more) == 0 {
		return nil
	}
	return []Note{{Reason: Placed, Message: fmt.Sprintf(
		"by the strategy Adaptive %s, and instead %s; what runs stays where it is, and what is added goes to the subsets "+
			"in their order where there are nodes",
		strings.Join(fewer, ", "),
		strings.Join(more, ", "),
	)}}
}
