package division

import "strconv"

// explain appends the shares of a subset's cells with their reasons.
func (d *divider) explain(shares []Share, p *part) []Share {
	if len(p.cells) == 0 {
		return shares
	}
	proportional := p.proportional()
	even := evenWeights(p.base)
	shared := params{}
	for i := range p.cells {
		c := &p.cells[i]
		reason := d.cellReason(p, i, proportional[i], even, shared)
		shares = append(shares, Share{
			Subset: c.Subset, Cluster: c.Cluster, Zone: c.Zone, Replicas: int32(p.shares[i]), Reason: reason,
		})
	}
	p.groupReasons(&p.tree.root, shares[len(shares)-len(p.cells):])
	return shares
}

// proportional is the share that each cell would have by the type of spread and the user's bounds alone, in a fleet
// that has room and health everywhere and where nothing runs yet. Ties agree with what was placed, so that the
// comparison is stable.
func (p *part) proportional() []int64 {
	ideal := make([]Entry, len(p.cells))
	for i := range p.cells {
		c := &p.cells[i]
		ideal[i] = Entry{
			Weight: p.base[i].Weight, Min: int64(c.Min), Max: Unbounded, Current: p.shares[i],
			Key: p.base[i].Key, hash: p.base[i].hash,
		}
		if c.Max != nil {
			ideal[i].Max = int64(*c.Max)
		}
		if p.tree.spread.Type != "" && c.Capacity != nil {
			ideal[i].Max = min(ideal[i].Max, roomOf(c)) // these types are about room
			ideal[i].Min = min(ideal[i].Min, ideal[i].Max)
		}
	}
	p.fill(ideal, false)
	leaves, _, _ := p.tree.divide(p.n, false, true)
	shares := make([]int64, len(leaves))
	for leaf, cell := range p.tree.order {
		shares[cell] = leaves[leaf]
	}
	return shares
}

func evenWeights(entries []Entry) bool {
	for i := range entries {
		if entries[i].Weight != entries[0].Weight {
			return false
		}
	}
	return true
}

// params are the parameters of reasons by what they say, so that cells which say the same share them.
type params map[param]map[string]string

type param struct {
	name  string
	value int64
}

func (p params) of(name string, value int64) map[string]string {
	key := param{name, value}
	if p[key] == nil {
		p[key] = map[string]string{name: strconv.FormatInt(value, 10)}
	}
	return p[key]
}

// cellReason explains a share, given the proportional share.
func (d *divider) cellReason(p *part, i int, proportional int64, even bool, shared params) Reason {
	c, share := &p.cells[i], p.shares[i]
	if l := d.ceilingOf(p, i); l != nil && share < proportional {
		if l.pool {
			return Reason{Code: CellFull}
		}
		return Reason{CellMax, only(l.reason.Params, "max")}
	}
	if share != proportional {
		return otherReason(c, p.tree.spread.Type, share, proportional)
	}
	switch {
	case c.Max != nil && share == int64(*c.Max):
		return Reason{CellMax, shared.of("max", int64(*c.Max))}
	case c.Min > 0 && share == int64(c.Min):
		return Reason{CellMin, shared.of("min", int64(c.Min))}
	case p.tree.spread.Type == Available:
		return Reason{Code: CellAvailable}
	case p.tree.spread.Type == Compact:
		return Reason{Code: CellCompact}
	case even && p.base[i].Weight > 0:
		return Reason{Code: CellEven}
	}
	return Reason{CellWeight, shared.of("weight", p.base[i].Weight)}
}

// ceilingOf returns the limit that keeps a cell from getting more than its share, nil if none does.
func (d *divider) ceilingOf(p *part, i int) *limit {
	if d.why == nil || p.shares[i] != d.ceils[p.offset+i] {
		return nil
	}
	return d.why[p.offset+i]
}

