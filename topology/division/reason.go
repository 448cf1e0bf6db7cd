package division

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Reason says why a number is what it is. Code is one of the constants of this package. Params hold what the user set
// (bounds, weights, percentages), never a figure that lives on its own; a reason can still become another one while the
// number stays (a full cell gets room again), so write a reason only together with a changed number.
type Reason struct {
	Code   string
	Params map[string]string
}

// Reasons of a subset's number.
const (
	// SubsetReplicas: the user gave the number. Params: replicas.
	SubsetReplicas = "Replicas"
	// SubsetEven: left open, an even share of what the others leave.
	SubsetEven = "Even"
	// SubsetRange: filled in order, first all floors, then up to the ceilings. Params: min, max, where given.
	SubsetRange = "Range"
	// SubsetSumMismatch: the numbers of all subsets do not sum to N, so they count as weights. Params: replicas.
	SubsetSumMismatch = "SumMismatch"
	// SubsetNoCell: no cell matches, so what the user left open goes to the other subsets.
	SubsetNoCell = "NoCell"
)

// Reasons of a subset's number that [Adaptive] and [Reserve] add. Where none of them applies it is [SubsetRange] or
// [SubsetReplicas].
const (
	// SubsetUnschedulable: its pods could not be scheduled, so it has those with a node and its min only. Params: min, if
	// given.
	SubsetUnschedulable = "Unschedulable"
	// SubsetReserved: its pods that cannot be scheduled are kept, and others run in their place.
	SubsetReserved = "Reserved"
	// SubsetNoAlternative: its pods could not be scheduled, and no other subset may take them.
	SubsetNoAlternative = "NoAlternative"
	// SubsetStandIn: more than its own part, in place of pods that are not ready elsewhere.
	SubsetStandIn = "StandIn"
	// SubsetReturning: gets its part back step by step, while stand-ins still run.
	SubsetReturning = "Returning"
)

// Reasons of a cell's number.
const (
	// CellEven: an even share; all cells of the subset weigh the same.
	CellEven = "Even"
	// CellWeight: its share by weight. Params: weight.
	CellWeight = "Weight"
	// CellAvailable: its share by the room that it has.
	CellAvailable = "Available"
	// CellCompact: filled in its turn; cells in use go first, then those with the most room.
	CellCompact = "Compact"
	// CellMin: at the floor of the cell, or of a group that it is in. Params: min, and of for a group.
	CellMin = "Min"
	// CellMax: at the ceiling of the cell, or of a group that it is in. Params: max, and of for a group.
	CellMax = "Max"
	// CellFull: less than its share, the cell has no room for more.
	CellFull = "Full"
	// CellFrozen: another number than its share; an unhealthy or cut off cell gets nothing new and keeps what it has.
	CellFrozen = "Frozen"
	// CellTainted: another number than its share, because of a taint of its cluster that the workload does not tolerate.
	// Params: effect.
	CellTainted = "Tainted"
	// CellKept: more than its share; nothing that runs is moved for balance, or other cells cannot take theirs.
	CellKept = "Kept"
	// CellWaiting: less than its share, because other cells keep what they have; the next added replicas come here.
	CellWaiting = "Waiting"
)

// Reasons of unplaced replicas.
const (
	// UnplacedNoCell: no cell matches the subset.
	UnplacedNoCell = "NoCell"
	// UnplacedBounds: all subsets, or all cells of the subset, are at their max, or weigh 0.
	UnplacedBounds = "Bounds"
	// UnplacedCapacity: the cells that could take more have no room. Params: also=Frozen, if some of them are frozen.
	UnplacedCapacity = "Capacity"
	// UnplacedSkew: the groups that have room are as far above the smallest one as they may be. Params: maxSkew.
	UnplacedSkew = "Skew"
	// UnplacedTainted: the cells that could take more have a taint that the workload does not tolerate.
	UnplacedTainted = "Tainted"
	// UnplacedFrozen: the cells that could take more are unhealthy or cut off.
	UnplacedFrozen = "Frozen"
)

// String returns the code and the sorted parameters, as in "Max(max=3)".
func (r Reason) String() string {
	if len(r.Params) == 0 {
		return r.Code
	}
	params := make([]string, 0, len(r.Params))
	for _, k := range slices.Sorted(maps.Keys(r.Params)) {
		params = append(params, k+"="+r.Params[k])
	}
	return r.Code + "(" + strings.Join(params, ",") + ")"
}

// String prints the plan, one line per subset, cell and unplaced number, each with its reason.
func (p Plan) String() string {
	var b strings.Builder
	cells := p.Cells
	for _, s := range p.Subsets {
		name := s.Name
		if name == "" {
			name = "(whole)"
		}
		fmt.Fprintf(&b, "%s: %d of %d placed, %s\n", name, s.Placed, s.Replicas, s.Reason)
		for len(cells) > 0 && cells[0].Subset == s.Name {
			c := cells[0]
			place := c.Cluster
			if c.Zone != "" {
				place += "/" + c.Zone
			}
			fmt.Fprintf(&b, "  %s: %d, %s\n", place, c.Replicas, c.Reason)
			cells = cells[1:]
		}
	}
	for _, u := range p.Unplaced {
		name := u.Subset
		if name == "" {
			name = "(whole)"
		}
		fmt.Fprintf(&b, "unplaced of %s: %d, %s\n", name, u.Replicas, u.Reason)
	}
	return b.String()
}
