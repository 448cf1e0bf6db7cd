package division

// raise is a limit whose least is not reached: its cells as receivers of what is to come, and how much can come.
type raise struct {
	divider *divider
	entries []Entry // of each cell of the limit, from what it has to what it can have
	place   []int   // in entries, of each cell of the divider; -1 for a cell beside the limit
	most    []most  // those of groups before those of what is around them
}

// most is how much the cells of a limit that are in one group, or in one subset, can have together.
type most struct {
	places []int // in raise.entries
	sum    int64
}

// raise divides the least of a limit over its cells as their floors, as far as the cells beside them can give it: a
// floor that nothing can come for would take the part of one that can be met.
func (d *divider) raise(l *limit) {
	r := d.raiseOf(l)
	shares, _ := Seats(l.low, r.entries)
	for r.narrow(shares) {
		shares, _ = Seats(l.low, r.entries)
	}
	for k, cell := range l.cells {
		d.floors[cell] = max(d.floors[cell], shares[k])
	}
}

func (d *divider) raiseOf(l *limit) *raise {
	r := &raise{divider: d, entries: make([]Entry, len(l.cells)), place: make([]int, len(d.cells))}
	for i := range r.place {
		r.place[i] = -1
	}
	for k, cell := range l.cells {
		p, i := d.partOf(cell)
		e := p.base[i]
		high := p.shares[i]
		if e.Weight > 0 && p.cells[i].Taint != NoExecute { // others get nothing new, not for a floor either
			high = max(high, min(e.Max, d.ceils[cell], p.n))
		}
		r.place[cell] = k
		r.entries[k] = Entry{Weight: e.Weight, Min: p.shares[i], Max: high, Current: p.shares[i], Key: e.Key, hash: e.hash}
	}
	for i := range d.parts {
		if p := &d.parts[i]; len(p.cells) > 0 {
			r.bound(p, &p.tree.root)
		}
	}
	return r
}

// bound returns how much more the cells of the limit in a node can have together, and how much the other cells there
// can give, to those or to what is beside the node. A cell gives what it has above its floor, a frozen one nothing.
func (r *raise) bound(p *part, n *node) (take, give int64) {
	for i := range n.children {
		more, less := r.bound(p, &n.children[i])
		take, give = add(take, more), give+less
	}
	var sum, have int64
	var places []int
	for _, i := range p.tree.order[n.from:n.to] {
		share, k := p.shares[i], r.place[p.offset+i]
		sum += share
		if k >= 0 {
			have += share
			places = append(places, k)
		}
		switch {
		case n.children != nil: // counted there
		case k >= 0:
			take = add(take, r.entries[k].Max-share)
		case !stays(&p.cells[i]):
			give += max(share-max(p.base[i].Min, r.divider.floors[p.offset+i]), 0)
		}
	}
	come := max(n.high-sum, 0) // from beside the node
	if n == &p.tree.root {
		come = min(come, p.rest)
	}
	give = min(give, add(take, max(sum-n.low, 0)))
	if possible := add(give, come); possible < take {
		take = possible
		r.most = append(r.most, most{places: places, sum: have + take})
	}
	return take, give
}

// narrow lowers the ceilings of cells that are given more than they can have together, and tells whether there are any.
func (r *raise) narrow(shares []int64) (found bool) {
	for _, m := range r.most {
		entries, sum := make([]Entry, len(m.places)), int64(0)
		for i, k := range m.places {
			entries[i] = r.entries[k]
			sum += shares[k]
		}
		if sum <= m.sum {
			continue
		}
		found = true
		within, _ := Seats(m.sum, entries)
		for i, k := range m.places {
			r.entries[k].Max = within[i]
			shares[k] = min(shares[k], within[i])
		}
	}
	return found
}
