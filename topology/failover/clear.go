package failover

import (
	"cmp"
	"slices"

	"github.com/flotilla-dev/flotilla/topology/division"
)

// Part is a subset that stays, and what [Move] decided of it.
type Part struct {
	Cells  []Cell
	Orders []Order
}

// Rest is how much may stay where it is to go.
type Rest struct {
	// Unplaced is how many replicas no part has a place for: as many pods of cells that are gone stay where they are.
	Unplaced int32
	// Stay is how many pods may stay in cells that shrink.
	Stay int32
}

// Cleared is the outcome of a step.
type Cleared struct {
	// Orders has one order per cell that is gone, in the order given.
	Orders []Order
	// Unavailable and Surge are what the step uses of the limits.
	Unavailable, Surge int32
}

// Clear returns the next step of leaving cells that belong to no subset any more, and of cells that shrink: the parts
// are to run all that they ran. It raises the orders of cells that shrink by the pods that stay there, lowers those of
// others where they would grow beyond the surge, and counts as waiting what is left out. The limits are those of what
// is gone and of the parts that shrink. The package comment has the rules. A step from its own result with unchanged
// reports changes nothing.
func Clear(gone []Cell, parts []Part, rest Rest, l Limits) Cleared {
	out := Cleared{Orders: make([]Order, len(gone))}
	all := lacking{want: int64(rest.Unplaced)}
	for i := range parts {
		all.add(parts[i].lacks())
	}
	if all.want == 0 {
		return out // scaled to zero: everything goes at once
	}
	for i := range gone {
		if c := &gone[i]; !c.Lost {
			all.mayDisrupt, all.maySurge = all.mayDisrupt+int64(c.MayDisrupt), all.maySurge+int64(c.MaySurge)
		}
	}
	surge, broken := l.step()
	keep, least := all.need+all.mayDisrupt-int64(broken), int64(0)
	if all.filled == 0 && !l.NoTwin {
		least, surge = 1, max(surge, 1)
	}
	kept := keepInParts(parts, max(keep, least), int64(rest.Stay))
	leaveGone(gone, out.Orders, max(keep+int64(rest.Unplaced), least)-kept, surge > 0)
	pods, leaving := standing(gone, out.Orders, parts)
	if leaving > 0 {
		growParts(parts, all.want+int64(surge)-all.maySurge-pods)
	}
	pods, _ = standing(gone, out.Orders, parts)
	for i := range out.Orders {
		if !gone[i].Lost {
			kept += int64(out.Orders[i].Replaced)
		}
	}
	out.Surge = int32(min(max(pods+ordered(parts)-all.want, 0), int64(surge)))
	out.Unavailable = int32(min(max(all.need+int64(rest.Unplaced)-kept, 0), int64(broken)))
	return out
}

// leaveGone shrinks cells of no subset: as many of their available pods as keep stay. What serves somebody stays
// longest.
func leaveGone(gone []Cell, orders []Order, keep int64, surge bool) {
	var turn []int
	for i := range gone {
		if c := &gone[i]; c.Lost {
			stay(c, &orders[i])
		} else {
			turn = append(turn, i)
		}
	}
	slices.SortFunc(turn, func(a, b int) int {
		return cmp.Or(
			cmp.Compare(min(gone[b].Available, 1), min(gone[a].Available, 1)),
			cmp.Compare(gone[b].Key, gone[a].Key),
		)
	})
	for _, i := range turn {
		serves := int64(min(gone[i].Available, gone[i].Have))
		stays := max(min(keep, serves), 0)
		if keep > serves && surge {
			stays = int64(gone[i].Have) // nothing needs the place of what serves nobody: it may yet
		}
		keep -= serves
		orders[i] = Order{Replicas: int32(stays), Replaced: int32(stays)}
	}
}

