package division

import (
	"container/heap"
	"math"
	"math/bits"
	"slices"
)

// Unbounded as [Entry].Max means no upper bound.
const Unbounded = math.MaxInt64

// maxWeight keeps the sum of the weights of a million entries within 64 bits. Larger weights count as this one.
const maxWeight = 1 << 40

// Entry is one receiver of seats.
type Entry struct {
	// Weight is relative to the other entries. An entry of weight 0 gets no seat above its Min or Current.
	Weight int64
	// Min and Max bound the share; Max is [Unbounded] for none. A Max below Min counts as Min.
	Min, Max int64
	// Current is the share of the last decision, 0 for a new entry.
	Current int64
	// Key identifies the entry; its hash breaks the last ties. Two entries of one call never have the same key.
	Key string

	room int64  // for ties, where Max is narrower for a reason of one n only; 0 for Max
	hash uint64 // of Key, 0 for one that is still to be made
	held int64  // how much of Min is no floor of the user's, but what a frozen cell has; the tree goes by it
}

// Seats divides n seats over the entries with the bounded divisor method of Webster and returns one share per entry, in
// the order given, and the rest that no entry can take. It is sticky: an entry keeps what it has unless a bound or n
// takes it, so with a larger n no share shrinks and with a smaller n none grows, bounds permitting. Starting from
// Current 0 everywhere it is the plain divisor method. If the sum of all Min is above n, no entry gets more than its
// Min. Negative numbers count as 0. The result does not depend on the order of the entries.
func Seats(n int64, entries []Entry) (shares []int64, rest int64) {
	return seats(n, entries, true)
}

// Proportional is [Seats] without stickiness: the shares are those of the plain divisor method within the bounds, and
// Current only says who keeps an odd seat for which several entries have the same claim. An entry of weight 0 gets its
// Min.
func Proportional(n int64, entries []Entry) (shares []int64, rest int64) {
	return seats(n, entries, false)
}

func seats(n int64, entries []Entry, sticky bool) (shares []int64, rest int64) {
	n = max(n, 0)
	s := newSolver(entries)
	s.narrow(n, sticky)
	if possible := total(s.hi); possible < n {
		return s.hi, n - possible
	}
	s.solve(n)
	return s.s, 0
}

// narrow sets the bounds that n leaves: floors that alone use up n become the ceilings, entries of weight 0 get nothing
// new, and if sticky, seats move in one direction only.
func (s *solver) narrow(n int64, sticky bool) {
	if n <= total(s.lo) {
		copy(s.hi, s.lo)
		clear(s.lo)
	} else {
		for i := range s.w {
			if s.w[i] == 0 && sticky {
				s.hi[i] = min(s.hi[i], max(s.lo[i], s.cur[i]))
			} else if s.w[i] == 0 {
				s.hi[i] = s.lo[i]
			}
		}
	}
	if sticky {
		s.keep(n)
	}
}

// solver holds the entries as columns. All values are ≥ 0 and lo ≤ hi.
type solver struct {
	w, lo, hi, cur, s []int64
	room              []int64 // the entry's own Max, for ties
	hash              []uint64
	entries           []Entry // for their keys
}

func newSolver(entries []Entry) *solver {
	k := len(entries)
	columns := make([]int64, 6*k)
	column := func(i int) []int64 { return columns[i*k : (i+1)*k : (i+1)*k] }
	s := &solver{
		w: column(0), lo: column(1), hi: column(2), cur: column(3), s: column(4), room: column(5),
		hash: make([]uint64, k), entries: entries,
	}
	for i := range entries {
		e := &entries[i]
		s.w[i] = min(max(e.Weight, 0), maxWeight)
		s.lo[i] = max(e.Min, 0)
		s.hi[i] = max(e.Max, s.lo[i])
		s.cur[i] = max(e.Current, 0)
		s.room[i] = max(s.hi[i], e.room)
		if s.hash[i] = e.hash; e.hash == 0 {
			s.hash[i] = spread(e.Key)
		}
	}
	return s
}

