package delta_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/delta"
)

func limits(replicas, partition, unavailable, surge int32) budget.Limits {
	return budget.Limits{Replicas: replicas, Partition: partition, MaxUnavailable: unavailable, MaxSurge: surge,
		ScaleMaxUnavailable: budget.Unlimited}
}

func available(n int32) delta.Group { return delta.Group{Available: n} }

// short prints what is done: -doomed, -old, -new, old>new, new>old, +old, +new.
func short(d delta.Delta) string {
	out := ""
	add := func(name string, t delta.Take) {
		if t.Total() > 0 {
			out += fmt.Sprintf("%s%d+%d ", name, t.Unavailable, t.Available)
		}
	}
	add("doomed", d.SpecifiedDelete)
	add("-old", d.RemoveOld)
	add("-new", d.RemoveNew)
	add("old>new", d.MoveToNew)
	add("new>old", d.MoveToOld)
	if d.CreateOld > 0 {
		out += fmt.Sprintf("+old%d ", d.CreateOld)
	}
	if d.CreateNew > 0 {
		out += fmt.Sprintf("+new%d ", d.CreateNew)
	}
	return out
}

func TestCompute(t *testing.T) {
	tests := []struct {
		name string
		in   delta.Input
		want string
	}{
		{"the first pods", delta.Input{Limits: limits(5, 0, 1, 0), SameRevision: true, Update: true}, "+new5 "},
		{"nothing to do", delta.Input{Limits: limits(5, 0, 1, 0), New: available(5), SameRevision: true, Update: true}, ""},
		{"scale out", delta.Input{Limits: limits(8, 0, 1, 0), New: available(5), SameRevision: true, Update: true}, "+new3 "},
		{"scale in takes unavailable pods first", delta.Input{Limits: limits(2, 0, 1, 0),
			New: delta.Group{Available: 3, Unavailable: 2}, SameRevision: true, Update: true}, "-new2+1 "},
		{"new pods that no node takes go before old ones that run (#1515)",
			delta.Input{Limits: limits(5, 0, 5, 0), Old: available(8), New: delta.Group{Unavailable: 2, Unschedulable: 2},
				Update: true}, "-old0+3 -new2+0 old>new0+5 "},
		{"but the partition keeps old ones that no node takes",
			delta.Input{Limits: limits(5, 2, 5, 0), Old: delta.Group{Unavailable: 2, Unschedulable: 2}, New: available(8),
				Update: true}, "-new0+5 "},
		{"surge pods that no node takes wait, they are not made anew",
			delta.Input{Limits: limits(4, 0, 0, 2), Old: available(4), New: delta.Group{Unavailable: 2, Unschedulable: 2},
				Update: true}, ""},
		{"also when pods are scaled in", delta.Input{Limits: limits(3, 0, 0, 2), Old: available(4),
			New: delta.Group{Unavailable: 2, Unschedulable: 2}, Update: true}, "-old0+1 "},
		{"a lowered surge takes those that no node takes",
			delta.Input{Limits: limits(5, 0, 0, 1), Old: available(5), New: delta.Group{Unavailable: 3, Unschedulable: 3},
				Update: true}, "-new2+0 "},
		{"the last old pod does not go for a new one that no node takes",
			delta.Input{Limits: limits(5, 0, 0, 2), Old: available(1),
				New: delta.Group{Available: 4, Unavailable: 1, Unschedulable: 1}, Update: true}, ""},
		{"a pod that was lost is made again", delta.Input{Limits: limits(5, 0, 1, 0), New: available(4), SameRevision: true,
			Update: true}, "+new1 "},
		{"a lost pod of the old revision is made again old",
			delta.Input{Limits: limits(10, 5, 1, 0), Old: available(4), New: available(5), Update: true}, "+old1 "},
		{"scale out behind a partition makes of each revision what it lacks",
			delta.Input{Limits: limits(12, 6, 1, 0), Old: available(5), New: available(5), Update: true}, "+old1 +new1 "},
		{"scale in behind a partition takes of each revision what it has too many of",
			delta.Input{Limits: limits(8, 4, 8, 0), Old: available(5), New: available(5), Update: true}, "-old0+1 -new0+1 "},
		{"of pods beyond replicas only so many available ones go that enough stay",
			delta.Input{Limits: limits(3, 0, 1, 0), New: delta.Group{Available: 3, Unavailable: 2},
				SpecifiedDelete: available(1), SameRevision: true, Update: true}, "doomed0+1 -new2+0 "},
		{"a scale limit slows creation down", delta.Input{Limits: budget.Limits{Replicas: 10, MaxUnavailable: 1,
			ScaleMaxUnavailable: 3}, New: delta.Group{Available: 2, Unavailable: 1}, SameRevision: true, Update: true},
			"+new2 "},

		{"an update takes maxUnavailable", delta.Input{Limits: limits(10, 0, 2, 0), Old: available(10), Update: true,
			InPlace: true}, "old>new0+2 "},
		{"unavailable pods are updated for free, up to maxUnavailable of them",
			delta.Input{Limits: limits(10, 0, 2, 0), Old: delta.Group{Available: 7, Unavailable: 3}, Update: true,
				InPlace: true}, "old>new2+0 "},
		{"one down, one may go", delta.Input{Limits: limits(10, 0, 2, 0), Old: available(9), New: delta.Group{Unavailable: 1},
			Update: true, InPlace: true}, "old>new0+1 "},
		{"a bad revision stops at maxUnavailable", delta.Input{Limits: limits(10, 0, 2, 0),
			Old: delta.Group{Available: 6, Unavailable: 2}, New: delta.Group{Unavailable: 2}, Update: true, InPlace: true}, ""},
		{"the partition keeps half", delta.Input{Limits: limits(10, 5, 10, 0), Old: available(10), Update: true,
			InPlace: true}, "old>new0+5 "},
		{"a raised partition rolls back", delta.Input{Limits: limits(10, 8, 10, 0), Old: available(5), New: available(5),
			Update: true, InPlace: true}, "new>old0+3 "},
		{"without an old revision nothing rolls back", delta.Input{Limits: limits(10, 8, 10, 0), New: available(10),
			Update: true, SameRevision: true}, ""},
		{"paused", delta.Input{Limits: limits(10, 0, 2, 0), Old: available(10)}, ""},
		{"paused still scales out", delta.Input{Limits: limits(12, 0, 2, 0), Old: available(10)}, "+new2 "},
		{"paused still scales in", delta.Input{Limits: limits(8, 0, 2, 0), Old: available(10)}, "-old0+2 "},
		{"scale and update in one pass", delta.Input{Limits: limits(12, 0, 3, 0), Old: available(10), Update: true,
			InPlace: true}, "old>new0+1 +new2 "},
		{"what is too many goes within maxUnavailable", delta.Input{Limits: limits(4, 0, 1, 0), Old: available(4),
			New: delta.Group{Unavailable: 1}}, "-old0+1 "},
		{"but no available pod goes for it where those are kept",
			delta.Input{Limits: limits(4, 0, 1, 0), Old: available(4), New: delta.Group{Unavailable: 1}, KeepAvailable: true},
			""},
		{"nor for more than are available beyond replicas",
			delta.Input{Limits: limits(4, 0, 2, 0), Old: available(5), New: delta.Group{Unavailable: 3}, KeepAvailable: true},
			"-old0+1 "},
		{"what somebody asked for goes within maxUnavailable",
			delta.Input{Limits: limits(4, 0, 1, 0), Old: available(3), New: delta.Group{Unavailable: 1},
				SpecifiedDelete: available(1), KeepAvailable: true}, "doomed0+1 "},
		{"busy pods finish before they move", delta.Input{Limits: limits(4, 0, 4, 0), Old: delta.Group{Available: 2, Busy: 2},
			Update: true, InPlace: true}, "old>new0+2 "},

		{"surge first", delta.Input{Limits: limits(10, 0, 0, 3), Old: available(10), Update: true}, "+new3 "},
		{"no surge while it is not available", delta.Input{Limits: limits(10, 0, 0, 3), Old: available(10),
			New: delta.Group{Unavailable: 3}, Update: true}, ""},
		{"then as many old ones go, and new ones come in the same pass",
			delta.Input{Limits: limits(10, 0, 0, 3), Old: available(10), New: available(3), Update: true}, "-old0+3 +new3 "},
		{"the end does not slow down", delta.Input{Limits: limits(10, 0, 0, 3), Old: available(4), New: available(9),
			Update: true}, "-old0+3 +new1 "},
		{"in place needs no surge", delta.Input{Limits: limits(10, 0, 2, 3), Old: available(10), Update: true, InPlace: true},
			"old>new0+2 "},
		{"in place without maxUnavailable needs it", delta.Input{Limits: limits(10, 0, 0, 3), Old: available(10),
			Update: true, InPlace: true}, "+new3 "},
		{"in place on the room that surge made", delta.Input{Limits: limits(10, 0, 0, 3), Old: available(10),
			New: available(3), Update: true, InPlace: true}, "old>new0+3 "},
		{"the surge goes last", delta.Input{Limits: limits(10, 0, 0, 3), Old: available(3), New: available(10), Update: true,
			InPlace: true}, "-old0+3 "},

		{"a doomed pod goes and is replaced", delta.Input{Limits: limits(5, 0, 1, 0), New: available(4),
			SpecifiedDelete: available(1), SameRevision: true, Update: true}, "doomed0+1 +new1 "},
		{"a doomed pod waits for maxUnavailable", delta.Input{Limits: limits(5, 0, 1, 0),
			New: delta.Group{Available: 3, Unavailable: 1}, SpecifiedDelete: available(1), SameRevision: true, Update: true},
			""},
		{"a doomed pod that is unavailable goes", delta.Input{Limits: limits(5, 0, 1, 0),
			New: delta.Group{Available: 2, Unavailable: 2}, SpecifiedDelete: delta.Group{Unavailable: 1}, SameRevision: true,
			Update: true}, "doomed1+0 +new1 "},
		{"a doomed pod is the one that scale-in takes", delta.Input{Limits: limits(4, 0, 1, 0), New: available(4),
			SpecifiedDelete: available(1), SameRevision: true, Update: true}, "doomed0+1 "},
		{"surge for a doomed pod", delta.Input{Limits: limits(5, 0, 0, 1), New: available(4), SpecifiedDelete: available(1),
			SameRevision: true, Update: true}, "+new1 "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := delta.Compute(tt.in)
			if got := short(d); got != tt.want {
				t.Errorf("got %q, want %q; notes %v", got, tt.want, d.Notes)
			}
			if d.Empty() != (tt.want == "") {
				t.Errorf("Empty() = %v", d.Empty())
			}
		})
	}
}

