package failover

import (
	"cmp"
	"slices"

	"github.com/flotilla-dev/flotilla/topology/division"
)

// Cell is a place of pods: all that a subset has in one member.
type Cell struct {
	// Key identifies the cell and breaks ties.
	Key string
	// Have is the order as it stands, 0 for a new cell. Replaced is how many of it already run elsewhere.
	Have, Replaced int32
	// Want is what the division gives the cell.
	Want int32
	// Available and Total are the pods that its member reports.
	Available, Total int32
	// Lost: the member counts as lost. Silent: it is not heard of, and does not count as lost.
	Lost, Silent bool
	// Gradual: what is above Want goes only as others get available. Else it goes at once.
	Gradual bool
	// Shrinks: the member is not left, and the cell is to have fewer while others lack pods. [Move] takes what is above
	// Want at once, and [Clear] keeps of the available pods what others lack.
	Shrinks bool
	// MayDisrupt and MaySurge are what a rollout that goes on in the cell may yet make unavailable, and add.
	MayDisrupt, MaySurge int32
}

// Limits are those of the workload, or of its subset, in pods.
type Limits struct {
	Unavailable, Surge int32
	// NoTwin: never two pods for one replica.
	NoTwin bool
}

// Order is what a cell is told.
type Order struct {
	// Replicas is the order, Replaced how many of it are above what the cell is to have.
	Replicas, Replaced int32
	// Waits is how many replicas the cell is to get once others are gone.
	Waits int32
}

// Moved is the outcome of a step.
type Moved struct {
	// Orders has one order per cell, in the order given.
	Orders []Order
	// Unavailable and Surge are what the step uses of the limits: nobody else may use that.
	Unavailable, Surge int32
}

// Move returns the next step from what cells have to what they are to have. The package comment has the rules. A step
// from its own result with unchanged reports changes nothing.
func Move(cells []Cell, l Limits) Moved {
	out := Moved{Orders: make([]Order, len(cells))}
	var all, want, filled, need, maySurge, moving, pods int64
	for i := range cells {
		c := &cells[i]
		out.Orders[i] = Order{Replicas: c.Want}
		all += int64(c.Want)
		if c.Lost {
			continue
		}
		want += int64(c.Want)
		maySurge += int64(c.MaySurge)
		if c.Gradual {
			moving += int64(max(c.Have-c.Want, c.Total-c.Want, 0))
			pods += int64(c.Total)
		}
		there := c.fills()
		need += int64(c.Want - there) // of a member that is not heard of, as it said last
		if c.Silent {
			continue
		}
		if !c.Gradual {
			pods += int64(there)
		}
		filled += int64(there)
		need += int64(c.MayDisrupt)
	}
	if all == 0 {
		return out // scaled to zero: everything goes at once
	}
	for i := range cells {
		if c := &cells[i]; c.Lost || c.Silent && !c.Gradual {
			stay(c, &out.Orders[i])
		}
	}
	if moving == 0 {
		return out
	}
	surge, broken := l.step()
	keep := need - int64(broken)
	if filled == 0 && !l.NoTwin {
		keep = max(keep, 1)
		surge = max(surge, 1)
	}
	roomy := surge > 0 && want+int64(surge)-maySurge > pods
	leave(cells, out.Orders, keep, roomy)
	grow(cells, out.Orders, want+int64(surge)-maySurge)
	out.use(cells, filled, want, min(surge, l.Surge), broken)
	return out
}

// step returns how many pods there may be above the replicas, and how many may be missing: one of both is 0.
func (l Limits) step() (surge, broken int32) {
	surge, broken = max(l.Surge, 0), max(l.Unavailable, 0)
	switch {
	case l.NoTwin:
		return 0, max(broken, 1)
	case surge > 0:
		return surge, 0
	case broken == 0:
		return 1, 0
	}
	return 0, broken
}

// stay leaves the order of a member that is not heard of.
func stay(c *Cell, o *Order) {
	o.Replaced = max(c.Have-c.Want, 0)
	if !c.Lost {
		o.Replaced = min(o.Replaced, c.Replaced)
	}
	o.Replicas = c.Want + o.Replaced
}

// leave shrinks the gradual cells: of the available pods that are to go, as many as keep stay, last in members that are
// not heard of, and first in the last cells by key. Pods that are not available stay as well where still more are
// missing, if roomy: nobody needs their place.
func leave(cells []Cell, orders []Order, keep int64, roomy bool) {
	var gradual []int
	for i := range cells {
		if c := &cells[i]; c.Gradual && !c.Lost && c.Have > c.Want {
			gradual = append(gradual, i)
		}
	}
	slices.SortFunc(gradual, func(a, b int) int {
		return cmp.Or(cmp.Compare(cells[a].turn(), cells[b].turn()), cmp.Compare(cells[b].Key, cells[a].Key))
	})
	for _, i := range gradual {
		c := &cells[i]
		serves := int64(c.surplus())
		stays := min(max(keep, 0), serves)
		if roomy && keep > serves {
			stays = int64(c.Have - c.Want) // what is not available may yet be
		}
		keep -= serves
		orders[i] = Order{Replicas: c.Want + int32(stays), Replaced: int32(stays)}
	}
}

// turn tells which cells keep pods before others.
func (c *Cell) turn() int {
	if c.Silent {
		return 1
	}
	return 0
}

// grow raises orders as far as most pods may exist; the rest waits.
func grow(cells []Cell, orders []Order, most int64) {
	missing := make([]division.Entry, len(cells))
	for i := range cells {
		c := &cells[i]
		missing[i].Key = c.Key
		if c.Lost {
			continue
		}
		most -= c.there(orders[i])
		if more := int64(c.Want - c.Have); more > 0 {
			missing[i].Weight, missing[i].Max = more, more
		}
	}
	given, _ := division.Seats(max(most, 0), missing)
	for i := range cells {
		if more := missing[i].Max; more > 0 {
			orders[i].Replicas, orders[i].Waits = cells[i].Have+int32(given[i]), int32(more-given[i])
		}
	}
}

// fills is how many available pods a cell has of those that it is to have. What is beyond its order goes again: a
// rollout added it.
func (c *Cell) fills() int32 { return min(c.Available, c.Want, c.Have) }

// surplus is how many available pods a cell has above those that it is to have.
func (c *Cell) surplus() int32 { return max(min(c.Available, c.Have)-c.Want, 0) }

// there is how many pods there are in a cell, or may still be, before its order grows: also those that go, and those
// that a rollout added.
func (c *Cell) there(o Order) int64 {
	if c.Silent && !c.Gradual {
		return int64(min(c.Have, o.Replicas))
	}
	return int64(max(min(o.Replicas, c.Have), c.Total))
}

// use tells what the step uses of the limits.
func (m *Moved) use(cells []Cell, filled, want int64, surge, broken int32) {
	var orders, left int64
	for i := range cells {
		if cells[i].Lost {
			continue
		}
		orders += int64(m.Orders[i].Replicas)
		if c := &cells[i]; c.Gradual {
			orders += int64(max(c.Total-m.Orders[i].Replicas, 0)) // they go, and are there as yet
		}
		left += int64(m.Orders[i].Replaced)
	}
	m.Surge = int32(min(max(orders-want, 0), int64(surge)))
	m.Unavailable = int32(min(max(want-filled-left, 0), int64(broken)))
}
