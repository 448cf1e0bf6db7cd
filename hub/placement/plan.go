package placement

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/topology/division"
	"github.com/flotilla-dev/flotilla/topology/waves"
)

// Facts are all that a decision depends on.
type Facts struct {
	// Kind is that of the workload.
	Kind         kinds.Kind
	Workload     kinds.Workload
	Policy       topology.PolicyReference
	Spread       topology.Spread
	Dependencies topology.Dependencies
	// Absent are the objects that the workload or the policy names and that do not exist on the hub.
	Absent map[topology.DependencyReference]bool
	// Local are those that stay on the hub because every cluster makes its own: tokens of ServiceAccounts.
	Local map[topology.DependencyReference]bool
	// Members are all that exist, sorted by name.
	Members []Member
	// Overrides are what the policy changes in members' manifests.
	Overrides Overrides
	// Adopt: what runs in members without a mark is taken over. Found is what members told of it, by the member's name.
	Adopt bool
	Found map[string]Found
	// Failover is what the policy says of members that are not heard of.
	Failover topology.Failover
	// Rollout is what the policy says of the order of updates, Word what a person said of its waves.
	Rollout topology.Rollout
	Word    string
	// RolledBack: the user's template failed, and Workload has the one of before.
	RolledBack bool
	// Answers are the last ones to questions of checks, by the questions' ids; Runs are how the Jobs of checks stand in members.
	Answers map[string]waves.Answer
	Runs    map[waves.RunKey]waves.Run
	// Object is the user's workload, which checks of waves are about.
	Object client.Object
	// Reschedule is what the policy says of pods that members find no node for; nil: they wait where they are.
	Reschedule *topology.Reschedule
	// Now is the time, Heard since when the hub is in contact with its API server.
	Now, Heard time.Time
	// News is when the agent of each member was heard last, by the hub's clock; none for not since the hub listens.
	News map[string]time.Time
	// Division is what divides the workload instead of the policy's spread, nil for none.
	Division *kinds.Division
	// Last is the last decision, nil for the first.
	Last *topology.WorkloadPlacementSpec
	// Reports are the newest of each member about this placement, by the member's name.
	Reports map[string]Report
	// MaxReported is the highest sequence that a member reported for the workload, of this placement or an earlier one.
	MaxReported int64
	// Written is the sequence of the order that stands in each member's Work, by the member's name.
	Written map[string]int64

	// left are the places whose replicas are to be elsewhere, with the reason.
	left map[place]string
	// takenBack is what the division starts from beside the last decision, by cell.
	takenBack map[cellID]int32
	// standings are what is known of the nodes of some cells.
	standings map[cellID]*standing
	// short: the decision leaves replicas unplaced.
	short bool
}

// Decision is a placement and what there is to say about it.
type Decision struct {
	Spec topology.WorkloadPlacementSpec
	// Notes are what a person should know, in a stable order.
	Notes []Note
	// Wave says what the wave under way waits for, "" where none is. Again is when the decision can change by time alone, 0 for
	// never.
	Wave  string
	Again time.Duration
	// Asks are what checks of the wave under way want asked.
	Asks []waves.Ask
}

// Note is a sentence about a decision. One with the reason Placed says something beside it. Stalled: nothing will help but a person's change.
type Note struct {
	Reason, Message string
	Stalled         bool
}