// The published example of a surge: 10 old pods that are made anew, none may be missing, 3 may be too many.
func TestSurgeFromBeginningToEnd(t *testing.T) {
	w := &world{in: delta.Input{Limits: limits(10, 0, 0, 3), Old: available(10), Update: true}}
	for i, want := range []string{"+new3 ", "-old0+3 +new3 ", "-old0+3 +new3 ", "-old0+3 +new1 ", "-old0+1 ", ""} {
		d := delta.Compute(w.in)
		if got := short(d); got != want {
			t.Fatalf("step %d: got %q, want %q; notes %v", i, got, want, d.Notes)
		}
		w.apply(d)
		if wait := delta.Compute(w.in); !wait.Empty() {
			t.Errorf("step %d: it does not wait until the new pods are available: %s", i, short(wait))
		}
		w.settle(true)
	}
}

// world is a workload whose pods become available and fail at random.
type world struct {
	in     delta.Input
	random *rand.Rand
}

func (w *world) apply(d delta.Delta) {
	take := func(g *delta.Group, t delta.Take) {
		g.Available -= t.Available
		g.Unavailable -= t.Unavailable
	}
	take(&w.in.SpecifiedDelete, d.SpecifiedDelete)
	take(&w.in.Old, d.RemoveOld)
	take(&w.in.New, d.RemoveNew)
	take(&w.in.Old, d.MoveToNew)
	take(&w.in.New, d.MoveToOld)
	w.in.New.Unavailable += d.MoveToNew.Total() + d.CreateNew
	w.in.Old.Unavailable += d.MoveToOld.Total() + d.CreateOld
}

