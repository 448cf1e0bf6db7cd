package judge

import (
	"slices"
	"time"
)

// Stall is a time in which the machine, or a program on it, stood still, as it was measured.
type Stall struct {
	From, To time.Time
	// Machine reports whether this process itself stood still, and not only another one.
	Machine bool
}

// Stalls are apart from each other, and in order.
type Stalls []Stall

// Merge returns the times that are in any of the stalls.
func Merge(all []Stall) Stalls {
	sorted := slices.Clone(all)
	slices.SortFunc(sorted, func(a, b Stall) int { return a.From.Compare(b.From) })
	var out Stalls
	for _, s := range sorted {
		switch n := len(out); {
		case !s.To.After(s.From):
		case n > 0 && !s.From.After(out[n-1].To):
			out[n-1].To = Later(out[n-1].To, s.To)
		default:
			out = append(out, s)
		}
	}
	return out
}

// Within returns how much of a time is in stalls.
func (s Stalls) Within(from, to time.Time) time.Duration {
	total := time.Duration(0)
	for _, one := range s {
		if begin, end := Later(one.From, from), earlier(one.To, to); end.After(begin) {
			total += end.Sub(begin)
		}
	}
	return total
}

// before returns the time from which on there was so much time until at, without what was stood still.
func (s Stalls) before(at time.Time, d time.Duration) time.Time {
	for i := len(s) - 1; i >= 0; i-- {
		if !s[i].From.Before(at) {
			continue
		}
		if ran := at.Sub(s[i].To); ran >= d {
			break
		} else if ran > 0 {
			d -= ran
		}
		at = s[i].From
	}
	return at.Add(-d)
}

// after returns the time at which there has been so much time since at, without what was stood still.
func (s Stalls) after(at time.Time, d time.Duration) time.Time {
	for _, one := range s {
		if !one.To.After(at) {
			continue
		}
		if ran := one.From.Sub(at); ran >= d {
			break
		} else if ran > 0 {
			d -= ran
		}
		at = one.To
	}
	return at.Add(d)
}

// Later returns the later one of two times.
func Later(a, b time.Time) time.Time {
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

// Outcome is what a run says of the promises.
type Outcome string

const (
	// Held means that no limit was exceeded.
	Held Outcome = "held"
	// Broken means that a limit was exceeded.
	Broken Outcome = "broken"
	// Unjudged means that the machine stood still for so long that nothing can be said.
	Unjudged Outcome = "not judged"
)

// mostStood is the part of a storm that the machine may stand still. With more, what a program did cannot be told from
// what it had no time to do.
const mostStood = 0.25

// Decide returns what a run of this length shows if the machine stood still for so long in it. Sums, and programs
// that crash, are wrong on any machine.
func Decide(found []Violation, stood, length time.Duration) Outcome {
	timeless := func(v Violation) bool {
		switch v.Rule {
		case ruleSum, ruleGranted, RuleRestart, RuleCrash:
			return true
		default:
			return false
		}
	}
	switch {
	case slices.ContainsFunc(found, timeless):
		return Broken
	case float64(stood) > mostStood*float64(length):
		return Unjudged
	case len(found) > 0:
		return Broken
	default:
		return Held
	}
}
