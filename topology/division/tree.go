package division

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// node is a group of the tree over the cells of one subset: leaves from to to, or children.
type node struct {
	from, to  int
	children  []node
	weight    int64
	low, high int64
	key       string
	reason    Reason // of low and high, if they are bounds of the user

	lo, hi, cur, kept, held, firm int64 // by sum
}

// tree is the cells of one subset in groups. entries are the leaves, in the tree's order.
// order[i] is the cell of leaf i.
type tree struct {
	spread  *Spread
	root    node
	order   []int
	entries []Entry
	limits  []int64 // what each leaf could take at most if it had all room
}

// groupKeys returns the names of the groups that a cell is in, from the first level on.
func groupKeys(by By, c *Cell) []string {
	switch by {
	case ByCluster:
		return []string{c.Cluster}
	case ByZone:
		return []string{c.Zone}
	case ByRegion:
		if c.Zone != "" {
			return []string{c.Region, c.Zone}
		}
		return []string{c.Region}
	}
	return nil
}

// newTree groups the cells of one subset, which are sorted.
func newTree(spread *Spread, cells []Cell) *tree {
	t := &tree{spread: spread, order: make([]int, len(cells)), entries: make([]Entry, len(cells))}
	for i := range t.order {
		t.order[i] = i
	}
	t.root = node{to: len(cells), high: Unbounded, weight: 1}
	zoned := func(c Cell) bool { return c.Zone != "" }
	if spread.By == "" || spread.By == ByCluster && !slices.ContainsFunc(cells, zoned) {
		return t
	}
	keys := make([][]string, len(cells))
	for i := range cells {
		keys[i] = groupKeys(spread.By, &cells[i])
	}
	slices.SortStableFunc(t.order, func(a, b int) int { return slices.Compare(keys[a], keys[b]) })
	t.group(&t.root, cells, keys, 0)
	return t
}

// group makes the children of a node by the names of one level.
func (t *tree) group(n *node, cells []Cell, keys [][]string, level int) {
	if len(keys[t.order[n.from]]) <= level {
		return
	}
	for from := n.from; from < n.to; {
		path := keys[t.order[from]]
		name := ""
		if level < len(path) {
			name = path[level]
		}
		to := from
		for to < n.to && at(keys[t.order[to]], level) == name {
			to++
		}
		child := node{from: from, to: to, high: Unbounded, key: n.key + "\x00" + name}
		child.weight = t.groupWeight(&cells[t.order[from]], level)
		t.group(&child, cells, keys, level+1)
		n.children = append(n.children, child)
		from = to
	}
}

func at(path []string, level int) string {
	if level < len(path) {
		return path[level]
	}
	return ""
}

// groupWeight is the weight that a bound gives to a group of a level; first is any cell of it.
func (t *tree) groupWeight(first *Cell, level int) int64 {
	for i := range t.spread.Bounds {
		b := &t.spread.Bounds[i]
		if b.Weight == nil || !b.holdsFor(first) {
			continue
		}
		onlyRegion := b.Zone == "" && b.Cluster == ""
		onlyZone, onlyCluster := b.Cluster == "" && b.Zone != "", b.Cluster != "" && b.Zone == ""
		switch {
		case t.spread.By == ByRegion && level == 0 && onlyRegion,
			t.spread.By == ByRegion && level == 1 && onlyZone,
			t.spread.By == ByZone && onlyZone,
			t.spread.By == ByCluster && onlyCluster:
			return int64(*b.Weight)
		}
	}
	return 1
}

// leafWeight is the weight of a cell among those of its group.
// It is that of the most precise bound that names its last level.
func leafWeight(spread *Spread, c *Cell) int64 {
	weight, precision := int64(c.Weight), 0
	for i := range spread.Bounds {
		b := &spread.Bounds[i]
		fields := 0
		for _, f := range [...]string{b.Region, b.Zone, b.Cluster} {
			if f != "" {
				fields++
			}
		}
		named := b.Cluster
		if spread.By == ByCluster && c.Zone != "" {
			named = b.Zone
		}
		if b.Weight != nil && named != "" && fields > precision && b.holdsFor(c) {
			weight, precision = int64(*b.Weight), fields
		}
	}
	return weight
}

