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
	// Current is the last decision, 0 for a new cell.
	Current int32
}

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
	cells := sortedCells(in)
	groups := make([][]Cell, len(in.Subsets))
	current := make([]int64, len(in.Subsets))
	for i, rest := 0, cells; i < len(in.Subsets); i++ {
		n := 0
		for n < len(rest) && rest[n].Subset == in.Subsets[i].Name {
			current[i] += int64(rest[n].Current)
			n++
		}
		groups[i], rest = rest[:n], rest[n:]
	}

	plan, err := divide(in, groups, current)
	if err != nil || len(plan.Unplaced) == 0 || len(in.Subsets) == 1 {
		return plan, err
	}
	// Where an odd replica of the open subsets went to one that cannot place it, the next division would see that and
	// offer it to another. Doing so at once saves a write that changes the plan without a change of the input.
	for i := range plan.Subsets {
		current[i] = int64(plan.Subsets[i].Placed)
	}
	return divide(in, groups, current)
}

// divide runs both stages. groups holds the cells of each subset, current what each subset has, which decides ties.
func divide(in Input, groups [][]Cell, current []int64) (Plan, error) {
	shares, err := divideSubsets(in.Replicas, in.Subsets, current, func(i int) bool { return len(groups[i]) > 0 })
	if err != nil {
		return Plan{}, err
	}
	plan := Plan{Cells: make([]Share, 0, len(in.Cells)), Subsets: shares}
	left := in.Replicas
	for i := range shares {
		left -= shares[i].Replicas
		placed, unplaced := divideCells(shares[i].Replicas, groups[i], in.Salt)
		plan.Cells = append(plan.Cells, placed...)
		shares[i].Placed = shares[i].Replicas
		if unplaced != nil {
			unplaced.Subset = shares[i].Name
			shares[i].Placed -= unplaced.Replicas
			plan.Unplaced = append(plan.Unplaced, *unplaced)
		}
	}
	if left > 0 {
		plan.Unplaced = append(plan.Unplaced, Unplaced{Replicas: left, Reason: Reason{Code: UnplacedBounds}})
	}
	return plan, nil
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

// divideCells is stage 2: n over the cells of one subset.
func divideCells(n int32, cells []Cell, salt string) ([]Share, *Unplaced) {
	if len(cells) == 0 {
		if n == 0 {
			return nil, nil
		}
		return nil, &Unplaced{Replicas: n, Reason: Reason{Code: UnplacedNoCell}}
	}
	entries := make([]Entry, len(cells))
	for i := range cells {
		entries[i] = entry(&cells[i], salt)
	}
	freeze(int64(n), cells, entries)
	placed, rest := Seats(int64(n), entries)
	proportional := byWeight(n, cells, entries, placed)
	even := evenWeights(cells)

	shares := make([]Share, len(cells))
	for i := range cells {
		c := &cells[i]
		shares[i] = Share{
			Subset: c.Subset, Cluster: c.Cluster, Zone: c.Zone, Replicas: int32(placed[i]),
			Reason: cellReason(c, placed[i], proportional[i], even),
		}
	}
	if rest == 0 {
		return shares, nil
	}
	return shares, &Unplaced{Replicas: int32(rest), Reason: restReason(cells, placed)}
}

// entry turns a healthy cell into the receiver of seats with the cell's bounds.
func entry(c *Cell, salt string) Entry {
	e := Entry{
		Weight:  int64(c.Weight),
		Min:     int64(c.Min),
		Max:     Unbounded,
		Current: int64(c.Current),
		Key:     strings.Join([]string{salt, c.Subset, c.Cluster, c.Zone}, "\x00"),
	}
	if c.Max != nil {
		e.Max = int64(*c.Max)
	}
	if c.Frozen {
		e.Max = min(e.Max, e.Current)
	} else if c.Capacity != nil {
		e.Max = min(e.Max, e.Current+int64(max(*c.Capacity, 0)))
	}
	e.Min = min(e.Min, e.Max)
	return e
}

// freeze makes the frozen cells keep all that they have while n allows it. The healthy ones give first, down to their
// floors; a floor that a healthy cell does not have yet takes nothing from a frozen cell either. Only an n below all that
// makes the frozen cells share what remains.
func freeze(n int64, cells []Cell, entries []Entry) {
	var frozen, held int64 // held: the part of the floors that the healthy cells have already
	for i := range cells {
		if cells[i].Frozen {
			frozen += entries[i].Max
		} else {
			held += min(entries[i].Min, entries[i].Current)
		}
	}
	if frozen == 0 {
		return
	}
	for i := range cells {
		e := &entries[i]
		switch {
		case n < frozen+held && !cells[i].Frozen:
			e.Min = min(e.Min, e.Current)
			e.Max = e.Min
		case n >= frozen+held && cells[i].Frozen:
			// Floors above n are no claim against what is there, since Seats keeps that first.
			e.Min = e.Max
		}
	}
}

// byWeight is the share that each cell would have by weight and the user's bounds alone, in a fleet that has room and
// health everywhere and where nothing runs yet. Ties agree with what was placed, so that the comparison is stable.
func byWeight(n int32, cells []Cell, entries []Entry, placed []int64) []int64 {
	ideal := make([]Entry, len(cells))
	for i := range cells {
		ideal[i] = Entry{Weight: int64(cells[i].Weight), Min: int64(cells[i].Min), Max: Unbounded, Current: placed[i], Key: entries[i].Key}
		if cells[i].Max != nil {
			ideal[i].Max = int64(*cells[i].Max)
		}
	}
	shares, _ := Proportional(int64(n), ideal)
	return shares
}

func evenWeights(cells []Cell) bool {
	for i := range cells {
		if cells[i].Weight != cells[0].Weight {
			return false
		}
	}
	return true
}
