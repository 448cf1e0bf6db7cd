package division

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// adaptiveInput is one decision of [Adaptive], [Overflow] or [Reserve].
type adaptiveInput struct {
	n       int32
	subsets []Subset
	seen    []Seen
}

// randomAdaptive makes subsets with bounds of every kind, of which some are closed or have reserved pods.
func randomAdaptive(random *rand.Rand, reserve bool) adaptiveInput {
	size := []int32{3, 8, 40}[random.IntN(3)]
	in := adaptiveInput{n: random.Int32N(size)}
	for i := range 1 + random.IntN(4) {
		s := Subset{Name: fmt.Sprint("s", i)}
		low := random.Int32N(size/2 + 1)
		high, number := low+random.Int32N(size), intstr.FromInt32
		if random.IntN(3) == 0 {
			number = func(n int32) intstr.IntOrString { return intstr.FromString(fmt.Sprintf("%d%%", n)) }
		}
		if random.IntN(3) == 0 {
			s.Min = new(number(low))
		}
		if random.IntN(3) == 0 {
			s.Max = new(number(high))
		}
		in.subsets = append(in.subsets, s)

		seen := Seen{Unschedulable: random.IntN(3) == 0}
		if random.IntN(4) > 0 {
			seen.Replicas = random.Int32N(size)
		}
		seen.Ready = random.Int32N(seen.Replicas + 1)
		if random.IntN(2) == 0 {
			seen.Ready = seen.Replicas - random.Int32N(min(2, seen.Replicas)+1) // an update takes a few down
		}
		if seen.Unschedulable {
			seen.Starting = random.Int32N(seen.Replicas - seen.Ready + 1)
		}
		seen.Bound = seen.Ready + random.Int32N(seen.Replicas-seen.Ready+1)
		seen.Waiting = !reserve && seen.Unschedulable && random.IntN(2) == 0
		if reserve {
			seen.Starting = 0
			seen.Reserved = 0
			if seen.Unschedulable {
				seen.Reserved = random.Int32N(seen.Replicas + 1)
			}
			seen.Unschedulable = seen.Reserved > 0
			seen.Unsteady = random.IntN(4) == 0
		}
		in.seen = append(in.seen, seen)
	}
	return in
}

// TestAdaptiveProperties holds what every decision keeps, and that decisions come to rest.
func TestAdaptiveProperties(t *testing.T) {
	eachCase(t, 19, func(t *testing.T, random *rand.Rand) { checkAdaptive(t, randomAdaptive(random, false)) })
}

// TestReserveProperties does so where the pods that wait are kept.
func TestReserveProperties(t *testing.T) {
	eachCase(t, 20, func(t *testing.T, random *rand.Rand) { checkReserve(t, randomAdaptive(random, true)) })
}

type divideSubsetsFunc func(int32, []Subset, []Seen) ([]SubsetShare, error)

// decide divides, and checks what holds for each share alone.
func (in adaptiveInput) decide(t *testing.T, divide divideSubsetsFunc) ([]int64, []place) {
	t.Helper()
	shares, err := divide(in.n, in.subsets, in.seen)
	if err != nil {
		t.Fatalf("%+v: %v", in, err)
	}
	places, err := observe(in.n, in.subsets, in.seen)
	if err != nil {
		t.Fatal(err)
	}
	given := make([]int64, len(shares))
	for i, s := range shares {
		given[i] = int64(s.Replicas)
		if s.Placed != s.Replicas || s.Reason.Code == "" {
			t.Errorf("subset %s: placed %d of %d with reason %q", s.Name, s.Placed, s.Replicas, s.Reason.Code)
		}
		if given[i] < 0 || given[i] > max(places[i].high, places[i].replicas) {
			t.Errorf("subset %s has %d, its max is %d", s.Name, given[i], places[i].high)
		}
	}
	return given, places
}

// closedMins checks that closed subsets have their mins, as far as n reaches in the order of the subsets, and returns
// how much of these mins is not ready. taken is what an earlier subset takes of n before.
func closedMins(n int64, places []place, given []int64, taken func(p *place) int64,
	fail func(string, ...any)) (unfilled int64) {
	left := n
	for i := range places {
		p := &places[i]
		if low := min(p.low, max(left, 0)); p.closed {
			if given[i] < low {
				fail("closed subset %d has %d, less than its min of %d", i, given[i], low)
			}
			unfilled += max(low-p.ready, 0)
		}
		left -= taken(p)
	}
	return unfilled
}

