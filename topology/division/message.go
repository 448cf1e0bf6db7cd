package division

import "fmt"

// Message says in one sentence why the cell has its number.
func (s Share) Message() string {
	place := (&Cell{Cluster: s.Cluster, Zone: s.Zone}).place()
	why, ok := s.Reason.OfCell()
	if !ok {
		why = "of " + s.Reason.String()
	}
	return fmt.Sprintf("%s has %d of %s: %s", place, s.Replicas, subsetTitle(s.Subset), why)
}

// OfCell says in a clause why a cell has its number; false where the code is none of a cell's.
func (r Reason) OfCell() (string, bool) {
	switch r.Code {
	case CellEven:
		return "that is an even share", true
	case CellWeight:
		return "that is its share by its weight of " + r.Params["weight"], true
	case CellAvailable:
		return "that is its share by the room that it has", true
	case CellCompact:
		return "clusters are filled one after the other, those in use first, then those with the most room", true
	case CellMin:
		if of, ok := r.Params["of"]; ok {
			return fmt.Sprintf("%s is at its min of %s", of, r.Params["min"]), true
		}
		return "that is its min", true
	case CellMax:
		if of, ok := r.Params["of"]; ok {
			return fmt.Sprintf("%s is at its max of %s", of, r.Params["max"]), true
		}
		return "that is its max", true
	case CellTainted:
		return fmt.Sprintf("it has a taint with effect %s that the policy does not tolerate", r.Params["effect"]), true
	case CellFull:
		return "it has no room for more", true
	case CellFrozen:
		return "it is unhealthy or cut off, so it gets nothing new and keeps what it has", true
	case CellKept:
		return "it has more than its share, since nothing that runs is moved for balance, or the others can take no more",
			true
	case CellWaiting:
		return "the others keep what they have, so it gets the next replicas that are added", true
	}
	return "", false
}

// Message says in one sentence why the subset has its number.
func (s SubsetShare) Message() string {
	why := "of " + s.Reason.String()
	switch s.Reason.Code {
	case SubsetReplicas:
		why = "its replicas are " + s.Reason.Params["replicas"]
	case SubsetEven:
		why = "that is an even share of what the other subsets leave"
	case SubsetRange:
		why = "the subsets are filled in order, first to their min, then to their max"
	case SubsetSumMismatch:
		why = fmt.Sprintf(
			"the replicas of all subsets do not sum to those of the workload, so its %s counts as a weight",
			s.Reason.Params["replicas"],
		)
	case SubsetNoCell:
		why = "no cluster matches it, so its part goes to the other subsets"
	case SubsetUnschedulable:
		why = "its pods cannot be scheduled, so it keeps those that have a node, and the other subsets take the rest"
		if low, ok := s.Reason.Params["min"]; ok {
			why = fmt.Sprintf(
				"its pods cannot be scheduled, so it keeps those that have a node and its min of %s, and the other subsets take "+
					"the rest",
				low,
			)
		}
	case SubsetReserved:
		why = "its pods that cannot be scheduled are kept, and others run in their place until they are ready"
	case SubsetNoAlternative:
		why = "its pods cannot be scheduled, but all other subsets are at their max or cannot schedule pods either, so " +
			"they wait here; add nodes or raise a max"
	case SubsetStandIn:
		why = "it runs pods in place of those that are not ready in other subsets"
	case SubsetReturning:
		why = "it gets its part back step by step; what runs in its place elsewhere goes when these pods are ready"
	}
	return fmt.Sprintf("%s has %d: %s", subsetTitle(s.Name), s.Replicas, why)
}

// Message says in one sentence what is not placed, why, and what to do.
func (u Unplaced) Message() string {
	why, ok := u.Reason.OfUnplaced()
	if !ok {
		why = "of " + u.Reason.String()
	}
	noun := "replicas"
	if u.Replicas == 1 {
		noun = "replica"
	}
	return fmt.Sprintf("%d %s of %s not placed: %s", u.Replicas, noun, subsetTitle(u.Subset), why)
}

// OfUnplaced says in a clause why replicas have no cell, and what to do; false where the code is none of theirs.
func (r Reason) OfUnplaced() (string, bool) {
	switch r.Code {
	case UnplacedNoCell:
		return "no cluster matches it; add a cluster or a zone with the labels of its node selector, or change the selector",
			true
	case UnplacedBounds:
		return "everything that may take more is at its max or has weight 0; raise a max or a weight, or lower the replicas",
			true
	case UnplacedCapacity:
		if r.Params["also"] == UnplacedFrozen {
			return "the clusters that may take more have no room or are unhealthy; add nodes or clusters, bring the unhealthy " +
				"ones back, or lower the replicas", true
		}
		return "the clusters that may take more have no room; add nodes or clusters, or lower the replicas", true
	case UnplacedSkew:
		return fmt.Sprintf("the rest of the fleet is full, and more where there is room would be above the max skew of %s; "+
			"add nodes where it is full, or raise maxSkew", r.Params["maxSkew"]), true
	case UnplacedTainted:
		return "the clusters that may take more have a taint that the policy does not tolerate; remove the taint, or " +
			"tolerate it", true
	case UnplacedFrozen:
		return "the clusters that may take more are unhealthy or cut off; bring them back, or add a cluster", true
	}
	return "", false
}

func subsetTitle(name string) string {
	if name == "" {
		return "the workload"
	}
	return fmt.Sprintf("subset %q", name)
}
