package division

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Where the ready pods and the mins fit into n, and no stand-in still starts, what is not a return is the published
// arithmetic: while nothing can return, the shares are exactly that.
func TestAdaptiveIsThePublishedOne(t *testing.T) {
	random := rand.New(rand.NewPCG(11, 12))
	exact := 0
	for range *cases {
		w := randomWorld(t, random, true)
		all := make([]Seen, len(w.sites))
		for i := range all {
			all[i].Replicas = random.Int32N(6)
			all[i].Ready = random.Int32N(all[i].Replicas + 1)
			all[i].Unschedulable = random.IntN(3) == 0
		}
		places, err := observe(w.n, w.subsets, all)
		if err != nil {
			t.Fatal(err)
		}
		n := int64(w.n)
		ideal := idealOf(n, places)
		floors, starting, returns := int64(0), false, false
		for i, p := range places {
			floors += max(p.ready, p.low) // nothing starts in closed ones here
			starting = starting || !p.closed && p.replicas > max(p.ready, ideal[i])
			returns = returns || p.ready > ideal[i]
		}
		base, waiting, _ := baseOf(n, (n+3)/4, places, ideal)
		nowhere := int64(0)
		for _, x := range waiting {
			nowhere += x
		}
		if floors > n || starting || nowhere > 0 {
			continue
		}
		want := published24(t, w.n, w.subsets, all)
		got := make([]int32, len(base))
		for i := range base {
			got[i] = int32(base[i])
		}
		shares, err := Adaptive(w.n, w.subsets, all)
		if err != nil {
			t.Fatal(err)
		}
		if !returns {
			got = numbers(shares)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("N=%d %+v, seen %+v (-published +got):\n%s", w.n, w.subsets, all, diff)
		}
		exact++
	}
	if exact < *cases/10 {
		t.Errorf("only %d of %d cases were compared", exact, *cases)
	}
}

// Where no stand-in has to wait and N pods are asked for, Reserve is the published arithmetic.
func TestReserveIsThePublishedOne(t *testing.T) {
	random := rand.New(rand.NewPCG(17, 18))
	exact := 0
	for range *cases {
		w := randomWorld(t, random, true)
		all := make([]Seen, len(w.sites))
		for i := range all {
			all[i].Replicas = random.Int32N(min(6, w.n+1))
			all[i].Ready = random.Int32N(all[i].Replicas + 1)
			all[i].Bound = all[i].Replicas // OpenKruise does not ask
			if random.IntN(3) == 0 {
				all[i].Reserved = random.Int32N(all[i].Replicas + 1)
			}
			all[i].Unschedulable = all[i].Reserved > 0
		}
		want := published25(t, w.n, w.subsets, all)
		var sum, kept, ready, most, serving int32
		shrinks := false
		places, err := observe(w.n, w.subsets, all)
		if err != nil {
			t.Fatal(err)
		}
		for i := range all {
			if p := places[i]; int64(want[i]) < min(p.healthy, p.replicas) {
				shrinks = true // a stand-in that is not ready goes: we keep it

				serving += want[i]
			} else {
				serving += min(want[i], all[i].Ready)
			}
			sum += want[i]
			kept += min(want[i], all[i].Ready)
			ready += all[i].Ready
			most = max(most, want[i])
		}
		if sum < w.n || kept < min(ready, w.n) || most > w.n || shrinks && serving < w.n {
			continue
		}
		shares, err := Reserve(w.n, w.subsets, all)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, numbers(shares)); diff != "" {
			t.Fatalf("N=%d %+v, seen %+v (-published +got):\n%s", w.n, w.subsets, all, diff)
		}
		exact++
	}
	if exact < *cases/10 {
		t.Errorf("only %d of %d cases were compared", exact, *cases)
	}
}

// Numbers as large as the API allows neither overflow nor lose a pod.
func TestAdaptiveLargeNumbers(t *testing.T) {
	const most = math.MaxInt32
	subsets := parse("a{100%,}", "b", "c{,50%}")
	for _, tc := range []struct {
		reason string
		seen   []Seen
		want   []int32
	}{
		{"new", nil, []int32{most, 0, 0}},
		{"a is closed, its min waits", []Seen{closed(most, 0)}, []int32{most, 0, 0}},
		{"all stand in elsewhere", []Seen{seen(0, 0), seen(most, most)}, []int32{most/4 + 1, most, 0}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			shares, err := Adaptive(most, subsets, tc.seen)
			if err != nil {
				t.Fatal(err)
			}
			checkShares(t, shares, tc.want)
			if _, err := Reserve(most, subsets, tc.seen); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestAdaptiveRefuses(t *testing.T) {
	tests := []struct {
		reason  string
		n       int32
		subsets []Subset
		seen    []Seen
		want    string
	}{
		{"negative N", -1, parse("a"), nil, "replicas -1 is negative: use 0 or more"},
		{"bad bounds", 1, parse("a{5,3}"), nil, `subset "a": min 5 is above max 3: lower min or raise max`},
		{"negative ready", 1, parse("a"), []Seen{seen(1, -1)},
			`subset "a": of replicas 1, ready -1, starting 0, bound 0 and reserved 0 one is negative: use 0 or more`},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			for name, divide := range map[string]func(int32, []Subset, []Seen) ([]SubsetShare, error){"Adaptive": Adaptive,
				"Reserve": Reserve} {
				if _, err := divide(tc.n, tc.subsets, tc.seen); err == nil || err.Error() != tc.want {
					t.Errorf("%s: got error %v, want %s", name, err, tc.want)
				}
			}
		})
	}
}

// Whatever goes wrong in whatever order, once everything has room and works the pods are where the bounds put them, and
// nothing is written any more. The world checks every decision on the way.
func TestAdaptiveConverges(t *testing.T) { converges(t, 13, false) }

// So it is where the pods that wait are kept.
func TestReserveConverges(t *testing.T) { converges(t, 14, true) }

func converges(t *testing.T, seed uint64, reserve bool) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	for range max(*cases/200, 1) {
		w := randomWorld(t, random, true)
		w.reserve = reserve
		for range random.IntN(200) {
			if random.IntN(10) == 0 {
				w.disturb(random)
			}
			w.pass()
		}
		slowest := 0
		for _, s := range w.sites {
			s.room, s.broken = 100, false
			slowest = max(slowest, s.start)
		}
		// Two waits for closed subsets, and then at most n steps of one start each.
		limit := 2*w.duration + w.critical + (int(w.n)+2)*(slowest+4*tick)
		w.until(limit, "everything has room again", w.settled)
		w.writes = 0
		for range 3 * (w.duration + w.critical) / tick {
			w.pass()
		}
		if w.writes > 0 || !w.settled() {
			t.Fatalf("%d writes after everything had settled:\n%s", w.writes, w)
		}
	}
}

