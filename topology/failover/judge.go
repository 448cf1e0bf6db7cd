package failover

import (
	"cmp"
	"slices"
	"time"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

const (
	// Window is how far apart members may become NotReady to count as one failure: twice the time after which a silent
	// agent is NotReady.
	Window = 2 * topology.LeaseDuration
	// Spacing is the time between two members that are given up: time enough for pods to start, and to see what that does.
	Spacing = 30 * time.Second
	// heldPart: as many members as one in heldPart of all, and at least heldLeast, are held if they fail together.
	heldPart, heldLeast = 3, 2
)

// Member is what is known of a member's health.
type Member struct {
	Name string
	// NotReady: it is not heard of. Since is since when that is so, or since when it is heard of.
	NotReady bool
	Since    time.Time
	// Held: it was told to be held, and not yet that it is no longer. Released is since when it is told not to be; zero if
	// it never was.
	Held     bool
	Released time.Time
	// Confirmed: a person says that nothing runs there any more.
	Confirmed bool
}

// State is what a member counts as.
type State string

// The states.
const (
	// Fine: it is heard of.
	Fine State = "Fine"
	// Silent: it is not heard of, and counts as lost later.
	Silent State = "Silent"
	// Held: it failed together with many others, and does not count as lost.
	Held State = "Held"
	// Lost: others are to run its replicas.
	Lost State = "Lost"
)

// Verdict is what a member counts as. Due is when a Silent one counts as lost; zero for the others.
type Verdict struct {
	State State
	Due   time.Time
}

// Judge returns a verdict for each member, in the order given: all members that take part, also those that a policy
// does not select. after is how long a member is NotReady until it is lost. Before the time sure nothing is lost but
// what a person confirmed.
func Judge(members []Member, after time.Duration, now, sure time.Time) []Verdict {
	verdicts := make([]Verdict, len(members))
	held := Together(members)
	var silent []int
	for i := range members {
		switch m := &members[i]; {
		case !m.NotReady:
			verdicts[i].State = Fine
		case m.Confirmed:
			verdicts[i].State = Lost
		case held[m.Name] > 0:
			verdicts[i].State = Held
		default:
			silent = append(silent, i)
		}
	}
	slices.SortFunc(silent, func(a, b int) int {
		return cmp.Or(begin(&members[a], now).Compare(begin(&members[b], now)), cmp.Compare(members[a].Name, members[b].Name))
	})
	var last time.Time
	for n, i := range silent {
		due := begin(&members[i], now).Add(after)
		if n > 0 && due.Before(last.Add(Spacing)) {
			due = last.Add(Spacing)
		}
		last = due
		if due.Before(sure) {
			due = sure
		}
		verdicts[i] = Verdict{State: Silent, Due: due}
		if !now.Before(due) {
			verdicts[i] = Verdict{State: Lost}
		}
	}
	return verdicts
}

// begin is when the countdown of a member that is not heard of begins: when that began, or where it was held meanwhile,
// when that ended. Members that return one after the other would else leave the last of them to be given up at once.
// What other members do puts it off in no other way.
func begin(m *Member, now time.Time) time.Time {
	switch {
	case m.Held:
		return now // the end of it is not told yet
	case m.Released.After(m.Since):
		return m.Released
	}
	return m.Since
}

// Together returns the members that failed together with so many that none of them counts as lost, each with the number
// of members of that failure. Members that a person confirmed count as failed, and are not held.
func Together(members []Member) map[string]int {
	var failed []*Member
	for i := range members {
		if members[i].NotReady {
			failed = append(failed, &members[i])
		}
	}
	slices.SortFunc(failed, func(a, b *Member) int { return a.Since.Compare(b.Since) })
	held := map[string]int{}
	from := 0
	for to := range failed {
		for failed[to].Since.Sub(failed[from].Since) > Window {
			from++
		}
		n := to - from + 1
		if n < heldLeast || n*heldPart < len(members) {
			continue
		}
		for _, m := range failed[from : to+1] {
			if !m.Confirmed {
				held[m.Name] = max(held[m.Name], n)
			}
		}
	}
	return held
}
