package division

import (
	"slices"
)

// divider divides one input.
type divider struct {
	in      Input
	cells   []Cell  // sorted
	parts   []part  // by subset
	current []int64 // of each subset: decides ties of stage 1
	all     []limit
	limits  []limit // those that no group of a tree stands for
	floors  []int64 // of each cell, by the limits
	ceils   []int64
	why     []*limit // the limit that made the ceiling
	homes   []*part  // the subset of each cell; as what is above, where there are limits
	limited bool     // a limit changed what the subsets alone would give
}

// part is the cells of one subset.
type part struct {
	cells  []Cell
	offset int // of the first in divider.cells
	tree   *tree
	base   []Entry // of each cell, without the limits
	n      int64   // what stage 1 gave
	shares []int64 // of each cell
	rest   int64
	skewed bool
}

func newDivider(in Input) (*divider, error) {
	n := len(in.Subsets)
	d := &divider{in: in, cells: sortedCells(in), parts: make([]part, n), current: make([]int64, n)}
	if err := validateSorted(d.cells); err != nil {
		return nil, err
	}
	limits, err := limitsOf(in, d.cells)
	if err != nil {
		return nil, err
	}
	limits = slices.DeleteFunc(limits, func(l limit) bool {
		if !l.pool || len(l.cells) > 1 {
			return false
		}
		c := &d.cells[l.cells[0]] // its own room
		if free := int32(min(l.high-int64(c.Current), unlimitedRoom)); c.Capacity == nil || *c.Capacity > free {
			c.Capacity = &free
		}
		return true
	})
	d.all = limits
	d.makeParts()
	for i := range limits {
		l := &limits[i]
		if d.own(l) {
			continue
		}
		d.limits = append(d.limits, *l)
	}
	if len(d.limits) > 0 {
		d.floors, d.ceils, d.why = make([]int64, len(d.cells)), make([]int64, len(d.cells)), make([]*limit, len(d.cells))
		d.homes = make([]*part, 0, len(d.cells))
		for i := range d.parts {
			for range d.parts[i].cells {
				d.homes = append(d.homes, &d.parts[i])
			}
		}
	}
	return d, nil
}

// makeParts splits the cells, which are sorted, by subset.
func (d *divider) makeParts() {
	from := 0
	for i := range d.parts {
		to := from
		for to < len(d.cells) && d.cells[to].Subset == d.in.Subsets[i].Name {
			d.current[i] += int64(d.cells[to].Current)
			to++
		}
		p := &d.parts[i]
		p.cells, p.offset = d.cells[from:to], from
		if len(p.cells) > 0 {
			p.tree = newTree(&d.in.Spread, p.cells)
			p.base = baseEntries(&d.in, p.cells)
		}
		from = to
	}
}

// own gives a limit to the group, or to the cell, that it is for alone.
func (d *divider) own(l *limit) bool {
	first, last := l.cells[0], l.cells[len(l.cells)-1]
	for i := range d.parts {
		p := &d.parts[i]
		if first < p.offset || last >= p.offset+len(p.cells) {
			continue
		}
		if first != last || l.pool {
			return len(d.parts) == 1 && !l.pool && p.tree.bind(l, p.offset)
		}
		c := &p.cells[first-p.offset]
		e := &p.base[first-p.offset]
		boundCell(c, l)
		*e = entry(c, e.Weight, e.Key)
		return true
	}
	return false
}

// unlimitedRoom is more than any cell ever takes.
const unlimitedRoom = 1<<31 - 1

// boundCell narrows a cell's own bounds by a limit that holds for it alone.
func boundCell(c *Cell, l *limit) {
	if l.high < unlimitedRoom && (c.Max == nil || int64(*c.Max) > l.high) {
		c.Max = new(int32(l.high))
	}
	c.Min = max(c.Min, int32(min(l.low, unlimitedRoom)))
	if c.Max != nil {
		c.Min = min(c.Min, *c.Max)
	}
}

