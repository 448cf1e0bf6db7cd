package division

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// Input is everything that a division depends on.
type Input struct {
	// Replicas is the number to divide, 0 or more.
	Replicas int32
	// Subsets in the user's order, at least one. A workload without subsets has one with the name "".
	Subsets []Subset
	// Cells in any order; the result does not depend on it.
	Cells []Cell
	// Spread says how a subset's number goes over its cells.
	Spread Spread
	// Pools are room that several cells share, beside what [Cell.Capacity] says of each.
	Pools []Pool
	// Salt sets workloads apart, so that the odd replicas of many workloads do not all go to the same cell. Use what is
	// stable for a workload's life: its namespace and name, or its uid. Optional.
	Salt string
}

// Subset is a part of the workload as the user wrote it. Replicas excludes Min and Max. Percentages ("25%") are of
// [Input.Replicas] and rounded half up.
type Subset struct {
	Name               string
	Replicas, Min, Max *intstr.IntOrString
}

// Cell is one place that replicas of one subset can go to.
type Cell struct {
	// Subset, Cluster and Zone are the identity of the cell. Zone is "" where the workload does not name zones.
	Subset, Cluster, Zone string
	// Region, and Within, are not part of the identity: they are what bounds and pools go by. Within is the zone that all
	// of the cell is in, where Zone is "".
	Region, Within string
	// Weight is relative to the other cells of the subset. 0: nothing new, only Min and what is there already.
	Weight int32
	// Min and Max bound the cell; Max nil means unbounded.
	Min int32
	Max *int32
	// Capacity is the room for how many replicas more than Current. nil: unknown, assumed to be enough. It is as old as
	// the report that it comes from: subtract what was placed here since then.
	Capacity *int32
	// Growth bounds how many replicas more than Current the cell gets, whatever its room; nil: by Capacity alone. It is
	// what is tried in a place that found no node before, and says nothing of the room there: no weight goes by it.
	Growth *int32
	// Frozen: unhealthy or cut off. Gets nothing new, and loses nothing unless N or Max forces it.
	Frozen bool
	// Taint is the strongest taint that the workload does not tolerate, "" for none.
	Taint Effect
	// Current is the last decision, 0 for a new cell.
	Current int32
}

// zone is where the cell is, "" for more than one zone, or an unknown one.
func (c *Cell) zone() string { return cmp.Or(c.Zone, c.Within) }

// Effect is what a taint does.
type Effect string

// The effects that there are.
const (
	// PreferNoSchedule: the cell gets something new only when the others take no more.
	PreferNoSchedule Effect = "PreferNoSchedule"
	// NoSchedule: nothing new.
	NoSchedule Effect = "NoSchedule"
	// NoExecute: nothing new, and what is there goes as far as other cells can take it.
	NoExecute Effect = "NoExecute"
)

// Plan is the result of a division.
type Plan struct {
	// Cells has one share per input cell, sorted by subset (in the user's order), cluster, zone.
	Cells []Share
	// Subsets has one entry per subset in the user's order.
	Subsets []SubsetShare
	// Unplaced says what could not be placed, in the order of the subsets; empty if all is placed.
	Unplaced []Unplaced
}

// Share is the number of one cell.
type Share struct {
	Subset, Cluster, Zone string
	Replicas              int32
	Reason                Reason
}

// SubsetShare is the number of one subset: what stage 1 gives it, and how much of that its cells can take.
type SubsetShare struct {
	Name     string
	Replicas int32
	Placed   int32
	Reason   Reason
}

// Unplaced is a number of replicas that no cell takes. Subset is "" for a workload without subsets and where the bounds
// of all subsets together leave a rest; then Reason is [UnplacedBounds].
type Unplaced struct {
	Subset   string
	Replicas int32
	Reason   Reason
}

// Divide divides in.Replicas over the subsets and the cells; the package comment has the rules. It fails for invalid
// input only (a negative number, min above max, a bad percentage, a cell of an unknown subset, two of one name), and
// the error names the object, the value and the remedy. Numbers that cannot be met are not an error: see
// [Plan.Unplaced].
func Divide(in Input) (Plan, error) {
	if err := validate(in); err != nil {
		return Plan{}, err
	}
	d, err := newDivider(in)
	if err != nil {
		return Plan{}, err
	}
	plan, err := d.plan()
	if err != nil || !d.limited {
		return plan, err
	}
	return d.settled(plan)
}

// sortedCells returns a copy of the cells, sorted by subset (in the user's order), cluster, zone.
func sortedCells(in Input) []Cell {
	order := make(map[string]int, len(in.Subsets))
	for i, s := range in.Subsets {
		order[s.Name] = i
	}
	cells := slices.Clone(in.Cells)
	slices.SortFunc(cells, func(a, b Cell) int {
		if a.Subset != b.Subset {
			return cmp.Compare(order[a.Subset], order[b.Subset])
		}
		return cmp.Or(strings.Compare(a.Cluster, b.Cluster), strings.Compare(a.Zone, b.Zone))
	})
	return cells
}