// keep narrows the bounds to one side of what is there now, so that seats move in one direction only.
func (s *solver) keep(n int64) {
	kept := s.s
	for i := range kept {
		kept[i] = min(max(s.cur[i], s.lo[i]), s.hi[i])
	}
	if total(kept) <= n {
		copy(s.lo, kept)
	} else {
		copy(s.hi, kept)
	}
}

// solve sets s.s with Σs = n. It needs Σlo ≤ n ≤ Σhi. Entries of weight 0 come after all others: they get what is left
// above the ceilings of those, evenly.
func (s *solver) solve(n int64) {
	weighted, weightless := make([]int, 0, len(s.w)), []int(nil)
	for i := range s.w {
		if s.w[i] > 0 {
			weighted = append(weighted, i)
		} else {
			weightless = append(weightless, i)
		}
	}
	if len(weightless) == 0 {
		s.solveTier(n, weighted)
		return
	}
	var floor, ceiling int64
	for _, i := range weightless {
		s.w[i] = 1
		floor = add(floor, s.lo[i])
	}
	for _, i := range weighted {
		ceiling = add(ceiling, s.hi[i])
	}
	first := min(n-floor, ceiling)
	s.solveTier(first, weighted)
	s.solveTier(n-first, weightless)
}

// solveTier solves for the entries in tier, all of positive weight. It starts from a point that is at most len(tier)
// seats away from the solution and moves seat by seat from there.
func (s *solver) solveTier(n int64, tier []int) {
	var floor, ceiling int64
	for _, i := range tier {
		floor = add(floor, s.lo[i])
		ceiling = add(ceiling, s.hi[i])
	}
	near := int64(len(tier))
	switch {
	case n-floor <= near:
		for _, i := range tier {
			s.s[i] = s.lo[i]
		}
	case ceiling-n <= near:
		for _, i := range tier {
			s.s[i] = s.hi[i]
		}
	default:
		num, den := s.lambda(n, tier)
		for _, i := range tier {
			s.s[i] = min(max(roundRatio(num, s.w[i], den), s.lo[i]), s.hi[i])
		}
	}
	var have int64
	for _, i := range tier {
		have = add(have, s.s[i])
	}
	if have < n {
		s.step(n-have, tier, true)
	} else if have > n {
		s.step(have-n, tier, false)
	}
}

// breakpoint is a λ = at/w at which an entry leaves its floor (free) or reaches its ceiling.
type breakpoint struct {
	at, w int64
	free  bool
}

// lambda returns the λ = num/den with Σ clamp(λ*w, lo, hi) = n over the reals. Rounding each term moves a sum of k
// terms by at most k/2, which is why the seats that remain to be moved are few.
func (s *solver) lambda(n int64, tier []int) (num, den int64) {
	var base, slope int64 // Σ clamp(λ*w, lo, hi) = base + λ*slope between two breakpoints
	points := make([]breakpoint, 0, len(tier))
	for _, i := range tier {
		base += s.lo[i]
		if s.lo[i] == s.hi[i] {
			continue
		}
		if s.lo[i] == 0 {
			slope += s.w[i]
		} else {
			points = append(points, breakpoint{at: s.lo[i], w: s.w[i], free: true})
		}
		if s.hi[i] < n { // a ceiling of n or more is never reached before Σ = n
			points = append(points, breakpoint{at: s.hi[i], w: s.w[i]})
		}
	}
	slices.SortFunc(points, func(a, b breakpoint) int { return compareProducts(a.at, b.w, b.at, a.w) })
	for _, p := range points {
		if compareProducts(slope, p.at, n-base, p.w) >= 0 {
			break
		}
		if p.free {
			base -= p.at
			slope += p.w
		} else {
			base += p.at
			slope -= p.w
		}
	}
	// Only n = Σhi ends without a slope, and that is solved before; 1 keeps the division defined.
	return n - base, max(slope, 1)
}

