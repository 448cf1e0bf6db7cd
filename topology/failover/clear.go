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

// Clear returns the next step of leaving cells that belong to no subset any more: the parts are to run all that they ran. It lowers
// the orders of the parts where they would grow beyond the surge, and counts as waiting what is left out. unplaced is how many
// replicas no part has a place for; as many pods stay where they are. The package comment has the rules. A step from its own result
// with unchanged reports changes nothing.
func Clear(gone []Cell, parts []Part, unplaced int32, l Limits) []Order {
	orders := make([]Order, len(gone))
	want, need, filled, most := int64(unplaced), int64(unplaced), int64(0), int64(0)
	for _, p := range parts {
		of := p.lacks()
		want, need, filled, most = want+of.want, need+of.need, filled+of.filled, most-of.pods
	}
	if want == 0 {
		return orders // scaled to zero: everything goes at once
	}
	var turn []int
	for i := range gone {
		c := &gone[i]
		if c.Lost {
			stay(c, &orders[i])
			continue
		}
		turn = append(turn, i)
		need, most = need+int64(c.MayBreak), most-int64(c.MayAdd)
	}
	surge, broken := l.step()
	keep := need - int64(broken)
	if filled == 0 && !l.NoTwin {
		keep, surge = max(keep, 1), max(surge, 1)
	}
	// What serves somebody stays longest.
	slices.SortFunc(turn, func(a, b int) int {
		return cmp.Or(cmp.Compare(min(gone[b].Available, 1), min(gone[a].Available, 1)), cmp.Compare(gone[b].Key, gone[a].Key))
	})
	var left int64
	for _, i := range turn {
		serves := int64(min(gone[i].Available, gone[i].Have))
		stays := max(min(keep, serves), 0)
		if keep > serves && surge > 0 {
			stays = int64(gone[i].Have) // nothing needs the place of what serves nobody: it may yet
		}
		keep -= serves
		orders[i] = Order{Replicas: int32(stays), Leaving: int32(stays)}
		left += gone[i].there(orders[i])
	}
	if left > 0 {
		growParts(parts, most-left+want+int64(surge))
	}
	return orders
}

// lacking is what a part has and has not: how many replicas it is to have, how many of them are available, for how many something is
// to stay elsewhere, and how many pods there are, or may be, before it grows.
type lacking struct{ want, filled, need, pods int64 }

func (p *Part) lacks() lacking {
	var of lacking
	for i := range p.Cells {
		c := &p.Cells[i]
		if c.Lost {
			continue
		}
		of.want += int64(c.Want)
		if c.Gradual {
			of.pods += c.there(p.Orders[i])
		} else {
			of.pods += int64(min(c.Have, c.Want)) // what a rollout added there is within limits of its own
		}
		there := c.fills()
		of.need += int64(c.Want - there) // of a member that is not heard of, as it said last
		if c.Silent {
			continue
		}
		of.filled += int64(there)
		of.need -= int64(max(min(p.Orders[i].Leaving, c.Available-there), 0)) // these stand for replicas already
	}
	of.need = max(of.need, 0)
	return of
}

// growParts raises orders by most pods together; the rest waits.
func growParts(parts []Part, most int64) {
	var missing []division.Entry
	for _, p := range parts {
		for i := range p.Cells {
			entry := division.Entry{Key: p.Cells[i].Key}
			if more := int64(p.Orders[i].Replicas - p.Cells[i].Have); more > 0 && p.Cells[i].Want > p.Cells[i].Have && !p.Cells[i].Lost {
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
