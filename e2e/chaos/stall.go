package main

import (
	"slices"
	"time"
)

// stall is a time in which the machine, or a program on it, stood still, as it was measured.
type stall struct {
	from, to time.Time
	// machine tells that this process itself stood still, and not only another one.
	machine bool
}

// stalls are apart from each other, and in order.
type stalls []stall

// merged returns the times that are in any of the stalls.
func merged(all []stall) stalls {
	sorted := slices.Clone(all)
	slices.SortFunc(sorted, func(a, b stall) int { return a.from.Compare(b.from) })
	var out stalls
	for _, s := range sorted {
		switch n := len(out); {
		case !s.to.After(s.from):
		case n > 0 && !s.from.After(out[n-1].to):
			out[n-1].to = later(out[n-1].to, s.to)
		default:
			out = append(out, s)
		}
	}
	return out
}

// within returns how much of a time was stood still.
func (s stalls) within(from, to time.Time) time.Duration {
	total := time.Duration(0)
	for _, one := range s {
		if begin, end := later(one.from, from), earlier(one.to, to); end.After(begin) {
			total += end.Sub(begin)
		}
	}
	return total
}

// before returns the time from which on there was so much time until at, without what was stood still.
func (s stalls) before(at time.Time, d time.Duration) time.Time {
	for i := len(s) - 1; i >= 0; i-- {
		if !s[i].from.Before(at) {
			continue
		}
		if ran := at.Sub(s[i].to); ran >= d {
			break
		} else if ran > 0 {
			d -= ran
		}
		at = s[i].from
	}
	return at.Add(-d)
}

// after returns the time at which there has been so much time since at, without what was stood still.
func (s stalls) after(at time.Time, d time.Duration) time.Time {
	for _, one := range s {
		if !one.to.After(at) {
			continue
		}
		if ran := one.from.Sub(at); ran >= d {
			break
		} else if ran > 0 {
			d -= ran
		}
		at = one.to
	}
	return at.Add(d)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// verdict is what a run says of the promises.
type verdict string

const (
	held   verdict = "held"
	broken verdict = "broken"
	// unjudged: the machine stood still for so long that nothing can be said.
	unjudged verdict = "not judged"
)

// mostStood is the part of a storm that the machine may stand still. With more, what a program did cannot be told from
// what it had no time to do.
const mostStood = 0.25

// decide returns what a run of this length shows, when the machine stood still for so long in it. Sums, and programs
// that crash, are wrong on any machine.
func decide(found []violation, stood, length time.Duration) verdict {
	timeless := func(v violation) bool {
		switch v.rule {
		case ruleSum, ruleLent, ruleRestart, ruleCrash:
			return true
		default:
			return false
		}
	}
	switch {
	case slices.ContainsFunc(found, timeless):
		return broken
	case float64(stood) > mostStood*float64(length):
		return unjudged
	case len(found) > 0:
		return broken
	default:
		return held
	}
}
