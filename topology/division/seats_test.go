package division

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	cases = flag.Int("cases", 100_000, "number of random cases per property")
	seed  = flag.Uint64("seed", 8, "of the random divisions")
)

func TestSeatsByWeightFromZero(t *testing.T) {
	// The figures of spec/federation.md 6.1 to 6.4; where cells are equal, who has the odd seat is decided by hash, so the
	// shares are compared as a set there (equal: true).
	tests := []struct {
		reason  string
		n       int64
		weights []int64
		want    []int64
		equal   bool
	}{
		{"even without rest", 12, []int64{1, 1, 1}, []int64{4, 4, 4}, true},
		{"one odd seat", 100, []int64{1, 1, 1}, []int64{34, 33, 33}, true},
		{"no entry is left empty by rounding up", 10, []int64{1, 1, 1, 1, 1, 1, 1}, []int64{2, 2, 2, 1, 1, 1, 1}, true},
		{"170:110:60, n=4", 4, []int64{170, 110, 60}, []int64{2, 1, 1}, false},
		{"170:110:60, n=5", 5, []int64{170, 110, 60}, []int64{2, 2, 1}, false},
		{"170:110:60, n=6", 6, []int64{170, 110, 60}, []int64{3, 2, 1}, false},
		{"170:110:60, n=7", 7, []int64{170, 110, 60}, []int64{4, 2, 1}, false},
		{"170:110:60, n=8", 8, []int64{170, 110, 60}, []int64{4, 3, 1}, false},
		{"2:1 of two", 2, []int64{2, 1}, []int64{1, 1}, false},
		{"2:1:1 of a hundred", 100, []int64{2, 1, 1}, []int64{50, 25, 25}, false},
		{"40:30:10 of twenty: 7.5 and 2.5 tie, 10/7/3 is as good", 20, []int64{40, 30, 10}, []int64{10, 8, 2}, false},
		{"30:22:8 of ten", 10, []int64{30, 22, 8}, []int64{5, 4, 1}, false},
		{"40:30 of fifty", 50, []int64{40, 30}, []int64{29, 21}, false},
		{"40:30 of thirty", 30, []int64{40, 30}, []int64{17, 13}, false},
		{"3:2:2 of ten, no +1 for the heaviest", 10, []int64{3, 2, 2}, []int64{4, 3, 3}, false},
		{"weight 0 gets nothing", 5, []int64{1, 0}, []int64{5, 0}, false},
		{"nothing to give", 0, []int64{1, 2}, []int64{0, 0}, false},
		{"the largest numbers", 1 << 40, []int64{1 << 50, 1 << 50}, []int64{1 << 39, 1 << 39}, false},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			got, rest := Seats(tc.n, weighted(tc.weights...))
			if tc.equal {
				slices.SortFunc(got, func(a, b int64) int { return int(b - a) })
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || rest != 0 {
				t.Errorf("Seats(%d, %v): rest %d, shares (-want +got):\n%s", tc.n, tc.weights, rest, diff)
			}
		})
	}
}