// bind makes a limit the bound of the node that has exactly its cells, and tells whether there is one.
func (t *tree) bind(l *limit, offset int) bool {
	leaves := make([]int, len(l.cells))
	place := make([]int, len(t.order))
	for leaf, cell := range t.order {
		place[cell] = leaf
	}
	for i, cell := range l.cells {
		if cell -= offset; cell < 0 || cell >= len(place) {
			return false
		}
		leaves[i] = place[cell]
	}
	from, to := slices.Min(leaves), slices.Max(leaves)+1
	if to-from != len(leaves) {
		return false
	}
	n := t.root.find(from, to)
	if n == nil {
		return false
	}
	n.low, n.high, n.reason = max(n.low, l.low), min(n.high, l.high), l.reason
	return true
}

// find returns the node over exactly these leaves.
func (n *node) find(from, to int) *node {
	if n.from == from && n.to == to {
		return n
	}
	for i := range n.children {
		if c := &n.children[i]; c.from <= from && to <= c.to {
			return c.find(from, to)
		}
	}
	return nil
}

// sum sets the bounds of each group from those below it: lo and hi, what is there now (cur), that within the bounds
// (kept), the part of the cells' floors that is there (held), and that of the floors which the user asked for (firm).
// Each is at least firm, held, min(cur, lo), lo, kept and hi, in this order.
func (t *tree) sum(n *node, sticky bool) {
	n.lo, n.hi, n.cur, n.kept, n.held, n.firm = 0, 0, 0, 0, 0, 0
	if n.children == nil {
		for i := n.from; i < n.to; i++ {
			e := &t.entries[i]
			n.lo, n.hi = add(n.lo, e.Min), add(n.hi, e.Max)
			n.cur += min(e.Current, e.Max)
			n.kept += min(max(e.Current, e.Min), e.Max)
			n.held += min(e.Current, e.Min)
			n.firm += min(e.Current, e.Min-e.held)
		}
	}
	for i := range n.children {
		c := &n.children[i]
		t.sum(c, sticky)
		if t.weightOf(c) == 0 { // nothing new
			c.hi = c.lo
			if sticky {
				c.hi = max(c.lo, c.kept)
			}
		}
		n.lo, n.hi, n.cur, n.kept = add(n.lo, c.lo), add(n.hi, c.hi), add(n.cur, c.cur), add(n.kept, c.kept)
		n.held, n.firm = n.held+c.held, n.firm+c.firm
	}
	n.hi = min(n.hi, n.high)
	n.lo = min(max(n.lo, n.low), n.hi)
	n.cur, n.held, n.firm = min(n.cur, n.hi), min(n.held, n.hi), min(n.firm, n.hi)
	n.kept = min(max(n.kept, n.lo), n.hi)
}

// divide divides total over the leaves of the tree, from their entries. It returns one share for each leaf, the rest
// that no leaf takes, and whether the skew alone keeps that out. Without level the skew does not count.
func (t *tree) divide(total int64, sticky, level bool) (shares []int64, rest int64, skewed bool) {
	shares = make([]int64, len(t.entries))
	for i := range t.entries {
		if e := &t.entries[i]; e.Weight == 0 && sticky { // nothing new
			e.Max = min(e.Max, max(e.Min, e.Current))
		} else if e.Weight == 0 {
			e.Max = e.Min
		}
	}
	t.sum(&t.root, sticky)
	fits := min(total, t.root.hi)
	entries := t.entriesOf(&t.root, fits)
	if level && t.spread.MaxSkew > 0 {
		entries = t.level(fits, entries, sticky)
	}
	parts, above := t.allot(fits, entries, sticky)
	t.descend(&t.root, parts, shares, sticky)
	return shares, total - fits + above, above > 0
}