func (w *world) settle(all bool) {
	for _, g := range []*delta.Group{&w.in.Old, &w.in.New, &w.in.SpecifiedDelete} {
		n := g.Unavailable
		if !all && n > 0 {
			n = w.random.Int32N(n + 1)
		}
		g.Unavailable -= n
		g.Available += n
	}
}

func (w *world) disturb() {
	if w.in.New.Available > 0 && w.random.IntN(6) == 0 {
		w.in.New.Available--
		w.in.New.Unavailable++
	}
	if w.in.Old.Available > 0 && w.random.IntN(6) == 0 {
		w.in.Old.Available--
		if w.random.IntN(2) == 0 {
			w.in.SpecifiedDelete.Available++
		}
	}
}

func total(g delta.Group) int32 { return g.Available + g.Unavailable + g.Busy }

func TestLimitsHoldAndPassesConverge(t *testing.T) {
	for seed := range uint64(3000) {
		random := rand.New(rand.NewPCG(seed, 7))
		replicas := random.Int32N(20)
		l := limits(replicas, random.Int32N(replicas+1), random.Int32N(4), random.Int32N(4))
		if l.MaxUnavailable == 0 && l.MaxSurge == 0 {
			l.MaxUnavailable = 1
		}
		w := &world{random: random, in: delta.Input{
			Limits: l, Update: true, InPlace: random.IntN(2) == 0,
			Old: delta.Group{Available: random.Int32N(20), Unavailable: random.Int32N(3)},
			New: delta.Group{Available: random.Int32N(20), Unavailable: random.Int32N(3)},
		}}
		if random.IntN(4) == 0 {
			w.in.SameRevision = true
		}
		for step := range 400 {
			if step < 100 {
				w.disturb()
			}
			d := delta.Compute(w.in)
			w.check(t, seed, d)
			w.apply(d)
			w.settle(step >= 100)
		}
		wantOld := l.Partition
		if w.in.SameRevision {
			wantOld = min(wantOld, total(w.in.Old))
		}
		if total(w.in.Old) != wantOld || total(w.in.New) != replicas-wantOld || total(w.in.SpecifiedDelete) != 0 {
			t.Fatalf("seed %d: ended with %+v", seed, w.in)
		}
		if d := delta.Compute(w.in); !d.Empty() {
			t.Fatalf("seed %d: not at rest: %s", seed, short(d))
		}
	}
}