// baseEntries makes the cells of one subset receivers of seats, with the weights that the type of spread says.
func baseEntries(in *Input, cells []Cell) []Entry {
	unknown := int64(0) // of a cell that does not say its room: as much as the smallest that does
	for i := range cells {
		if c := &cells[i]; c.Capacity != nil && (unknown == 0 || roomOf(c) < unknown) {
			unknown = roomOf(c)
		}
	}
	unknown = max(unknown, 1)
	if in.Spread.Type == Compact {
		unknown = maxWeight
	}
	entries := make([]Entry, len(cells))
	keys := cellKeys(in.Salt, cells)
	for i := range cells {
		c := &cells[i]
		weight := leafWeight(&in.Spread, c)
		switch {
		case in.Spread.Type == "" || weight == 0:
		case c.Capacity == nil:
			weight = unknown
		default:
			weight = roomOf(c)
		}
		entries[i] = entry(c, weight, keys[i])
	}
	return entries
}

// cellKeys returns what ties go by, parts of one string.
func cellKeys(salt string, cells []Cell) []string {
	size := 0
	for i := range cells {
		c := &cells[i]
		size += len(salt) + len(c.Subset) + len(c.Cluster) + len(c.Zone) + 3
	}
	all := make([]byte, 0, size)
	ends := make([]int, len(cells))
	for i := range cells {
		c := &cells[i]
		for j, part := range [...]string{salt, c.Subset, c.Cluster, c.Zone} {
			if j > 0 {
				all = append(all, 0)
			}
			all = append(all, part...)
		}
		ends[i] = len(all)
	}
	whole := string(all)
	keys, from := make([]string, len(cells)), 0
	for i, to := range ends {
		keys[i], from = whole[from:to], to
	}
	return keys
}

// roomOf is what a cell could have: what it has, and its free room.
func roomOf(c *Cell) int64 { return int64(c.Current) + int64(max(*c.Capacity, 0)) }

// mostOf is what a cell can have at most by its room and by what is tried there; false where neither is known.
func mostOf(c *Cell) (int64, bool) {
	most, known := int64(0), false
	for _, more := range [...]*int32{c.Capacity, c.Growth} {
		if more == nil {
			continue
		}
		if here := int64(c.Current) + int64(max(*more, 0)); !known || here < most {
			most, known = here, true
		}
	}
	return most, known
}

// entry turns a cell into a receiver of seats with the cell's bounds.
func entry(c *Cell, weight int64, key string) Entry {
	e := Entry{Weight: weight, Min: int64(c.Min), Max: Unbounded, Current: int64(c.Current), Key: key, hash: spread(key)}
	if c.Max != nil {
		e.Max = int64(*c.Max)
	}
	if c.Frozen || c.Taint == NoSchedule || c.Taint == NoExecute {
		e.Max = min(e.Max, e.Current)
	} else if most, known := mostOf(c); known {
		e.Max = min(e.Max, most)
	}
	e.Min = min(e.Min, e.Max)
	if c.Taint == NoExecute {
		e.Min = 0
	}
	return e
}

// divide runs both stages.
func (d *divider) divide() (Plan, error) {
	hasCells := func(i int) bool { return len(d.parts[i].cells) > 0 }
	shares, err := divideSubsets(d.in.Replicas, d.in.Subsets, d.current, hasCells)
	if err != nil {
		return Plan{}, err
	}
	for i := range shares {
		d.parts[i].n = int64(shares[i].Replicas)
	}
	d.divideParts()
	return d.planOf(shares), nil
}

// planOf makes a plan of the shares of the parts, and of what stage 1 gave to the subsets.
func (d *divider) planOf(subsets []SubsetShare) Plan {
	left := d.in.Replicas
	plan := Plan{Cells: make([]Share, 0, len(d.cells)), Subsets: subsets}
	for i := range d.parts {
		p, s := &d.parts[i], &subsets[i]
		left -= s.Replicas
		plan.Cells = d.explain(plan.Cells, p)
		s.Placed = int32(p.n - p.rest)
		if p.rest > 0 {
			plan.Unplaced = append(plan.Unplaced, Unplaced{Subset: s.Name, Replicas: int32(p.rest), Reason: d.restReason(p)})
		}
	}
	if left > 0 {
		plan.Unplaced = append(plan.Unplaced, Unplaced{Replicas: left, Reason: Reason{Code: UnplacedBounds}})
	}
	return plan
}

// divideParts divides the number of each subset over its cells, within the limits over several subsets.
func (d *divider) divideParts() {
	for i := range d.ceils {
		d.floors[i], d.ceils[i], d.why[i] = 0, Unbounded, nil
	}
	for i := range d.parts {
		d.parts[i].divide(d)
	}
	if len(d.limits) > 0 {
		d.keepLimits()
	}
}