func TestSeatsWithBoundsAndCurrent(t *testing.T) {
	bounded := func(weight, low, high, current int64) Entry {
		return Entry{Weight: weight, Min: low, Max: high, Current: current}
	}
	tests := []struct {
		reason   string
		n        int64
		entries  []Entry
		want     []int64
		wantRest int64
	}{
		{"5:3:2 with a max and a min", 20, []Entry{bounded(5, 0, 8, 0), bounded(3, 0, Unbounded, 0),
			bounded(2, 6, Unbounded, 0)}, []int64{8, 6, 6}, 0},
		{"all at their max", 20, []Entry{bounded(1, 0, 8, 0), bounded(1, 0, 3, 0)}, []int64{8, 3}, 9},
		{"floors above n are filled by weight", 4, []Entry{bounded(1, 3, 9, 0), bounded(1, 5, 9, 0)}, []int64{2, 2}, 0},
		{"a floor of a weightless entry is kept", 4, []Entry{bounded(1, 0, 9, 0), bounded(0, 3, 9, 0)}, []int64{1, 3}, 0},
		{"weight changed 1:1:1 to 2:1:1: nothing moves", 100,
			[]Entry{bounded(2, 0, Unbounded, 34), bounded(1, 0, Unbounded, 33), bounded(1, 0, Unbounded, 33)},
			[]int64{34, 33, 33}, 0},
		{"then added seats go to the one below its target", 110,
			[]Entry{bounded(2, 0, Unbounded, 34), bounded(1, 0, Unbounded, 33), bounded(1, 0, Unbounded, 33)},
			[]int64{44, 33, 33}, 0},
		{"a new equal entry pulls nothing", 10, []Entry{bounded(1, 0, Unbounded, 4), bounded(1, 0, Unbounded, 3),
			bounded(1, 0, Unbounded, 3), bounded(1, 0, Unbounded, 0)}, []int64{4, 3, 3, 0}, 0},
		{"it gets what is added", 13, []Entry{bounded(1, 0, Unbounded, 4), bounded(1, 0, Unbounded, 3),
			bounded(1, 0, Unbounded, 3), bounded(1, 0, Unbounded, 0)}, []int64{4, 3, 3, 3}, 0},
		{"scale-in takes from those above", 6, []Entry{bounded(1, 0, Unbounded, 7), bounded(1, 0, Unbounded, 2)},
			[]int64{4, 2}, 0},
		{"a weightless entry gives first", 8, []Entry{bounded(0, 0, Unbounded, 5), bounded(1, 0, Unbounded, 5)},
			[]int64{3, 5}, 0},
		{"a weightless entry gets nothing new", 12, []Entry{bounded(0, 0, Unbounded, 5), bounded(1, 0, Unbounded, 5)},
			[]int64{5, 7}, 0},
		{"only weightless ones: the rest stays", 12, []Entry{bounded(0, 0, Unbounded, 5)}, []int64{5}, 7},
		{"a lowered max moves just that", 10, []Entry{bounded(1, 0, 3, 5), bounded(1, 0, Unbounded, 5)}, []int64{3, 7}, 0},
		{"no entries", 3, nil, nil, 3},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			for i := range tc.entries {
				tc.entries[i].Key = fmt.Sprint("e", i)
			}
			got, rest := Seats(tc.n, tc.entries)
			if len(got) == 0 {
				got = nil
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || rest != tc.wantRest {
				t.Errorf("rest %d, want %d; shares (-want +got):\n%s", rest, tc.wantRest, diff)
			}
		})
	}
}