func (w *world) check(t *testing.T, seed uint64, d delta.Delta) {
	t.Helper()
	before := w.in.Old.Available + w.in.New.Available + w.in.SpecifiedDelete.Available
	taken := d.SpecifiedDelete.Available + d.RemoveOld.Available + d.RemoveNew.Available + d.MoveToNew.Available +
		d.MoveToOld.Available
	if l := w.in.Limits; taken > 0 && before-taken < l.Replicas-l.MaxUnavailable {
		t.Fatalf("seed %d: %+v: %s leaves %d available", seed, w.in, short(d), before-taken)
	}
	count := total(w.in.Old) + total(w.in.New) + total(w.in.SpecifiedDelete)
	removed := d.SpecifiedDelete.Total() + d.RemoveOld.Total() + d.RemoveNew.Total()
	if created := d.CreateOld + d.CreateNew; created > 0 &&
		count-removed+created > w.in.Limits.Replicas+w.in.Limits.MaxSurge {
		t.Fatalf("seed %d: %+v: %s makes %d pods", seed, w.in, short(d), count-removed+created)
	}
	for _, g := range []struct {
		have  delta.Group
		takes []delta.Take
	}{{w.in.Old, []delta.Take{d.RemoveOld, d.MoveToNew}}, {w.in.New, []delta.Take{d.RemoveNew, d.MoveToOld}},
		{w.in.SpecifiedDelete, []delta.Take{d.SpecifiedDelete}}} {
		for _, take := range g.takes {
			g.have.Available -= take.Available
			g.have.Unavailable -= take.Unavailable
		}
		if g.have.Available < 0 || g.have.Unavailable < 0 {
			t.Fatalf("seed %d: %+v: %s takes more than there is", seed, w.in, short(d))
		}
	}
}

// What is too many goes, though no available pod goes that replicas need; what somebody asked for goes within
// maxUnavailable.
func TestAvailablePodsAreKeptAndPassesConverge(t *testing.T) {
	for seed := range uint64(3000) {
		random := rand.New(rand.NewPCG(seed, 13))
		replicas := random.Int32N(20)
		l := limits(replicas, random.Int32N(replicas+1), 1, 0)
		group := func() delta.Group { return delta.Group{Available: random.Int32N(20), Unavailable: random.Int32N(4)} }
		w := &world{random: random, in: delta.Input{Limits: l, Old: group(), New: group(), KeepAvailable: true,
			SameRevision: random.IntN(4) == 0}}
		w.in.SpecifiedDelete.Available = random.Int32N(3)
		for step := range 400 {
			d := delta.Compute(w.in)
			w.check(t, seed, d)
			available := w.in.Old.Available + w.in.New.Available + w.in.SpecifiedDelete.Available - d.SpecifiedDelete.Available
			if taken := d.RemoveOld.Available + d.RemoveNew.Available; taken > 0 && available-taken < replicas {
				t.Fatalf("seed %d: %+v: %s leaves %d available", seed, w.in, short(d), available-taken)
			}
			w.apply(d)
			w.settle(step >= 100)
		}
		if n := total(w.in.Old) + total(w.in.New) + total(w.in.SpecifiedDelete); n != replicas ||
			total(w.in.SpecifiedDelete) != 0 {
			t.Fatalf("seed %d: ended with %+v", seed, w.in)
		}
	}
}

