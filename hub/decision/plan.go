package decision

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/topology/division"
	"github.com/flotilla-dev/flotilla/topology/waves"
)

// Decision is a placement and what there is to say about it.
type Decision struct {
	Spec topology.WorkloadPlacementSpec
	// Notes are what a person should know, in a stable order.
	Notes []Note
	// Wave says what the wave under way waits for, "" where none is. Again is when the decision can change by time
	// alone, 0 for never.
	Wave  string
	Again time.Duration
	// Asks are what checks of the wave under way want asked.
	Asks []waves.Ask
}

// Note is a sentence about a decision. One with the reason Placed says something beside it. Stalled: nothing will help
// but a person's change.
type Note struct {
	Reason, Message string
	Stalled         bool
}

// Plan decides what goes where. It is pure: the same facts give the same decision, and a decision made from its own
// result and unchanged facts changes nothing.
func Plan(f Facts) (Decision, *kinds.Rejection) {
	d := newDraft(&f)
	for _, step := range steps(f.Kind.Mode) {
		if rejection := step(d); rejection != nil {
			return Decision{}, rejection
		}
		if d.done {
			break
		}
	}
	return d.decision, nil
}

// steps are those of a decision, in their order. A rejection ends it, and so does a step that completes it.
func steps(mode kinds.Mode) []func(*draft) *kinds.Rejection {
	switch mode {
	case kinds.Copy:
		return []func(*draft) *kinds.Rejection{requireMember, planCopies}
	case kinds.PerMember:
		return []func(*draft) *kinds.Rejection{
			requireMember,
			placePerMember,
			limitCells,
			recordInputs,
			grantBudgets,
			endJob,
			numberOrders,
			describe,
		}
	}
	return []func(*draft) *kinds.Rejection{
		requireMember,
		discover,
		checkFound,
		adoptStrategy,
		startFromMembers,
		evacuatePlaces,
		settle,
		completeCells,
		limitCells,
		assignOrdinals,
		recordInputs,
		grantBudgets,
		numberOrders,
		describe,
	}
}

// requireMember rejects a workload that no member may have. Copies that are placed are removed then, without a
// rejection.
func requireMember(d *draft) *kinds.Rejection {
	selected := slices.ContainsFunc(d.facts.Members, func(m Member) bool { return m.Selected })
	if !selected && (d.last != nil || d.facts.Kind.Mode != kinds.Copy) {
		return &kinds.Rejection{Reason: NoMember, Message: noMember(d)}
	}
	return nil
}

// startFromMembers makes the draft start from what members have: from what was found there, under the names of today's
// zones, with the subsets that the workload no longer has.
func startFromMembers(d *draft) *kinds.Rejection {
	d.last = withFound(d)
	d.last = withRenamed(d)
	d.workload.Subsets = slices.Concat(d.workload.Subsets, removedSubsets(d))
	return nil
}

// evacuatePlaces finds the places whose replicas go elsewhere, and what is known of the nodes of the others.
func evacuatePlaces(d *draft) *kinds.Rejection {
	d.left = leftPlaces(d)
	d.standings = standingsOf(d)
	return nil
}

// completeCells adds to the cells of the division those that members still have pods of, and removes those that are
// empty.
func completeCells(d *draft) *kinds.Rejection {
	d.spec.Cells = markAdoption(d, keepEmptied(d, d.withoutDismissed(d.result.cells)))
	return nil
}

// limitCells rejects a workload with more cells than a placement holds.
func limitCells(d *draft) *kinds.Rejection {
	if cells := len(d.spec.Cells); cells > topology.MaxCells {
		return &kinds.Rejection{Reason: TooManyCells, Message: fmt.Sprintf(
			"%s would have %d cells (subsets × members), and at most %d are placed; use fewer subsets, or select fewer members",
			d.workload.Key.Sentence(), cells, topology.MaxCells)}
	}
	return nil
}

// recordInputs writes into the placement what was asked for and what the decision went by.
func recordInputs(d *draft) *kinds.Rejection {
	sortCells(d.workload.Subsets, d.spec.Cells)
	d.remember(d.spec.Cells)
	d.spec.Workload, d.spec.Policy, d.spec.Revision = d.workload.Ref, &d.facts.Policy, d.workload.Revision
	d.spec.Replicas, d.spec.Unplaced = d.workload.Replicas, d.result.unplaced
	if d.reschedule != nil {
		d.spec.RescheduleAfter = d.rescheduleAfter().String()
	}
	if d.facts.Division != nil {
		d.spec.Spread = &d.facts.Division.Ref
		d.workload.Remarks = slices.Concat(d.workload.Remarks, d.facts.Division.Remarks)
	}
	d.facts.Overrides.mark(d.spec.Cells)
	d.newRevision = d.last == nil || d.last.Revision != d.spec.Revision
	return nil
}