func TestSeatsTies(t *testing.T) {
	tests := []struct {
		reason  string
		entries []Entry
		want    []int64
	}{
		{"more room first", []Entry{{Weight: 1, Max: 3, Key: "a"}, {Weight: 1, Max: 9, Key: "b"}}, []int64{0, 1}},
		{"more room first, whatever the key", []Entry{{Weight: 1, Max: 3, Key: "b"}, {Weight: 1, Max: 9, Key: "a"}},
			[]int64{0, 1}},
		{"unbounded is the most room", []Entry{{Weight: 1, Max: 1 << 40, Key: "a"}, {Weight: 1, Max: Unbounded, Key: "b"}},
			[]int64{0, 1}},
		{"unbounded, whatever the key", []Entry{{Weight: 1, Max: 1 << 40, Key: "b"}, {Weight: 1, Max: Unbounded, Key: "a"}},
			[]int64{0, 1}},
		{"who has the seat keeps it", []Entry{{Weight: 1, Max: 9, Key: "a"}, {Weight: 1, Max: 3, Current: 1, Key: "b"}},
			[]int64{0, 1}},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			if got, _ := Seats(1, tc.entries); !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// A single seat over many equal entries must not favour names that sort first: over many salts, everyone gets its part.
func TestSeatsHashHasNoBias(t *testing.T) {
	const trials, clusters = 6000, 6
	wins := make([]int, clusters)
	for trial := range trials {
		entries := weighted(1, 1, 1, 1, 1, 1)
		for i := range entries {
			entries[i].Key = fmt.Sprintf("ns/workload-%d\x00member-%d", trial, i)
		}
		shares, _ := Seats(1, entries)
		wins[slices.Index(shares, 1)]++
	}
	for i, n := range wins {
		// 1 000 expected, standard deviation 29.
		if n < 850 || n > 1150 {
			t.Errorf("member-%d got the seat %d times of %d, want about %d", i, n, trials, trials/clusters)
		}
	}
}

// With n growing by one, exactly one share grows by one (house monotone), from zero and step by step from the last
// answer.
func TestSeatsMonotone(t *testing.T) {
	for _, weights := range [][]int64{{170, 110, 60}, {6, 6, 2}, {1, 1, 1}, {1, 1, 1, 1, 1, 1, 1}, {100, 1, 1},
		{3, 0, 5}} {
		sticky := weighted(weights...)
		last := make([]int64, len(weights))
		for n := range int64(201) {
			fresh, _ := Seats(n, weighted(weights...))
			stepped, _ := Seats(n, sticky)
			if !slices.Equal(fresh, stepped) {
				t.Fatalf("weights %v, n=%d: from zero %v, from n-1 %v", weights, n, fresh, stepped)
			}
			if n > 0 && moved(last, fresh) != 1 {
				t.Fatalf("weights %v, n=%d: %v after %v", weights, n, fresh, last)
			}
			last = fresh
			for i := range sticky {
				sticky[i].Current = stepped[i]
			}
		}
	}
}

func TestSeatsProperties(t *testing.T) {
	random := rand.New(rand.NewPCG(1, *seed))
	for i := range *cases {
		n, entries := randomEntries(random)
		checkSeats(t, random, n, entries)
		if t.Failed() {
			t.Fatalf("case %d of seed %d", i, *seed)
		}
	}
}

func FuzzSeats(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	f.Fuzz(func(t *testing.T, a, b uint64) {
		random := rand.New(rand.NewPCG(a, b))
		n, entries := randomEntries(random)
		checkSeats(t, random, n, entries)
	})
}

// checkSeats holds every property that Seats promises against one case.
func checkSeats(t *testing.T, random *rand.Rand, n int64, entries []Entry) {
	t.Helper()
	shares, rest := Seats(n, entries)
	fail := func(format string, args ...any) {
		t.Helper()
		t.Errorf("Seats(%d, %+v) = %v, %d: %s", n, entries, shares, rest, fmt.Sprintf(format, args...))
	}
	var sum, floors int64
	for i, e := range entries {
		sum += shares[i]
		floors += e.Min
		if shares[i] > e.Max || shares[i] < 0 {
			fail("entry %d outside its bounds", i)
		}
		if e.Weight == 0 && shares[i] > max(e.Current, e.Min) {
			fail("entry %d of weight 0 got something new", i)
		}
	}
	if sum+rest != n {
		fail("sum %d + rest %d is not n", sum, rest)
	}
	for i, e := range entries {
		if rest > 0 && e.Weight > 0 && shares[i] != e.Max {
			fail("a rest, but entry %d has room", i)
		}
		if floors <= n && shares[i] < e.Min || floors > n && shares[i] > e.Min {
			fail("entry %d: floor not kept", i)
		}
	}
	next, nextRest := Seats(n+1, entries)
	if m := moved(shares, next); rest == 0 && nextRest == 0 && m != 1 {
		fail("n+1 gives %v, which moves %d", next, m)
	}
	checkSticky(t, n, entries, shares, fail)

	shuffled := slices.Clone(entries)
	random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	again, _ := Seats(n, shuffled)
	for i, e := range entries {
		if j := slices.IndexFunc(shuffled, func(o Entry) bool { return o.Key == e.Key }); again[j] != shares[i] {
			fail("in another order entry %d gets %d", i, again[j])
		}
	}
}

// checkSticky: the answer is a fixed point, and no less could be moved within the bounds.
func checkSticky(t *testing.T, n int64, entries []Entry, shares []int64, fail func(string, ...any)) {
	t.Helper()
	settled := slices.Clone(entries)
	var floors, ceilings, clamped, least int64
	for _, e := range entries {
		floors += e.Min
		ceilings += e.Max
	}
	for i, e := range entries {
		settled[i].Current = shares[i]
		low, high := e.Min, e.Max
		if n <= floors {
			low, high = 0, e.Min
		} else if e.Weight == 0 {
			high = min(high, max(low, e.Current))
		}
		c := min(max(e.Current, low), high)
		clamped += c
		least += abs(c - e.Current)
	}
	if again, _ := Seats(n, settled); !slices.Equal(again, shares) {
		fail("no fixed point: again gives %v", again)
	}
	var got, placed int64
	for i, e := range entries {
		got += abs(shares[i] - e.Current)
		placed += shares[i]
	}
	if want := least + abs(placed-clamped); got != want {
		fail("moves %d, possible with %d", got, want)
	}
}

// The starting point by λ is never further from the answer than there are entries; this bounds the cost for any n.
func TestSeatsStartsNear(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 10))
	for range *cases {
		n, entries := randomEntries(random)
		s := newSolver(entries)
		var tier []int
		for i, w := range s.w {
			if w > 0 {
				tier = append(tier, i)
			} else {
				s.lo[i], s.hi[i] = 0, 0
			}
		}
		if n < total(s.lo) || n >= total(s.hi) {
			continue
		}
		num, den := s.lambda(n, tier)
		var start int64
		for _, i := range tier {
			start += min(max(roundRatio(num, s.w[i], den), s.lo[i]), s.hi[i])
		}
		if abs(start-n) > int64(len(tier)) {
			t.Fatalf("n=%d, entries %+v: λ=%d/%d starts at %d", n, entries, num, den, start)
		}
	}
}