// keepInParts keeps as many available pods as keep in cells that shrink, at most as many as most, and returns how many.
func keepInParts(parts []Part, keep, most int64) (kept int64) {
	for _, p := range parts {
		for i := range p.Cells {
			c := &p.Cells[i]
			if !c.Shrinks || c.Gradual || c.Lost || c.Silent {
				continue
			}
			stays := max(min(keep, most, int64(c.surplus())), 0)
			p.Orders[i].Replicas, p.Orders[i].Replaced = p.Orders[i].Replicas+int32(stays), int32(stays)
			keep, most, kept = keep-stays, most-stays, kept+stays
		}
	}
	return kept
}

// standing is how many pods there are, or may be, before the parts grow, and how many of them are to go.
func standing(gone []Cell, orders []Order, parts []Part) (pods, leaving int64) {
	for i := range gone {
		if c := &gone[i]; !c.Lost {
			pods, leaving = pods+c.there(orders[i]), leaving+c.there(orders[i])
		}
	}
	for _, p := range parts {
		shrinks := p.shrinks()
		for i := range p.Cells {
			c := &p.Cells[i]
			switch {
			case c.Lost:
				continue
			case c.Gradual, shrinks:
				pods += c.there(p.Orders[i])
			default:
				pods += int64(min(c.Have, c.Want)) // what a rollout added there is within limits of its own
			}
			if c.Shrinks {
				leaving += max(c.there(p.Orders[i])-int64(c.Want), 0)
			}
		}
	}
	return pods, leaving
}

// ordered is by how many pods the orders of parts grow.
func ordered(parts []Part) (n int64) {
	for _, p := range parts {
		for i := range p.Cells {
			if c := &p.Cells[i]; !c.Lost {
				n += max(int64(p.Orders[i].Replicas)-c.there(p.Orders[i]), 0)
			}
		}
	}
	return n
}

// shrinks tells whether a cell of the part shrinks: then the limits of the step are its own.
func (p *Part) shrinks() bool {
	return slices.ContainsFunc(p.Cells, func(c Cell) bool { return c.Shrinks })
}

// lacking is what a part has and has not: how many replicas it is to have, how many of them are available, for how many
// something is to stay elsewhere, and what a rollout may yet take and add within the limits of the step.
type lacking struct{ want, filled, need, mayDisrupt, maySurge int64 }

func (l *lacking) add(o lacking) {
	l.want, l.filled, l.need = l.want+o.want, l.filled+o.filled, l.need+o.need
	l.mayDisrupt, l.maySurge = l.mayDisrupt+o.mayDisrupt, l.maySurge+o.maySurge
}

func (p *Part) lacks() lacking {
	var of lacking
	shrinks := p.shrinks()
	for i := range p.Cells {
		c := &p.Cells[i]
		if c.Lost {
			continue
		}
		of.want += int64(c.Want)
		there := c.fills()
		of.need += int64(c.Want - there) // of a member that is not heard of, as it said last
		if c.Silent {
			continue
		}
		of.filled += int64(there)
		of.need -= int64(max(min(p.Orders[i].Replaced, c.Available-there), 0)) // these stand for replicas already
		if shrinks {
			of.mayDisrupt, of.maySurge = of.mayDisrupt+int64(c.MayDisrupt), of.maySurge+int64(c.MaySurge)
		}
	}
	of.mayDisrupt += min(of.need, 0) // what stays for a rollout stays already
	of.need, of.mayDisrupt = max(of.need, 0), max(of.mayDisrupt, 0)
	return of
}

// growParts raises orders by most pods together; the rest waits.
func growParts(parts []Part, most int64) {
	var missing []division.Entry
	for _, p := range parts {
		for i := range p.Cells {
			entry := division.Entry{Key: p.Cells[i].Key}
			if more := int64(p.Orders[i].Replicas - p.Cells[i].Have); more > 0 && p.Cells[i].Want > p.Cells[i].Have &&
				!p.Cells[i].Lost {
				entry.Weight, entry.Max = more, more
			}
			missing = append(missing, entry)
		}
	}
	given, _ := division.Seats(max(most, 0), missing)
	next := 0
	for _, p := range parts {
		for i := range p.Cells {
			if less := missing[next].Max - given[next]; less > 0 {
				p.Orders[i].Replicas -= int32(less)
				p.Orders[i].Waits += int32(less)
			}
			next++
		}
	}
}
