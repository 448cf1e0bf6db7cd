package explain

import (
	"fmt"
	"strings"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/decision"
	"github.com/flotilla-dev/flotilla/topology/division"
)

// Cell says in a clause why a cell has its number; false where the code is none that this version knows. The clause
// then names the code.
func Cell(r topology.Reason) (string, bool) {
	why, ok := ofCell(r)
	if !ok {
		why = fmt.Sprintf(
			"its reason is %s, which this version does not know",
			division.Reason{Code: r.Code, Params: r.Params},
		)
	}
	if assumed := r.Params[decision.ParamAssumed]; assumed != "" {
		why += fmt.Sprintf(
			" (the hub does not know the node labels %s and takes them to match)",
			strings.ReplaceAll(assumed, ",", ", "),
		)
	}
	return why, ok
}

// ofCell says in a clause why a cell has its number; false for a code that this version does not know.
func ofCell(r topology.Reason) (string, bool) {
	switch r.Code {
	case decision.CellRenamed:
		return fmt.Sprintf("the zone took the place of zone %s, which the member no longer has; the pods that ran there "+
			"count here", r.Params[decision.ParamFrom]), true
	case decision.CellLost:
		return fmt.Sprintf("the member was unreachable for %s after it became NotReady, so it counts as lost and others "+
			"replace what it has; its order stays as it was until it is back", r.Params[decision.ParamAfter]), true
	case decision.CellUnschedulable:
		return fmt.Sprintf("the member found no node for some of its pods for %s, so others got them; it gets more once it "+
			"has nodes again", r.Params[decision.ParamAfter]), true
	}
	if why, ok := cellReasons()[r.Code]; ok {
		return why, true
	}
	return division.Reason{Code: r.Code, Params: r.Params}.OfCell()
}

// cellReasons are the clauses without parameters.
func cellReasons() map[string]string {
	return map[string]string{
		decision.CellExcluded: "the policy no longer selects the member, or it is not accepted any more; its pods go step " +
			"by step, as others are available, and the cell goes when the member has reported that nothing is left",
		decision.CellAbandoned: "the policy no longer selects the member, or it is not accepted any more, and it is " +
			"unreachable, so others replace what it has; its order stays as it was until it is back",
		decision.CellCopy: "every member that the policy selects gets a copy",
		decision.CellPerMember: "every member that the policy selects has the whole object; the number is how many pods " +
			"the member asks for",
		decision.CellLateMember: "the member joined after the job had created pods, so its nodes come after those of all " +
			"others; the number is how many nodes it has",
		decision.CellDeselected: "the policy no longer selects the member, or it is not accepted any more; the object is " +
			"removed there once the member " +
			"has confirmed that it may disrupt nothing",
		decision.CellUnmatched: "the member no longer matches the subset; its pods go step by step, as others are " +
			"available, and the cell goes when the member has reported that nothing is left",
		decision.CellSubsetRemoved: "the workload has the subset no more; its pods go step by step, as others are " +
			"available in the subsets that are left, and the cell goes when the member has reported that nothing is left",
		decision.CellAlone: "the policy lets one member start the jobs, and it is this one",
		decision.CellStopping: "another member is to start the jobs, and this one has not confirmed yet that it starts none; " +
			"if it is lost, let another one start them with: flotilla fence NAME --confirm",
		decision.CellStopped: "the member starts no jobs any more, and another one is to start them",
		decision.CellStandby: "the policy lets one member start the jobs, and it is another one; the object is paused here",
		decision.CellTicksMoved: "the member was fenced, so another one starts the jobs; when it is back, it starts none " +
			"before it has read that",
		decision.CellLooking: "the member is asked what runs there already, before it is adopted",
		decision.CellAdopted: "the member had this many when the hub took them over",
		decision.CellFenced: "the member was lost and ran no pod, so its ordinals went to other members; " +
			"when it gets pods again they have other ordinals",
		decision.CellDraining: "the member has a taint with NoExecute that the policy does not tolerate; its pods go step " +
			"by step, as others are available",
		decision.CellStandIn: "other subsets have no nodes for a part of theirs, so that runs here; it stays here when " +
			"they have nodes again",
		decision.CellShrinking: "the cell is to have fewer pods than it has, and others are not available yet; those that " +
			"are too many go as the others are",
		decision.CellReturned: "the member is back, and others replace pods of it; those go step by step, as the " +
			"others are available",
	}
}

// Unplaced says in a clause why replicas have no cell, and what to do; false where the code is none that this version
// knows. The clause then names the code.
func Unplaced(r topology.Reason) (string, bool) {
	if r.Code == decision.CellLooking {
		return "they are adopted where they run: the members are asked", true
	}
	if r.Code == decision.UnplacedMoving {
		return "they move: they start as what they replace is gone, within maxSurge and maxUnavailable", true
	}
	if r.Code == decision.UnplacedOrdinals {
		return "no ordinals are left for them: remove spec.reserveOrdinals, or create the workload again", true
	}
	reason := division.Reason{Code: r.Code, Params: r.Params}
	if why, ok := reason.OfUnplaced(); ok {
		return why, true
	}
	return fmt.Sprintf("the reason is %s, which this version does not know", reason), false
}

// Page is the page that explains every reason, as a path in the repository.
const Page = "docs/errors.md"

// Anchor returns where Page explains a reason.
func Anchor(reason string) string { return Page + "#" + strings.ToLower(reason) }