// grantBudgets grants the limits to the cells, within the waves of the policy, and keeps the templates that pods run.
func grantBudgets(d *draft) *kinds.Rejection {
	d.wave = lend(d, &d.spec, d.result.subsets, d.used, d.newRevision)
	d.spec.Wave = d.wave.Progress
	d.spec.Template = templateOf(d, d.newRevision)
	d.spec.PreviousTemplate = previousTemplateOf(d, &d.spec, d.result.subsets, &d.wave, d.newRevision)
	return nil
}

// numberOrders gives a sequence to the orders that differ from those of the last decision.
func numberOrders(d *draft) *kinds.Rejection {
	d.last = d.facts.Last
	assignSequences(d, &d.spec, d.newRevision)
	for i := range d.spec.Cells {
		d.spec.Placed += d.spec.Cells[i].Replicas - d.spec.Cells[i].Replaced
	}
	return nil
}

// describe adds what a person should know, what goes with the workload, and when to decide again.
func describe(d *draft) *kinds.Rejection {
	spec := &d.spec
	notes := withWaveNotes(
		d,
		&d.wave,
		slices.Concat(jobNotes(d), d.notes, dismissedNotes(d, spec), removedNotes(d, spec), shrinkNotes(spec),
			moveNotes(d, spec), waitNotes(d, spec)),
	)
	spec.Clusters = clusterColumn(spec.Cells)
	needs, needNotes := dependencies(d)
	spec.Dependencies, notes = needs, append(notes, needNotes...)
	for _, remark := range slices.Concat(d.workload.Remarks, d.facts.Overrides.Remarks) {
		notes = append(notes, Note{Reason: Placed, Message: remark})
	}
	d.decision = Decision{
		Spec: *spec, Notes: notes, Wave: d.wave.Waits, Asks: d.wave.Asks,
		Again: Sooner(Sooner(d.wave.Again, d.retryIn(spec)), d.settlesIn(spec)),
	}
	return nil
}

func noMember(d *draft) string {
	return fmt.Sprintf("%s %s selects no accepted member for %s; join and accept a member, or widen spec.clusters",
		d.facts.Policy.Kind, d.facts.Policy.Name, d.workload.Key.Sentence())
}

// keepEmptied adds the cells of the last decision that no longer get replicas but still have some in use: their members
// are told 0, and the cell goes when they have reported that nothing is left, or when the member is gone.
func keepEmptied(d *draft, cells []topology.Cell) []topology.Cell {
	if d.last == nil {
		return cells
	}
	have, inCluster := map[cellID]bool{}, map[string]bool{}
	for i := range cells {
		have[idOf(&cells[i])] = true
		inCluster[cells[i].Cluster] = true
	}
	members := map[string]*Member{}
	for i := range d.facts.Members {
		members[d.facts.Members[i].Name] = &d.facts.Members[i]
	}
	subsets := map[string]bool{}
	for i := range d.workload.Subsets {
		subsets[d.workload.Subsets[i].Name] = true
	}
	for i := range d.last.Cells {
		last := d.last.Cells[i]
		member := members[last.Cluster]
		if have[idOf(&last)] || member == nil || !subsets[last.Subset] || emptied(d, &last) {
			continue
		}
		if d.workload.Open && inCluster[last.Cluster] {
			continue // the member object is one for all zones: the other cells carry on
		}
		code := CellUnmatched
		switch {
		case !member.Selected:
			code = CellExcluded
		case slices.ContainsFunc(d.workload.Subsets, func(s kinds.Subset) bool { return s.Removed && s.Name == last.Subset }):
			code = CellSubsetRemoved
		}
		last.Replicas, last.Replaced, last.Reason = 0, 0, topology.Reason{Code: code}
		cells = append(cells, last)
	}
	return cells
}

// emptied tells whether a cell was told 0 replicas and its member has reported that none are left.
func emptied(d *draft, last *topology.Cell) bool {
	report, ok := d.reports[last.Cluster]
	return ok && last.Replicas == 0 && report.Sequence >= last.Sequence && report.Use[last.Subset].Total == 0
}

// cellID is what makes a cell the same in two decisions. A zone is part of it only where the policy spreads by zone: a
// subset's zone is only told.
type cellID struct{ subset, cluster, zone string }

func idOf(c *topology.Cell) cellID {
	if subset := cmp.Or(c.Subset, c.SpreadSubset); subset != "" {
		return cellID{subset: subset, cluster: c.Cluster}
	}
	return cellID{cluster: c.Cluster, zone: c.Zone}
}

func sortCells(subsets []kinds.Subset, cells []topology.Cell) {
	order := map[string]int{}
	for i := range subsets {
		order[subsets[i].Name] = i
	}
	slices.SortFunc(cells, func(a, b topology.Cell) int {
		return cmp.Or(
			cmp.Compare(order[a.Subset], order[b.Subset]),
			strings.Compare(a.Cluster, b.Cluster),
			strings.Compare(a.Zone, b.Zone),
			strings.Compare(a.SpreadSubset, b.SpreadSubset),
		)
	})
}

// ClustersInColumn is how many clusters the column of kubectl get names; a terminal is not wider.
const ClustersInColumn = 8