// On small cases the answer is compared with all allocations there are: none within the bounds moves less, and among
// those that move as little, none is closer to the weights by Webster's own criterion (no transfer of a moved seat from
// one entry to another improves it).
func TestSeatsAgainstBruteForce(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range min(*cases/20, 200_000) {
		k := 1 + random.IntN(4)
		entries := make([]Entry, k)
		for i := range entries {
			low := random.Int64N(3)
			entries[i] = Entry{Weight: 1 + random.Int64N(5), Min: low, Max: low + random.Int64N(6), Current: random.Int64N(6),
				Key: fmt.Sprint(i)}
		}
		n := random.Int64N(14)
		var floors, ceilings int64
		for _, e := range entries {
			floors += e.Min
			ceilings += e.Max
		}
		if n < floors || n > ceilings {
			continue
		}
		shares, _ := Seats(n, entries)
		least := int64(1 << 60)
		enumerate(n, entries, nil, func(x []int64) { least = min(least, distance(x, entries)) })
		if d := distance(shares, entries); d != least {
			t.Fatalf("Seats(%d, %+v) = %v moves %d, brute force %d", n, entries, shares, d, least)
		}
		for i, from := range entries {
			for j, to := range entries {
				if i == j || shares[i] <= from.Min || shares[j] >= to.Max {
					continue
				}
				x := slices.Clone(shares)
				x[i]--
				x[j]++
				if distance(x, entries) == least && to.Weight*(2*x[i]+1) > from.Weight*(2*shares[j]+1) {
					t.Fatalf("Seats(%d, %+v) = %v, but %v is nearer to the weights and moves no more", n, entries, shares, x)
				}
			}
		}
	}
}

func enumerate(n int64, entries []Entry, prefix []int64, visit func([]int64)) {
	if len(prefix) == len(entries) {
		if n == 0 {
			visit(prefix)
		}
		return
	}
	e := entries[len(prefix)]
	for s := e.Min; s <= min(e.Max, n); s++ {
		enumerate(n-s, entries, append(prefix, s), visit)
	}
}

func distance(x []int64, entries []Entry) int64 {
	var d int64
	for i, e := range entries {
		d += abs(x[i] - e.Current)
	}
	return d
}

func moved(a, b []int64) int64 {
	var d int64
	for i := range a {
		d += abs(a[i] - b[i])
	}
	return d
}

func abs(x int64) int64 { return max(x, -x) }

func weighted(weights ...int64) []Entry {
	entries := make([]Entry, len(weights))
	for i, w := range weights {
		entries[i] = Entry{Weight: w, Max: Unbounded, Key: fmt.Sprint("e", i)}
	}
	return entries
}

// randomEntries mixes sizes: tiny cases, where rules collide, and large ones, where λ counts.
func randomEntries(random *rand.Rand) (int64, []Entry) {
	size := []int64{4, 20, 1000, 1 << 31}[random.IntN(4)]
	entries := make([]Entry, 1+random.IntN(12))
	for i := range entries {
		e := Entry{Weight: random.Int64N(1 + random.Int64N(size)), Max: Unbounded >> 8, Key: fmt.Sprint("k", i)}
		if random.IntN(3) == 0 {
			e.Weight = 1
		}
		if random.IntN(3) == 0 {
			e.Min = random.Int64N(size)
		}
		if random.IntN(3) == 0 {
			e.Max = e.Min + random.Int64N(size)
		}
		if random.IntN(2) == 0 {
			e.Current = random.Int64N(size)
		}
		entries[i] = e
	}
	return random.Int64N(size * int64(len(entries))), entries
}