// A subset that never has enough room costs nothing that is ready: once N pods are ready, N stay ready through all
// attempts. And an attempt is a few writes, not more.
func TestAdaptiveAttemptsCostNothing(t *testing.T) {
	random := rand.New(rand.NewPCG(15, 16))
	compared := 0
	for range max(*cases/200, 1) {
		w := randomWorld(t, random, false)
		places, err := observe(w.n, w.subsets, nil)
		if err != nil {
			t.Fatal(err)
		}
		fits := int64(0)
		for i, p := range places {
			w.sites[i].start = random.IntN(100)
			fits += min(p.high, int64(w.sites[i].room))
		}
		// Long enough to try every subset before the first is tried again.
		w.duration = (w.critical+4*tick)*len(w.sites) + 60 + random.IntN(100)
		if fits < int64(w.n) {
			continue
		}
		compared++
		w.until(20*(w.duration+w.critical), "all ready somewhere", func() bool { return w.ready() >= w.n && w.now > 0 })
		w.writes = 0
		cycles := 10
		for range cycles * (w.duration + w.critical) / tick {
			w.pass()
			if w.ready() < w.n {
				t.Fatalf("t=%d: only %d of %d are ready:\n%s", w.now, w.ready(), w.n, w)
			}
		}
		// In each cycle a subset opens, gets a step, closes and gives it back: at most 2 writes for it, and as many for
		// each subset that opens or closes at the same time, beside the returns that succeed.
		if most := (cycles+1)*3*len(w.sites) + 2*int(w.n); w.writes > most {
			t.Fatalf("%d writes in %d cycles, expected at most %d:\n%s", w.writes, cycles, most, w)
		}
	}
	if compared < max(*cases/200, 1)/5 {
		t.Errorf("only %d worlds had room for all", compared)
	}
}

// TestCase7PodsWaitWhereTheyAre: all subsets lack room. An open one is tried with one pod at a time, and the pods that
// wait in a closed one stay until that one has found a node.
func TestCase7PodsWaitWhereTheyAre(t *testing.T) {
	closed := func(replicas, bound int32) Seen {
		return Seen{Replicas: replicas, Ready: bound, Bound: bound, Unschedulable: true}
	}
	waits := func(replicas, bound int32) Seen {
		s := closed(replicas, bound)
		s.Waiting = true
		return s
	}
	open := func(replicas, bound int32) Seen { return Seen{Replicas: replicas, Ready: bound, Bound: bound} }
	for _, tc := range []struct {
		why  string
		n    int32
		seen []Seen
		want string
	}{
		{"the first one closes: all go to the next", 4, []Seen{closed(4, 1), {}}, "a=1 b=3"},
		{"both are closed: they wait in the first one", 4, []Seen{closed(1, 1), closed(3, 1)}, "a=3 b=1"},
		{"the second one opens: it is tried with one pod more", 4, []Seen{waits(3, 1), open(1, 1)}, "a=3 b=2"},
		{"the pod that tries it stays until it counts as stuck", 4, []Seen{waits(3, 1), open(2, 1)}, "a=3 b=2"},
		{"it found a node: one less waits, and one more tries", 4, []Seen{waits(3, 1), open(2, 2)}, "a=2 b=3"},
		{"it found none: as before", 4, []Seen{waits(3, 1), closed(2, 1)}, "a=3 b=1"},
		{"the last one that waits goes", 4, []Seen{waits(2, 1), open(3, 3)}, "a=1 b=3"},
		{"new pods try it at once", 8, []Seen{waits(3, 1), open(1, 1)}, "a=3 b=5"},
	} {
		shares, err := Adaptive(tc.n, []Subset{{Name: "a"}, {Name: "b"}}, tc.seen)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("a=%d b=%d", shares[0].Replicas, shares[1].Replicas); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.why, got, tc.want)
		}
	}
}