// clusterColumn returns "east:5 south:3 west:4".
func clusterColumn(cells []topology.Cell) string {
	replicas := map[string]int32{}
	for i := range cells {
		replicas[cells[i].Cluster] += cells[i].Replicas - cells[i].Replaced
	}
	var parts []string
	for _, cluster := range slices.Sorted(maps.Keys(replicas)) {
		if replicas[cluster] > 0 {
			parts = append(parts, fmt.Sprintf("%s:%d", cluster, replicas[cluster]))
		}
	}
	return nameColumn(parts)
}

func nameColumn(parts []string) string {
	if more := len(parts) - ClustersInColumn; more > 0 {
		parts = append(parts[:ClustersInColumn], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, " ")
}

// reasonOf takes over a reason of the division. Where the number is that of the last decision its reason stays too, so
// that a reason alone never makes a write.
func reasonOf(r division.Reason, assumed []string) topology.Reason {
	params := maps.Clone(r.Params)
	if len(assumed) > 0 {
		if params == nil {
			params = map[string]string{}
		}
		params[ParamAssumed] = strings.Join(assumed, ",")
	}
	return topology.Reason{Code: r.Code, Params: params}
}

// planCopies gives every selected member a cell without replicas. A member that is selected no longer loses its copy at
// once: there is nothing to wait for.
func planCopies(d *draft) *kinds.Rejection {
	spec := topology.WorkloadPlacementSpec{Workload: d.workload.Ref, Policy: &d.facts.Policy}
	var names []string
	for i := range d.facts.Members {
		if m := &d.facts.Members[i]; m.Selected {
			spec.Cells = append(spec.Cells, topology.Cell{Cluster: m.Name, Reason: topology.Reason{Code: CellCopy}})
			names = append(names, m.Name)
		}
	}
	slices.SortFunc(spec.Cells, func(a, b topology.Cell) int { return strings.Compare(a.Cluster, b.Cluster) })
	assignSequences(d, &spec, d.last == nil)
	spec.Clusters = nameColumn(names)
	d.decision = Decision{Spec: spec}
	if len(names) == 0 {
		d.decision.Notes = []Note{{Reason: NoMember, Stalled: true, Message: noMember(d)}}
	}
	return nil
}

// placePerMember gives every selected member one cell with the whole object. How many pods the cell has is not decided
// here: it is what the member reports as desired, and 0 before its first report. A cell with 0 has no budget, so its
// member creates pods and updates none. Taints, room and failover do not apply: the pods belong to the nodes of the
// member.
//
// The limits are resolved on the sum over the selected members, and granted as those of divided workloads.
func placePerMember(d *draft) *kinds.Rejection {
	d.reschedule, d.workload.Open, d.workload.Replicas = nil, true, 0
	last := lastCells(d)
	for i := range d.facts.Members {
		m := &d.facts.Members[i]
		had := last[cellID{cluster: m.Name}]
		switch {
		case m.Selected:
			cell := topology.Cell{Cluster: m.Name, Replicas: d.desiredIn(m, had), Reason: topology.Reason{Code: CellPerMember}}
			if d.comesLate(had) {
				cell.Reason.Code = CellLateMember
			}
			if d.facts.Adopt {
				cell.Adoption.Phase = topology.AdoptionDiscovered // there are no replicas to discover
			}
			d.workload.Replicas += cell.Replicas
			d.spec.Cells = append(d.spec.Cells, cell)
		case had != nil && !d.revoked(m, had):
			d.spec.Cells = append(d.spec.Cells, topology.Cell{
				Cluster: m.Name, Adoption: had.Adoption, Reason: topology.Reason{Code: CellDeselected},
			})
		}
	}
	slices.SortFunc(d.spec.Cells, func(a, b topology.Cell) int { return strings.Compare(a.Cluster, b.Cluster) })
	d.result = divided{cells: d.spec.Cells, subsets: map[string]int32{"": d.workload.Replicas}}
	return nil
}

// desiredIn returns how many pods a member asks for, by its newest report. One that does not report any more, as after
// its Work was made again, keeps the last number.
func (d *draft) desiredIn(m *Member, had *topology.Cell) int32 {
	report, ok := d.reports[m.Name]
	switch {
	case ok && report.Use != nil:
		return report.Use[""].Desired
	case had != nil:
		return had.Replicas
	}
	return 0
}

// revoked reports whether a member that is not selected any more has no budget any more: it confirmed the order that
// takes the budget away, or its lease expired after that order was written. Its object is removed then, and not before:
// until then it may still disrupt what it was granted.
func (d *draft) revoked(m *Member, had *topology.Cell) bool {
	if had.Reason.Code != CellDeselected {
		return false
	}
	confirmed := d.reports[m.Name].Sequence >= had.Sequence
	expired := m.Silent && d.facts.Written[m.Name] >= had.Sequence
	return confirmed || expired
}

// Sooner returns the shorter of two times to wait, where 0 is never.
func Sooner(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// PolicyName names a policy in messages.
func PolicyName(p *topology.PolicyReference) string {
	if p == nil {
		return "no policy"
	}
	return p.Kind + " " + p.Name
}
