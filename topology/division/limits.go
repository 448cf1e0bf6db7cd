package division

import "slices"

// keepLimits makes the sums of cells keep the limits that no group of one tree stands for. A limit that is exceeded
// becomes a ceiling of each of its cells, one that is not reached a floor, divided like any other number; each at most
// once, and ceilings hold in any case. Then the subsets are divided again. Cells that have no other place to go to come
// first, and a pool never takes what is there.
func (d *divider) keepLimits() {
	capped, raised := make([]bool, len(d.limits)), make([]bool, len(d.limits))
	for {
		touched := make([]bool, len(d.cells))
		changed := false
		for i := range d.limits {
			if l := &d.limits[i]; !capped[i] && d.sumOf(l) > l.high && !anyOf(touched, l.cells) {
				capped[i], changed = true, true
				d.lower(l)
				mark(touched, l.cells)
			}
		}
		for i := 0; !changed && i < len(d.limits); i++ {
			if l := &d.limits[i]; !raised[i] && d.sumOf(l) < l.low {
				raised[i], changed = true, true
				d.raise(l)
			}
		}
		if !changed {
			return
		}
		d.limited = true
		for i := range d.parts {
			d.parts[i].divide(d)
		}
	}
}

func anyOf(touched []bool, cells []int) bool {
	return slices.ContainsFunc(cells, func(i int) bool { return touched[i] })
}

func mark(touched []bool, cells []int) {
	for _, i := range cells {
		touched[i] = true
	}
}

// partOf returns the subset of a cell, and the cell's place in it.
func (d *divider) partOf(cell int) (*part, int) {
	p := d.homes[cell]
	return p, cell - p.offset
}

func (d *divider) sumOf(l *limit) (sum int64) {
	for _, cell := range l.cells {
		p, i := d.partOf(cell)
		sum += p.shares[i]
	}
	return sum
}

// lower divides the most of a limit over its cells as their ceilings.
func (d *divider) lower(l *limit) {
	entries := make([]Entry, len(l.cells))
	keeps, needs := make([]int64, len(l.cells)), make([]int64, len(l.cells))
	needed := d.needs(l)
	var wanted int64
	for k, cell := range l.cells {
		p, i := d.partOf(cell)
		e := p.base[i]
		entries[k] = Entry{
			Weight:  max(e.Weight, 1),
			Max:     p.shares[i],
			Current: min(e.Current, p.shares[i]),
			Key:     e.Key,
			hash:    e.hash,
		}
		if l.pool || stays(&p.cells[i]) {
			keeps[k] = entries[k].Current
		}
		needs[k] = min(needed[p], p.shares[i])
		needed[p] -= needs[k]
		wanted += max(needs[k], entries[k].Current)
	}
	for k := range entries {
		switch {
		case wanted <= l.high: // nobody has to lose anything
			entries[k].Min = max(needs[k], entries[k].Current)
		case l.pool:
			entries[k].Min, entries[k].Max = keeps[k], max(keeps[k], needs[k])
		default:
			entries[k].Min = max(keeps[k], needs[k])
		}
	}
	shares, _ := Seats(l.high, entries)
	for k, cell := range l.cells {
		if shares[k] < d.ceils[cell] {
			d.ceils[cell], d.why[cell] = shares[k], l
		}
	}
}

// needs returns how much of each subset has no other place than the cells of a limit.
func (d *divider) needs(l *limit) map[*part]int64 {
	needs := map[*part]int64{}
	for i := range d.parts {
		p := &d.parts[i]
		var elsewhere int64
		for j := range p.cells {
			if _, within := slices.BinarySearch(l.cells, p.offset+j); !within {
				elsewhere = add(elsewhere, min(p.base[j].Max, d.ceils[p.offset+j]))
			}
		}
		needs[p] = max(p.n-elsewhere, 0)
	}
	return needs
}
