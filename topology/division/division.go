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
	// Region, and Within, are not part of the identity: they are what bounds and pools go by. Within is the zone that all of
	// the cell is in, where Zone is "".
	Region, Within string
	// Weight is relative to the other cells of the subset. 0: nothing new, only Min and what is there already.
	Weight int32
	// Min and Max bound the cell; Max nil means unbounded.
	Min int32
	Max *int32
	// Capacity is the room for how many replicas more than Current. nil: unknown, assumed to be enough. It is as old as
	// the report that it comes from: subtract what was placed here since then.
	Capacity *int32
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

// Unplaced is a number of replicas that no cell takes. Subset is "" for a workload without subsets and where the bounds of
// all subsets together leave a rest; then Reason is [UnplacedBounds].
type Unplaced struct {
	Subset   string
	Replicas int32
	Reason   Reason
}

// Divide divides in.Replicas over the subsets and the cells; the package comment has the rules. It fails for invalid input
// only (a negative number, min above max, a bad percentage, a cell of an unknown subset, two of one name), and the error
// names the object, the value and the remedy. Numbers that cannot be met are not an error: see [Plan.Unplaced].
func Divide(in Input) (Plan, error) {
	if err := validate(in); err != nil {
		return Plan{}, err
	}
	d, err := newDivider(in)
	if err != nil {
		return Plan{}, err
	}
	plan, err := d.divide()
	if err == nil && len(in.Subsets) > 1 && len(plan.Unplaced) > 0 {
		// Where an odd replica of the open subsets went to one that cannot place it, the next division would see that and
		// offer it to another. Doing so at once saves a write that changes the plan without a change of the input.
		for i := range plan.Subsets {
			d.current[i] = int64(plan.Subsets[i].Placed)
		}
		plan, err = d.divide()
	}
	if err != nil || !d.limited {
		return plan, err
	}
	return d.repeat(plan), nil
}

// settleRounds bounds how often a plan is divided again.
const settleRounds = 16

// repeat divides the plan again until that changes nothing: a limit that crosses others can leave room, or a min, that the
// next division would see, and a write that changes the plan without a change of the input is saved. Where limits make the
// plans go round, it is always the same one of them, so that nobody writes them in turn.
func (d *divider) repeat(plan Plan) Plan {
	seen := []Plan{plan}
	for range settleRounds {
		d.settle(plan)
		next, err := d.divide()
		if err != nil {
			return plan
		}
		if sameCells(plan.Cells, next.Cells) {
			next.Cells = plan.Cells // the plan that was there says why
			return next
		}
		if i := slices.IndexFunc(seen, func(p Plan) bool { return sameCells(p.Cells, next.Cells) }); i >= 0 {
			return slices.MinFunc(seen[i:], comparePlans)
		}
		seen, plan = append(seen, next), next
	}
	return plan
}

// comparePlans orders plans: what places more comes first, then what gives more to the first cells.
func comparePlans(a, b Plan) int {
	placed := func(p Plan) (sum int64) {
		for i := range p.Subsets {
			sum += int64(p.Subsets[i].Placed)
		}
		return sum
	}
	return cmp.Or(cmp.Compare(placed(b), placed(a)), slices.CompareFunc(b.Cells, a.Cells, func(b, a Share) int { return cmp.Compare(b.Replicas, a.Replicas) }))
}

func sameCells(a, b []Share) bool {
	return slices.EqualFunc(a, b, func(a, b Share) bool { return a.Replicas == b.Replicas })
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
