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

func ofCell(r topology.Reason) (string, bool) {
	switch r.Code {
	case decision.CellExcluded:
		return "the policy no longer selects the member, or it is not accepted any more; its pods go step by step, as others are available, and the cell goes when the member has reported that nothing is left", true
	case decision.CellAbandoned:
		return "the policy no longer selects the member, or it is not accepted any more, and it is not heard of, so others stand in for what it has; its order stays as it was until it is heard of again", true
	case decision.CellCopy:
		return "every member that the policy selects gets a copy", true
	case decision.CellPerMember:
		return "every member that the policy selects has the whole object; the number is how many pods the member asks for", true
	case decision.CellDeselected:
		return "the policy no longer selects the member, or it is not accepted any more; the object is removed there once the member " +
			"has confirmed that it may disrupt nothing", true
	case decision.CellUnmatched:
		return "the member no longer matches the subset; its pods go step by step, as others are available, and the cell goes when the member has reported that nothing is left", true
	case decision.CellSubsetRemoved:
		return "the workload has the subset no more; its pods go step by step, as others are available in the subsets that are left, and the cell goes when the member has reported that nothing is left", true
	case decision.CellLooking:
		return "the member is asked what runs there already, before it is adopted", true
	case decision.CellAdopted:
		return "the member had this many when the hub took them over", true
	case decision.CellRenamed:
		return fmt.Sprintf("the zone took the place of zone %s, which the member no longer has; the pods that ran there count here", r.Params[decision.ParamFrom]), true
	case decision.CellLost:
		return fmt.Sprintf("the member was not heard of for %s after it became NotReady, so it counts as lost and others stand in for what it has; its order stays as it was until it is back", r.Params[decision.ParamAfter]), true
	case decision.CellDraining:
		return "the member has a taint with NoExecute that the policy does not tolerate; its pods go step by step, as others are available", true
	case decision.CellUnschedulable:
		return fmt.Sprintf("the member found no node for some of its pods for %s, so others got them; it gets more once it has nodes again", r.Params[decision.ParamAfter]), true
	case decision.CellStandIn:
		return "other subsets have no nodes for a part of theirs, so that runs here; it stays here when they have nodes again", true
	case decision.CellShrinking:
		return "the cell is to have fewer pods than it has, and others are not available yet; those that are too many go as the others are", true
	case decision.CellReturned:
		return "the member is back, and others stand in for pods of it; those go step by step, as the others are available", true
	}
	return division.Reason{Code: r.Code, Params: r.Params}.OfCell()
}

// Unplaced says in a clause why replicas have no cell, and what to do; false where the code is none that this version
// knows. The clause then names the code.
func Unplaced(r topology.Reason) (string, bool) {
	if r.Code == decision.CellLooking {
		return "they are adopted where they run: the members are asked", true
	}
	if r.Code == decision.UnplacedMoving {
		return "they move: they start as the pods that they replace are gone, within maxSurge and maxUnavailable", true
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
