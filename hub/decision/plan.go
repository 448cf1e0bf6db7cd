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
	for _, step := range steps(f.Kind.Mode, f.Workload.Alone) {
		if rejection := step(d); rejection != nil {
			return Decision{}, rejection
		}
		if d.done {
			break
		}
	}
	return d.decision, nil
}

// steps are those of a decision, in their order. A rejection ends it, and so does a step that completes it. alone: the
// workload runs in one member.
func steps(mode kinds.Mode, alone bool) []func(*draft) *kinds.Rejection {
	switch mode {
	case kinds.Copy:
		return []func(*draft) *kinds.Rejection{requireMember, planCopies}
	case kinds.PerMember:
		place := placePerMember
		if alone {
			place = placeOne
		}
		return []func(*draft) *kinds.Rejection{
			requireMember,
			place,
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
	notes = slices.Concat(notes, unknownNotes(d))
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
	text := fmt.Sprintf("%s %s selects no accepted member for %s; join and accept a member, or widen spec.clusters",
		d.facts.Policy.Kind, d.facts.Policy.Name, d.workload.Key.Sentence())
	if len(d.facts.UnknownMembers) > 0 {
		text += "; there is no member " + listed(d.facts.UnknownMembers)
	}
	return text
}

// NoSuchMember is the part of a note before the names of members that a policy names and that do not exist.
const NoSuchMember = " names no such member: "

// unknownNotes says which members the policy names and that do not exist: by a mistyped name replicas go elsewhere.
func unknownNotes(d *draft) []Note {
	if len(d.facts.UnknownMembers) == 0 {
		return nil
	}
	return []Note{{Reason: Placed, Message: PolicyName(&d.facts.Policy) + NoSuchMember + listed(d.facts.UnknownMembers)}}
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

// Reasons of the conditions Federated and Stalled on the user's object, from the decision.
const (
	// Placed: the workload is placed as it asks.
	Placed = "Placed"
	// NoPolicy: no policy selects the workload; nothing is created.
	NoPolicy = "NoPolicy"
	// PolicyMissing: the policy that placed the workload is gone or selects it no longer; what is placed is frozen.
	PolicyMissing = "PolicyMissing"
	// NamespaceNotFederated: the namespace lost its label; what is placed is frozen.
	NamespaceNotFederated = "NamespaceNotFederated"
	// NotLabelled: a cluster-scoped object without the label that federates it; what is placed is frozen.
	NotLabelled = "NotLabelled"
	// Conflict: a policy of Karmada propagates the workload too; what is placed is frozen.
	Conflict = "Conflict"
	// Removing: an earlier placement is still being removed.
	Removing = "Removing"
	// Withdrawn: the user's annotation removed what was placed.
	Withdrawn = "Withdrawn"
	// InvalidWithdraw: the annotation that withdraws a workload has a value that says neither how; what is placed is
	// frozen.
	InvalidWithdraw = "InvalidWithdraw"
	// NoMember: the policy selects no accepted member.
	NoMember = "NoMember"
	// SubsetUnmatched: no member matches the node selector of a subset.
	SubsetUnmatched = "SubsetUnmatched"
	// Unplaced: some replicas have no cell.
	Unplaced = "Unplaced"
	// DependencyMissing: an object that the pods need does not exist on the hub; the workload is placed all the same.
	DependencyMissing = "DependencyMissing"
	// TooManyDependencies: the pods need more objects than go with one workload.
	TooManyDependencies = "TooManyDependencies"
	// OrdinalsUsedUp: no ordinals are left for some replicas; pods that run stay.
	OrdinalsUsedUp = "OrdinalsUsedUp"
	// HandOverCut: values that replacement pods are to get are too large; the workload is placed all the same.
	HandOverCut = "HandOverCut"
	// TooManyCells: the workload would have more cells than a placement holds.
	TooManyCells = "TooManyCells"

	// Adopting: members are asked what runs there already. AdoptionRefused: it cannot be adopted as it is.
	Adopting        = "Adopting"
	AdoptionRefused = "AdoptionRefused"
	// WaveFailed: a wave of the update failed; no pod is updated any more.
	WaveFailed = "WaveFailed"
	// JobHalted: a job halted in a member, so that it touches no further node anywhere. JobFailed: it failed in a member.
	JobHalted = "JobHalted"
	JobFailed = "JobFailed"
	// InvalidOverride: an override of the policy does not fit the workload; nothing is delivered.
	InvalidOverride = "InvalidOverride"
)

// Reasons of a cell's number that are not the division's own.
const (
	// CellExcluded: the policy no longer selects the member, or it is not accepted any more; what is leaving there
	// goes as others get available.
	CellExcluded = "Excluded"
	// CellAbandoned: as CellExcluded, and the member is not heard of, so that others stand in for what is leaving there.
	CellAbandoned = "Abandoned"
	// CellUnmatched: the member no longer matches the subset; what is leaving there goes as others get available.
	CellUnmatched = "Unmatched"
	// CellSubsetRemoved: the workload has the subset no more; what is leaving there goes as others get available in
	// the other subsets.
	CellSubsetRemoved = "SubsetRemoved"
	// CellCopy: every selected member gets a copy.
	CellCopy = "Copy"
	// CellPerMember: every selected member gets the whole object, and the number is how many pods the member asks for.
	CellPerMember = "PerMember"
	// CellLateMember: as CellPerMember, of a member that joined after a job created pods. Its nodes come last.
	CellLateMember = "LateMember"
	// CellDeselected: the policy no longer selects the member, or it is not accepted any more; the object is removed there
	// once the member confirmed that it has no budget.
	CellDeselected = "Deselected"
	// CellAlone: the workload runs in one member, and this one starts the jobs.
	CellAlone = "Alone"
	// CellStopping: the member is told to start no jobs, and has not confirmed it yet. CellStopped: it has, and no member
	// has its ticks since. CellStandby: it starts no jobs, and another member has the ticks.
	CellStopping = "Stopping"
	CellStopped  = "Stopped"
	CellStandby  = "Standby"
	// CellTicksMoved: the member was fenced, and another one starts the jobs.
	CellTicksMoved = "TicksMoved"
	// CellLooking: the member is asked what runs there, before it is adopted.
	CellLooking = "Looking"
	// CellAdopted: the member had this many when the hub took them over.
	CellAdopted = "Adopted"
	// CellRenamed: the pods of a zone that the member no longer has count for this one, which took its place.
	CellRenamed = "ZoneRenamed"
	// CellLost: the member is lost, and others stand in for what is leaving there. Params: after.
	CellLost = "Lost"
	// CellFenced: the member was lost and is known to run no pod, so that its ordinals went to others.
	CellFenced = "OrdinalsMoved"
	// CellDraining: the member has a taint with NoExecute; what is leaving there goes as others get available.
	CellDraining = "Draining"
	// CellReturned: the member is back; what others stand in for goes as those are available.
	CellReturned = "Returned"
	// CellShrinking: the cell is to have fewer, and others lack pods; what is leaving there goes as those are available.
	CellShrinking = "Shrinking"
	// CellUnschedulable: the member found no node for some pods, and others got their replicas. Params: after.
	CellUnschedulable = "Unschedulable"
	// CellStandIn: the cell has more than its subset is to have, in place of pods that other subsets have no nodes for.
	CellStandIn = "StandIn"
	// UnplacedOrdinals: the member has no ordinals for the replicas.
	UnplacedOrdinals = "OrdinalsUsedUp"
	// UnplacedMoving: the replicas start when pods that are to go are gone.
	UnplacedMoving = "Moving"
)

// ParamAfter is the parameter of the reason CellLost that says how long a member is NotReady until it is lost.
const ParamAfter = "after"

// ParamFrom is the parameter of CellRenamed that names the zones whose pods count for this one, separated by ", ".
const ParamFrom = "from"

// ParamAssumed is the parameter of a cell's reason that lists the node labels which the hub does not know; they are
// assumed to match, and the member's scheduler decides.
const ParamAssumed = "assumed"