// entriesOf returns what is below a node as receivers of the node's own total, whatever the total of all is: so each n
// gives one of them one more, and so does the whole tree. As the total grows, they go from nothing to firm, held, what
// is there of the floors, the floors, what is kept, and hi; [Seats] does the steps that it knows itself. So no floor
// takes what runs, no group's floor takes from a frozen cell, and of those frozen cells give the most that have no
// floor of the user's.
func (t *tree) entriesOf(n *node, total int64) []Entry {
	if n.children == nil {
		return t.leavesOf(n, total)
	}
	var floors, there, held int64
	for i := range n.children {
		c := &n.children[i]
		floors, there, held = add(floors, c.lo), there+min(c.cur, c.lo), held+c.held
	}
	entries := make([]Entry, len(n.children))
	for i := range n.children {
		c := &n.children[i]
		entries[i] = Entry{Weight: t.weightOf(c), Min: c.lo, Max: c.hi, Current: c.kept, Key: c.key}
		switch e := &entries[i]; {
		case held > total:
			e.Min, e.Max, e.Current = c.firm, c.held, c.held
		case there > total:
			e.Min, e.Max, e.Current = c.held, min(c.cur, c.lo), min(c.cur, c.lo)
		case floors > total:
			e.Current = c.cur
		}
	}
	return entries
}

// leavesOf is entriesOf for a node of cells.
func (t *tree) leavesOf(n *node, total int64) []Entry {
	entries := t.entries[n.from:n.to]
	var frozen, held int64
	for i := range entries {
		e := &entries[i]
		frozen, held = frozen+e.held, held+min(e.Current, e.Min)
	}
	if frozen == 0 || held <= total {
		return entries
	}
	entries = slices.Clone(entries)
	for i := range entries {
		e := &entries[i]
		e.Min, e.Max = min(e.Current, e.Min-e.held), min(e.Current, e.Min)
		e.Current = e.Max
	}
	return entries
}

// weightOf is the weight of a group: where shares follow room, the sum of the room of its cells.
func (t *tree) weightOf(n *node) int64 {
	var sum int64
	for i := n.from; i < n.to; i++ {
		sum = add(sum, t.entries[i].Weight)
	}
	if t.spread.Type == "" {
		if sum == 0 {
			return 0 // nothing new for any of its cells
		}
		return n.weight
	}
	return sum
}

func (t *tree) descend(n *node, parts, shares []int64, sticky bool) {
	if n.children == nil {
		copy(shares[n.from:n.to], parts)
		return
	}
	for i := range n.children {
		c := &n.children[i]
		below, _ := t.allot(parts[i], t.entriesOf(c, parts[i]), sticky)
		t.descend(c, below, shares, sticky)
	}
}

func (t *tree) allot(n int64, entries []Entry, sticky bool) (shares []int64, rest int64) {
	switch {
	case t.spread.Type == Compact:
		return compact(n, entries, sticky)
	case sticky:
		return Seats(n, entries)
	}
	return Proportional(n, entries)
}