// divide divides the part's number over its cells. Cells with a taint come last: those that are to be left get what no
// other takes, and those to be avoided what the healthy ones do not.
func (p *part) divide(d *divider) {
	p.rest, p.skewed = p.n, false
	if len(p.cells) == 0 {
		return
	}
	entries := slices.Clone(p.base)
	if d.ceils != nil {
		for i := range entries {
			e := &entries[i]
			e.Max = min(e.Max, d.ceils[p.offset+i])
			e.Min = min(max(e.Min, d.floors[p.offset+i]), e.Max)
		}
	}
	p.freeze(entries)
	avoid, leave := false, false
	tops := make([]int64, len(entries))
	for i := range entries {
		e := &entries[i]
		tops[i] = e.Max
		switch p.cells[i].Taint {
		case PreferNoSchedule:
			avoid = true
			e.Max = max(e.Min, min(e.Current, e.Max))
		case NoExecute:
			leave = true
			e.Min, e.Max = 0, 0
		}
	}
	p.run(entries, true)
	if p.rest > 0 && avoid {
		p.again(entries, tops, PreferNoSchedule)
	}
	for _, cut := range []bool{false, true} { // those that are cut off last: nobody knows what runs there
		if p.rest > 0 && leave {
			p.leaveIn(entries, tops, cut)
		}
	}
}

// again divides from what was placed so far, none of which goes, not even for the floor of a group, and lets the cells
// with the taint take their part.
func (p *part) again(entries []Entry, tops []int64, taint Effect) {
	for i := range entries {
		e := &entries[i]
		e.Min, e.Current, e.held = p.shares[i], p.shares[i], 0
		if p.cells[i].Taint == taint {
			e.Max = tops[i]
		}
	}
	p.run(entries, true)
}

// leaveIn lets what nobody takes stay in the cells that are to be left, whatever the skew: in those that are cut off,
// or in the others. The rest have had their chance, so they get none of it.
func (p *part) leaveIn(entries []Entry, tops []int64, cut bool) {
	for i := range entries {
		e, c := &entries[i], &p.cells[i]
		e.Min, e.Max, e.Current, e.held = p.shares[i], p.shares[i], p.shares[i], 0
		if c.Taint == NoExecute && c.Frozen == cut {
			e.Min, e.Max, e.Current = 0, tops[i], tops[i]
		}
	}
	p.run(entries, false)
}

func (p *part) run(entries []Entry, level bool) {
	p.fill(entries, true)
	shares, rest, skewed := p.tree.divide(p.n, true, level)
	p.rest = rest
	if level {
		p.skewed = skewed
	}
	if p.shares == nil {
		p.shares = make([]int64, len(p.cells))
	}
	for leaf, cell := range p.tree.order {
		p.shares[cell] = shares[leaf]
	}
}

// fill makes the entries the leaves of the tree. Sticky: what runs stays.
func (p *part) fill(entries []Entry, sticky bool) {
	t := p.tree
	if t.limits == nil {
		t.limits = make([]int64, len(entries))
	}
	for leaf, cell := range t.order {
		c := &p.cells[cell]
		t.entries[leaf] = entries[cell]
		t.limits[leaf] = Unbounded
		if c.Max != nil {
			t.limits[leaf] = int64(*c.Max)
		}
		if c.Frozen || c.Taint == NoSchedule {
			t.limits[leaf] = min(t.limits[leaf], int64(c.Current))
		}
		if leafWeight(t.spread, c) == 0 {
			kept := entries[cell].Min
			if sticky {
				kept = max(kept, entries[cell].Current)
			}
			t.limits[leaf] = min(t.limits[leaf], kept)
		}
		if c.Taint == NoExecute {
			t.limits[leaf] = 0
		}
	}
}

// freeze makes what frozen cells have their floor: Floors above n are no claim against what is there. Where n is below
// all that, the floors that the user asked for come first; the tree knows those by what is held.
func (p *part) freeze(entries []Entry) {
	for i := range entries {
		if e := &entries[i]; stays(&p.cells[i]) {
			e.held = e.Max - e.Min
			e.Min = e.Max
		}
	}
}

// stays tells whether a cell is frozen, and is not to be left.
func stays(c *Cell) bool { return c.Frozen && c.Taint != NoExecute }