// Pods that no node takes are made once: whatever the limits, passes come to an end.
func TestPodsThatNoNodeTakesAreNotMadeAgainAndAgain(t *testing.T) {
	for seed := range uint64(3000) {
		random := rand.New(rand.NewPCG(seed, 11))
		replicas := random.Int32N(12)
		l := limits(replicas, random.Int32N(replicas+1), random.Int32N(4), random.Int32N(4))
		if l.MaxUnavailable == 0 && l.MaxSurge == 0 {
			l.MaxUnavailable = 1
		}
		stuck := random.Int32N(6)
		in := delta.Input{
			Limits: l, Update: random.IntN(4) > 0, InPlace: random.IntN(2) == 0, Old: available(random.Int32N(16)),
			New: delta.Group{Available: random.Int32N(8), Unavailable: stuck, Unschedulable: stuck},
		}
		w := &world{in: in, random: random}
		passes := 0
		for ; passes < 50; passes++ {
			d := delta.Compute(w.in)
			if d.Empty() {
				break
			}
			w.check(t, seed, d)
			w.apply(d)
			// What was made anew finds no node either.
			w.in.New.Unschedulable = w.in.New.Unavailable
		}
		if passes == 50 {
			t.Fatalf("seed %d: %+v: no end at %+v: %s", seed, in, w.in, short(delta.Compute(w.in)))
		}
	}
}

func TestMovingKeepsTheCallersOrder(t *testing.T) {
	m := delta.Moving{Wanted: 5, Room: 4, Spare: 2}
	for _, tt := range []struct {
		reason string
		first  delta.Group
		want   delta.Take
	}{
		{"unavailable ones are free, as far as there is room", delta.Group{Unavailable: 5}, delta.Take{Unavailable: 4}},
		{"available ones up to what can be spared", delta.Group{Available: 5}, delta.Take{Available: 2}},
		{"both", delta.Group{Available: 2, Unavailable: 3}, delta.Take{Unavailable: 3, Available: 1}},
		{"busy ones wait", delta.Group{Busy: 5}, delta.Take{}},
	} {
		if got := m.Take(tt.first); got != tt.want {
			t.Errorf("%s: Take(%+v) = %+v, want %+v", tt.reason, tt.first, got, tt.want)
		}
	}
}

// Limits beyond all pods mean all pods, however large they are.
func TestHugeLimitsMeanAllPods(t *testing.T) {
	const huge, large = int32(1<<31 - 1), int32(100_000)
	random := rand.New(rand.NewPCG(7, 7))
	group := func() delta.Group {
		return delta.Group{Available: random.Int32N(30), Unavailable: random.Int32N(5), Busy: random.Int32N(5)}
	}
	for range 20_000 {
		in := delta.Input{
			Limits: limits(random.Int32N(40), random.Int32N(40), large, large), Old: group(), New: group(),
			SpecifiedDelete: group(),
			SameRevision:    random.IntN(4) == 0, Update: random.IntN(4) > 0, InPlace: random.IntN(2) == 0,
		}
		in.Limits.Partition = min(in.Limits.Partition, in.Limits.Replicas)
		switch random.IntN(3) {
		case 0:
			in.Limits.MaxUnavailable = random.Int32N(5)
		case 1:
			in.Limits.MaxSurge = random.Int32N(5)
		}
		other := in
		if other.Limits.MaxUnavailable == large {
			other.Limits.MaxUnavailable = huge
		}
		if other.Limits.MaxSurge == large {
			other.Limits.MaxSurge = huge
		}
		if got, want := short(delta.Compute(other)), short(delta.Compute(in)); got != want {
			t.Fatalf("%+v: %q with huge limits, %q with large ones", in, got, want)
		}
	}
}
