package agent

import (
	"slices"
	"time"
)

const (
	// apartFrom is from what difference on clocks are told to be apart, until it is less than apartUntil: a difference in
	// between leaves what was told.
	apartFrom, apartUntil = time.Minute, 30 * time.Second
	// apartBy is how much a difference must change to be told anew.
	apartBy = 15 * time.Second
	// heardOf is how many renewals are looked at together.
	heardOf = 2
)

// comparison is that of an agent's clock with the hub's. Nothing is decided by it: it is told to people.
type comparison struct {
	last []time.Duration
	told time.Duration
}

// enough tells whether the comparison says anything yet.
func (c *comparison) enough() bool { return len(c.last) == heardOf }

// hear takes up by how much a renewal was ahead of the hub's clock when the hub saw it. What comes late makes that less
// than it is, never more, so the largest of the last few is the nearest.
func (c *comparison) hear(ahead time.Duration) {
	if c.last = append(c.last, ahead); len(c.last) > heardOf {
		c.last = slices.Delete(c.last, 0, 1)
	}
	apart := slices.Max(c.last)
	switch {
	case apart.Abs() < apartUntil:
		c.told = 0
	case c.told == 0 && (apart.Abs() < apartFrom || !c.enough()), (apart - c.told).Abs() < apartBy:
	default:
		c.told = apart.Round(time.Second)
	}
}