func checkAdaptive(t *testing.T, in adaptiveInput) {
	t.Helper()
	for name, divide := range map[string]divideSubsetsFunc{"Adaptive": Adaptive, "Overflow": Overflow} {
		given, places := in.decide(t, divide)
		fail := func(format string, args ...any) {
			t.Helper()
			t.Errorf("%s: %s\nN=%d %+v\nseen %+v\ngiven %v", name, fmt.Sprintf(format, args...), in.n, in.subsets, in.seen,
				given)
		}
		n, step := int64(in.n), int64(0)
		if name == "Adaptive" {
			step = (n + 3) / 4
		}
		ideal := idealOf(n, places)
		var sum, bound, ready, keptReady, exist, serve, kept int64
		for i := range places {
			p := &places[i]
			sum, bound = sum+given[i], bound+p.high
			ready, keptReady = ready+p.ready, keptReady+min(p.ready, given[i])
			exist += p.exist
			// Stand-ins serve, also those that an update takes down for a moment; pods in their place do so once they are ready.
			serves := p.ready
			if !p.closed && p.exist > ideal[i] {
				serves = p.exist
			}
			serve, kept = serve+serves, kept+min(serves, given[i])
		}
		if sum < min(n, bound) || sum > n+step {
			fail("the sum is %d", sum)
		}
		tries := closedMins(n, places, given, func(p *place) int64 { return p.low }, fail)
		if keptReady < min(ready, n-tries) {
			fail("keeps %d of %d ready pods, %d are mins of closed subsets", keptReady, ready, tries)
		}
		// Mins that have a node and start are no reason to have fewer either, as far as the step goes.
		starting := int64(0)
		for i := range places {
			if p := &places[i]; p.closed {
				starting += max(min(p.low, p.bound)-p.ready, 0)
			}
		}
		if least := min(ready, n, n-tries+min(starting, step)); keptReady < least {
			fail("keeps %d of %d ready pods while %d of the mins of closed subsets start", keptReady, ready, starting)
		}
		// What an update took down for a moment is no reason to have fewer.
		if exist+tries <= n+step && kept < min(serve, n-tries) {
			fail("keeps %d of %d pods that serve, %d are mins of closed subsets", kept, serve, tries)
		}
		comesToRest(t, in, divide, fail)
	}
}

func checkReserve(t *testing.T, in adaptiveInput) {
	t.Helper()
	given, places := in.decide(t, Reserve)
	fail := func(format string, args ...any) {
		t.Helper()
		t.Errorf("Reserve: %s\nN=%d %+v\nseen %+v\ngiven %v", fmt.Sprintf(format, args...), in.n, in.subsets, in.seen, given)
	}
	n := int64(in.n)
	wanted, _ := reserveOf(n, places)
	var sum, bound, ready, keptReady, steady, keptSteady, serve, kept int64
	for i := range places {
		p := &places[i]
		sum, bound = sum+given[i], bound+p.high
		ready, keptReady = ready+p.stays, keptReady+min(p.stays, given[i])
		steady, keptSteady = steady+p.ready, keptSteady+min(p.ready, given[i])
		serves := p.ready
		if wanted[i] < p.replicas {
			serves = p.serving()
		}
		serve, kept = serve+serves, kept+min(serves, given[i])
	}
	if sum < min(n, bound) || sum > n*int64(len(places)+1) {
		fail("the sum is %d", sum)
	}
	// A min takes of n only what its subset has without reserved pods.
	closedMins(n, places, given, func(p *place) int64 {
		if p.closed {
			return min(p.low, p.healthy)
		}
		return p.low
	}, fail)
	if keptReady < min(ready, n) {
		fail("keeps %d of %d ready pods", keptReady, ready)
	}
	if keptSteady < min(steady, n) {
		fail("keeps %d of %d pods that stay ready", keptSteady, steady)
	}
	if kept < min(serve, n) {
		fail("keeps %d of %d pods that serve", kept, serve)
	}
	comesToRest(t, in, Reserve, fail)
}

// comesToRest carries out decisions while the subsets stay open or closed as they are: pods of open subsets get ready,
// those of closed ones stay as they are. After a few decisions nothing changes, so nothing is made and deleted in turn.
func comesToRest(t *testing.T, in adaptiveInput, divide divideSubsetsFunc, fail func(string, ...any)) {
	t.Helper()
	all, last := slices.Clone(in.seen), []int64(nil)
	limit := int(in.n) + 2*len(all) + 2
	for range limit {
		now := adaptiveInput{in.n, in.subsets, all}
		given, _ := now.decide(t, divide)
		rest := slices.Equal(given, last)
		for i := range all {
			s, g := &all[i], int32(given[i])
			s.Unsteady = false
			if !s.Unschedulable {
				rest = rest && s.Ready == g
				s.Replicas, s.Ready, s.Bound = g, g, g
				continue
			}
			if s.Reserved > 0 { // new pods of a closed subset are reserved too; pods without a node go first
				s.Reserved = max(1, g-min(g, s.Replicas-s.Reserved))
			}
			s.Replicas, s.Ready = g, min(s.Ready, g)
			s.Starting, s.Bound = min(s.Starting, g-s.Ready), min(s.Bound, g)
		}
		if last = given; rest {
			return
		}
	}
	fail("no rest after %d decisions, the last one is %v", limit, last)
}