// level narrows the bounds of the first level's groups to a window of MaxSkew, [w, w+MaxSkew]: the highest one that
// keeps what the type of spread gives above its lower end. It cannot rise above what the smallest group can take;
// groups count for that unless they are dead, weigh nothing, or are at the user's own max. What runs above the window
// stays, unless there are fewer replicas now.
func (t *tree) level(total int64, entries []Entry, sticky bool) []Entry {
	skew := int64(t.spread.MaxSkew)
	var floors, kept int64
	counts, highest := make([]bool, len(entries)), int64(math.MaxInt32)
	for i, e := range entries {
		floors, kept = add(floors, e.Min), add(kept, min(max(e.Current, e.Min), e.Max))
		counts[i] = e.Weight > 0 && !t.excused(i)
		if counts[i] {
			highest = min(highest, e.Max)
		}
	}
	if floors > total {
		return entries // floors come first
	}
	w := t.window(total, entries, counts, highest)
	out := slices.Clone(entries)
	has, low, high := make([]int64, len(out)), make([]int64, len(out)), make([]int64, len(out))
	var raised, cut int64
	for i, e := range out {
		has[i] = min(max(e.Current, e.Min), e.Max)
		low[i], high[i] = e.Min, min(e.Max, max(e.Min, w+skew))
		if counts[i] {
			low[i] = max(low[i], min(w, e.Max))
		}
		raised, cut = add(raised, max(has[i], low[i])), add(cut, min(has[i], high[i]))
	}
	for i := range out {
		e := &out[i]
		e.room = e.Max
		switch {
		case !sticky:
			e.Min, e.Max = low[i], high[i]
		case kept <= total && total <= raised: // the groups below the window first
			e.Min, e.Max = has[i], max(has[i], low[i])
		case kept <= total:
			e.Min, e.Max = max(has[i], low[i]), max(has[i], high[i])
		case total >= cut: // the groups above the window first
			e.Min, e.Max = min(has[i], high[i]), has[i]
		default:
			e.Min, e.Max = min(low[i], has[i]), min(has[i], high[i])
		}
	}
	return out
}

// window returns the lower end of the window of [tree.level], from 0 to highest: the highest one that all groups reach.
// If that window is too low for all replicas, it is the next one, although some groups then get less than its lower
// end.
func (t *tree) window(total int64, entries []Entry, counts []bool, highest int64) int64 {
	narrow := slices.Clone(entries)
	holds := func(w int64) bool {
		for i, e := range entries {
			narrow[i].room = e.Max
			narrow[i].Max = min(e.Max, max(e.Min, w+int64(t.spread.MaxSkew)))
		}
		shares, _ := t.allot(total, narrow, false)
		for i := range shares {
			if counts[i] && shares[i] < w {
				return false
			}
		}
		return true
	}
	low, high := int64(0), highest
	for low < high {
		if w := (low + high + 1) / 2; holds(w) {
			low = w
		} else {
			high = w - 1
		}
	}
	var room int64
	for _, e := range entries {
		room = add(room, min(e.Max, max(e.Min, low+int64(t.spread.MaxSkew))))
	}
	if room < total && low < highest {
		return low + 1
	}
	return low
}

// excused tells whether a group of the first level does not hold the others down: nothing in it can get more for
// another reason than its room.
func (t *tree) excused(i int) bool {
	if t.root.children == nil {
		return t.limits[i] != Unbounded && t.limits[i] <= t.entries[i].Max
	}
	group := &t.root.children[i]
	limit := min(total(t.limits[group.from:group.to]), group.high)
	return limit != Unbounded && limit <= group.hi
}

// compact is [Seats] with another order: what is to be placed fills one entry after the other, those in use first, then
// those of the greatest weight; what is too much leaves in the opposite order.
func compact(n int64, entries []Entry, sticky bool) (shares []int64, rest int64) {
	s := newSolver(entries)
	n = max(n, 0)
	s.narrow(n, sticky)
	if possible := total(s.hi); possible < n {
		return s.hi, n - possible
	}
	order := make([]int, len(entries))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(
			-cmp.Compare(min(s.cur[a], 1), min(s.cur[b], 1)), -cmp.Compare(s.w[a], s.w[b]),
			cmp.Compare(s.hash[a], s.hash[b]), strings.Compare(entries[a].Key, entries[b].Key),
		)
	})
	copy(s.s, s.lo)
	left := n - total(s.lo)
	for _, i := range order {
		more := min(left, s.hi[i]-s.lo[i])
		s.s[i] += more
		left -= more
	}
	return s.s, 0
}