// Plan decides what goes where. It is pure: the same facts give the same decision, and a decision made from its own
// result and unchanged facts changes nothing.
func Plan(f Facts) (Decision, *kinds.Rejection) {
	selected := slices.ContainsFunc(f.Members, func(m Member) bool { return m.Selected })
	if !selected && (f.Last != nil || f.Workload.Mode != kinds.Copy) {
		return Decision{}, &kinds.Rejection{Reason: NoMember, Message: noMember(&f)}
	}
	if f.Workload.Mode == kinds.Copy {
		return planCopies(&f), nil
	}
	if decision, waits := look(&f); waits {
		return decision, nil
	}
	if refusal := checkFound(&f); refusal != nil {
		return Decision{}, refusal
	}
	f.adapt()
	before := f.Last
	f.Last = withFound(&f)
	f.Last = withRenamed(&f)
	f.Workload.Subsets = slices.Concat(f.Workload.Subsets, removedSubsets(&f))
	f.left = leftPlaces(&f)
	f.standings = standingsOf(&f)
	result, used, notes, refusal := settle(&f)
	if refusal != nil {
		return Decision{}, refusal
	}
	cells := markAdoption(&f, keepEmptied(&f, f.withoutDismissed(result.cells)))
	if len(cells) > topology.MaxCells {
		return Decision{}, &kinds.Rejection{Reason: TooManyCells, Message: fmt.Sprintf("%s would have %d cells (subsets × members), and at most %d are placed; use fewer subsets, or select fewer members",
			f.Workload.Key.Sentence(), len(cells), topology.MaxCells)}
	}
	sortCells(f.Workload.Subsets, cells)
	f.remember(cells)

	spec := topology.WorkloadPlacementSpec{
		Workload: f.Workload.Ref,
		Policy:   &f.Policy,
		Revision: f.Workload.Revision,
		Replicas: f.Workload.Replicas,
		Cells:    cells,
		Unplaced: result.unplaced,
	}
	if f.Reschedule != nil {
		spec.RescheduleAfter = f.rescheduleAfter().String()
	}
	if f.Division != nil {
		spec.Spread = &f.Division.Ref
		f.Workload.Remarks = slices.Concat(f.Workload.Remarks, f.Division.Remarks)
	}
	f.Overrides.mark(spec.Cells)
	newRevision := f.Last == nil || f.Last.Revision != spec.Revision
	wave := lend(&f, &spec, result.subsets, used, newRevision)
	spec.Wave = wave.Progress
	spec.Template, spec.Before = templateOf(&f, newRevision), beforeOf(&f, &spec, result.subsets, &wave, newRevision)
	f.Last = before
	number(&f, &spec, newRevision)
	for i := range spec.Cells {
		spec.Placed += spec.Cells[i].Replicas - spec.Cells[i].Leaving
	}
	notes = withWaveNotes(&f, &wave, slices.Concat(notes, dismissedNotes(&f, &spec), removedNotes(&f, &spec), shrinkNotes(&spec), moveNotes(&f, &spec), waitNotes(&f, &spec)))
	spec.Clusters = clusterColumn(spec.Cells)
	needs, needNotes := dependencies(&f)
	spec.Dependencies, notes = needs, append(notes, needNotes...)
	for _, remark := range slices.Concat(f.Workload.Remarks, f.Overrides.Remarks) {
		notes = append(notes, Note{Reason: Placed, Message: remark})
	}
	return Decision{Spec: spec, Notes: notes, Wave: wave.Waits, Asks: wave.Asks, Again: sooner(sooner(wave.Again, f.retryIn(&spec)), f.settlesIn(&spec))}, nil
}

func noMember(f *Facts) string {
	return fmt.Sprintf("%s %s selects no accepted member for %s; join and accept a member, or widen spec.clusters",
		f.Policy.Kind, f.Policy.Name, f.Workload.Key.Sentence())
}

// keepEmptied adds the cells of the last decision that no longer get replicas but still have some in use: their members
// are told 0, and the cell goes when they have reported that nothing is left, or when the member is gone.
func keepEmptied(f *Facts, cells []topology.Cell) []topology.Cell {
	if f.Last == nil {
		return cells
	}
	have, inCluster := map[cellID]bool{}, map[string]bool{}
	for i := range cells {
		have[idOf(&cells[i])] = true
		inCluster[cells[i].Cluster] = true
	}
	members := map[string]*Member{}
	for i := range f.Members {
		members[f.Members[i].Name] = &f.Members[i]
	}
	subsets := map[string]bool{}
	for i := range f.Workload.Subsets {
		subsets[f.Workload.Subsets[i].Name] = true
	}
	for i := range f.Last.Cells {
		last := f.Last.Cells[i]
		member := members[last.Cluster]
		if have[idOf(&last)] || member == nil || !subsets[last.Subset] || emptied(f, &last) {
			continue
		}
		if f.Workload.Open && inCluster[last.Cluster] {
			continue // the member object is one for all zones: the other cells carry on
		}
		code := CellUnmatched
		switch {
		case !member.Selected:
			code = CellExcluded
		case slices.ContainsFunc(f.Workload.Subsets, func(s kinds.Subset) bool { return s.Removed && s.Name == last.Subset }):
			code = CellSubsetRemoved
		}
		last.Replicas, last.Leaving, last.Reason = 0, 0, topology.Reason{Code: code}
		cells = append(cells, last)
	}
	return cells
}

// emptied tells whether a cell was told 0 replicas and its member has reported that none are left.
func emptied(f *Facts, last *topology.Cell) bool {
	report, ok := f.Reports[last.Cluster]
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
		return cmp.Or(cmp.Compare(order[a.Subset], order[b.Subset]), strings.Compare(a.Cluster, b.Cluster), strings.Compare(a.Zone, b.Zone),
			strings.Compare(a.SpreadSubset, b.SpreadSubset))
	})
}

// clustersInColumn is how many clusters the column of kubectl get names; a terminal is not wider.
const clustersInColumn = 8

// clusterColumn returns "east:5 south:3 west:4".
func clusterColumn(cells []topology.Cell) string {
	replicas := map[string]int32{}
	for i := range cells {
		replicas[cells[i].Cluster] += cells[i].Replicas - cells[i].Leaving
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
	if more := len(parts) - clustersInColumn; more > 0 {
		parts = append(parts[:clustersInColumn], fmt.Sprintf("and %d more", more))
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
