package division

import "fmt"

// Message says in one sentence why the cell has its number.
func (s Share) Message() string {
	place := (&Cell{Cluster: s.Cluster, Zone: s.Zone}).place()
	why := "of " + s.Reason.String()
	switch s.Reason.Code {
	case CellEven:
		why = "that is an even share"
	case CellWeight:
		why = "that is its share by its weight of " + s.Reason.Params["weight"]
	case CellMin:
		why = "that is its min"
	case CellMax:
		why = "that is its max"
	case CellFull:
		why = "it has no room for more"
	case CellFrozen:
		why = "it is unhealthy or cut off, so it gets nothing new and keeps what it has"
	case CellKept:
		why = "it keeps what it has, more than its share, since nothing that runs is moved for balance"
	case CellWaiting:
		why = "the others keep what they have, so it gets the next replicas that are added"
	}
	return fmt.Sprintf("%s has %d of %s: %s", place, s.Replicas, subsetTitle(s.Subset), why)
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
		why = fmt.Sprintf("the replicas of all subsets do not sum to those of the workload, so its %s counts as a weight", s.Reason.Params["replicas"])
	case SubsetNoCell:
		why = "no cluster matches it, so its part goes to the other subsets"
	case SubsetUnschedulable:
		why = "its pods cannot be scheduled, so it keeps those that have a node, and the other subsets take the rest"
		if low, ok := s.Reason.Params["min"]; ok {
			why = fmt.Sprintf("its pods cannot be scheduled, so it keeps those that have a node and its min of %s, and the other subsets take the rest", low)
		}
	case SubsetReserved:
		why = "its pods that cannot be scheduled are kept, and others run in their place until they are ready"
	case SubsetNoAlternative:
		why = "its pods cannot be scheduled, but all other subsets are at their max or cannot schedule pods either, so they wait here; add nodes or raise a max"
	case SubsetStandIn:
		why = "it runs pods in place of those that are not ready in other subsets"
	case SubsetReturning:
		why = "it gets its part back step by step; what runs in its place elsewhere goes when these pods are ready"
	}
	return fmt.Sprintf("%s has %d: %s", subsetTitle(s.Name), s.Replicas, why)
}

// Message says in one sentence what is not placed, why, and what to do.
func (u Unplaced) Message() string {
	why := "of " + u.Reason.String()
	switch u.Reason.Code {
	case UnplacedNoCell:
		why = "no cluster matches it; add a cluster or a zone with the labels of its node selector, or change the selector"
	case UnplacedBounds:
		why = "everything that may take more is at its max or has weight 0; raise a max or a weight, or lower the replicas"
	case UnplacedCapacity:
		why = "the clusters that may take more have no room; add nodes or clusters, or lower the replicas"
		if u.Reason.Params["also"] == UnplacedFrozen {
			why = "the clusters that may take more have no room or are unhealthy; add nodes or clusters, bring the unhealthy ones back, or lower the replicas"
		}
	case UnplacedFrozen:
		why = "the clusters that may take more are unhealthy or cut off; bring them back, or add a cluster"
	}
	noun := "replicas"
	if u.Replicas == 1 {
		noun = "replica"
	}
	return fmt.Sprintf("%d %s of %s not placed: %s", u.Replicas, noun, subsetTitle(u.Subset), why)
}

func subsetTitle(name string) string {
	if name == "" {
		return "the workload"
	}
	return fmt.Sprintf("subset %q", name)
}