// step gives (up) or takes count seats, each the next by the divisor method.
func (s *solver) step(count int64, tier []int, up bool) {
	h := &seatHeap{solver: s, up: up, items: make([]int, 0, len(tier))}
	for _, i := range tier {
		if h.movable(i) {
			h.items = append(h.items, i)
		}
	}
	heap.Init(h)
	for range count {
		i := h.items[0]
		if up {
			s.s[i]++
		} else {
			s.s[i]--
		}
		if h.movable(i) {
			heap.Fix(h, 0)
		} else {
			heap.Pop(h)
		}
	}
}

// seatHeap has on top the entry that gets the next seat (up), or gives its last one.
type seatHeap struct {
	*solver
	items []int
	up    bool
}

func (h *seatHeap) movable(i int) bool {
	if h.up {
		return h.s[i] < h.hi[i]
	}
	return h.s[i] > h.lo[i]
}

func (h *seatHeap) Len() int      { return len(h.items) }
func (h *seatHeap) Swap(a, b int) { h.items[a], h.items[b] = h.items[b], h.items[a] }
func (h *seatHeap) Push(any)      {} // nothing is ever pushed; heap.Interface asks for it

func (h *seatHeap) Pop() any {
	h.items = h.items[:len(h.items)-1]
	return nil
}

func (h *seatHeap) Less(a, b int) bool {
	i, j := h.items[a], h.items[b]
	if h.up {
		return h.before(i, h.s[i], j, h.s[j])
	}
	return h.before(j, h.s[j]-1, i, h.s[i]-1)
}

// before tells whether the seat that lifts entry i from si comes before the seat that lifts j from sj. It is one total
// order over all seats, which is what makes the shares grow with n.
func (s *solver) before(i int, si int64, j int, sj int64) bool {
	if c := compareProducts(s.w[i], 2*sj+1, s.w[j], 2*si+1); c != 0 {
		return c > 0
	}
	if hasI, hasJ := s.cur[i] > si, s.cur[j] > sj; hasI != hasJ {
		return hasI
	}
	if roomI, roomJ := s.roomAbove(i, si), s.roomAbove(j, sj); roomI != roomJ {
		return roomI > roomJ
	}
	if s.hash[i] != s.hash[j] {
		return s.hash[i] < s.hash[j]
	}
	return s.entries[i].Key < s.entries[j].Key
}

func (s *solver) roomAbove(i int, share int64) int64 {
	if s.room[i] == Unbounded {
		return Unbounded
	}
	return s.room[i] - share
}

// compareProducts compares a*b with c*d, all ≥ 0, exactly.
func compareProducts(a, b, c, d int64) int {
	h1, l1 := bits.Mul64(uint64(a), uint64(b))
	h2, l2 := bits.Mul64(uint64(c), uint64(d))
	switch {
	case h1 < h2 || h1 == h2 && l1 < l2:
		return -1
	case h1 == h2 && l1 == l2:
		return 0
	}
	return 1
}

// roundRatio returns num*w/den rounded half up, or Unbounded where that does not fit. num ≥ 0, w and den > 0.
func roundRatio(num, w, den int64) int64 {
	hi, lo := bits.Mul64(uint64(num), uint64(w))
	if hi >= uint64(den) {
		return Unbounded
	}
	q, r := bits.Div64(hi, lo, uint64(den))
	if q >= Unbounded {
		return Unbounded
	}
	if r >= uint64(den)-r {
		q++
	}
	return int64(q)
}

// add returns a+b, or Unbounded where that does not fit. a, b ≥ 0.
func add(a, b int64) int64 {
	if a > Unbounded-b {
		return Unbounded
	}
	return a + b
}

func total(values []int64) int64 {
	var sum int64
	for _, v := range values {
		sum = add(sum, v)
	}
	return sum
}

// spread hashes a key: FNV-1a, mixed once more by the finalizer of MurmurHash3, since FNV alone leaves keys that differ
// in the last letter in nearly alphabetical order.
func spread(key string) uint64 {
	h := uint64(14695981039346656037) // FNV offset basis
	for i := range len(key) {
		h ^= uint64(key[i])
		h *= 1099511628211 // FNV prime
	}
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	h ^= h >> 33
	return h
}