// otherReason explains a share that is not the proportional one.
func otherReason(c *Cell, kind Type, share, proportional int64) Reason {
	most, known := mostOf(c)
	switch {
	case c.Frozen:
		return Reason{Code: CellFrozen}
	case c.Taint != "" && (share < proportional || c.Taint == NoExecute):
		return Reason{CellTainted, map[string]string{"effect": string(c.Taint)}}
	case kind == Compact && known && share == most:
		return Reason{Code: CellFull}
	case kind == Compact:
		return Reason{Code: CellCompact}
	case share > proportional:
		return Reason{Code: CellKept}
	case known && share == most:
		return Reason{Code: CellFull}
	}
	return Reason{Code: CellWaiting}
}

// groupReasons names the bound of a group as the reason of its cells, where the group is at the bound and a cell has no
// reason of its own for another number than its share.
func (p *part) groupReasons(n *node, shares []Share) {
	for i := range n.children {
		p.groupReasons(&n.children[i], shares)
	}
	if n.reason.Params == nil {
		return
	}
	var sum int64
	for _, cell := range p.tree.order[n.from:n.to] {
		sum += p.shares[cell]
	}
	var reason Reason
	switch {
	case sum == n.high:
		reason = Reason{CellMax, only(n.reason.Params, "max")}
	case sum == n.low && n.low > 0:
		reason = Reason{CellMin, only(n.reason.Params, "min")}
	default:
		return
	}
	for _, cell := range p.tree.order[n.from:n.to] {
		switch shares[cell].Reason.Code {
		case CellEven, CellWeight, CellAvailable, CellCompact:
			shares[cell].Reason = reason
		}
	}
}

// only keeps one of the two bounds of a limit, and what it is of.
func only(params map[string]string, bound string) map[string]string {
	return map[string]string{bound: params[bound], "of": params["of"]}
}

// restReason explains why the cells of a subset take no more: the first of skew, capacity, health, taints and bounds.
func (d *divider) restReason(p *part) Reason {
	if len(p.cells) == 0 {
		return Reason{Code: UnplacedNoCell}
	}
	if p.skewed {
		return Reason{UnplacedSkew, map[string]string{"maxSkew": strconv.Itoa(int(d.in.Spread.MaxSkew))}}
	}
	closed := make([]bool, len(p.cells)) // by a group that is at its max
	p.closeGroups(&p.tree.root, closed)
	blockers := map[string]bool{}
	for i := range p.cells {
		if !closed[i] {
			blockers[d.blocker(p, i)] = true
		}
	}
	switch {
	case blockers[UnplacedCapacity] && blockers[UnplacedFrozen]:
		return Reason{UnplacedCapacity, map[string]string{"also": UnplacedFrozen}}
	case blockers[UnplacedCapacity]:
		return Reason{Code: UnplacedCapacity}
	case blockers[UnplacedFrozen]:
		return Reason{Code: UnplacedFrozen}
	case blockers[UnplacedTainted]:
		return Reason{Code: UnplacedTainted}
	}
	return Reason{Code: UnplacedBounds}
}

// blocker returns the code of what keeps a cell from taking more, apart from the bounds of its groups.
func (d *divider) blocker(p *part, i int) string {
	c, l := &p.cells[i], d.ceilingOf(p, i)
	switch {
	case leafWeight(&d.in.Spread, c) == 0, c.Max != nil && p.shares[i] >= int64(*c.Max):
		return UnplacedBounds
	case l != nil && l.pool:
		return UnplacedCapacity
	case l != nil:
		return UnplacedBounds
	case c.Frozen:
		return UnplacedFrozen
	case c.Taint == NoSchedule || c.Taint == NoExecute:
		return UnplacedTainted
	}
	return UnplacedCapacity
}

// closeGroups marks the cells of all groups that are at their max.
func (p *part) closeGroups(n *node, closed []bool) {
	var sum int64
	for _, cell := range p.tree.order[n.from:n.to] {
		sum += p.shares[cell]
	}
	if sum >= n.high {
		for _, cell := range p.tree.order[n.from:n.to] {
			closed[cell] = true
		}
	}
	for i := range n.children {
		p.closeGroups(&n.children[i], closed)
	}
}
