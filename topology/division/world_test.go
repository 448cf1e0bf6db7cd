package division

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// world plays a UnitedDeployment with the Adaptive strategy: the controller's loop around an allocator, a child per
// subset that creates and deletes pods, a scheduler with a number of pods that fit, and kubelets. Time is in seconds.
type world struct {
	t       *testing.T
	now     int
	n       int32
	subsets []Subset
	sites   []*site
	reserve bool // the allocator is Reserve
	shares  []SubsetShare

	critical, duration int  // rescheduleCriticalSeconds, unschedulableDuration
	lag                bool // the controller sees the state of the tick before
	old                []Seen
	writes             int
}

// site is a subset's child and the nodes that it may use.
type site struct {
	room     int // how many pods fit
	start    int // how long a scheduled pod takes to get ready
	broken   bool
	replicas int32
	pods     []*worldPod
	closedAt int // of the condition Schedulable=False
	closed   bool
}

type worldPod struct {
	born, scheduledAt int
	readyAt           int
	scheduled, ready  bool
	reserved          bool
}

const tick = 5

func newWorld(t *testing.T, n int32, rooms []int, subsets ...string) *world {
	w := &world{t: t, n: n, subsets: parse(subsets...), critical: 30, duration: 300}
	for _, room := range rooms {
		w.sites = append(w.sites, &site{room: room, start: 10})
	}
	return w
}

// pass lets one tick go by: children, scheduler, kubelets, and then the controller.
func (w *world) pass() {
	w.t.Helper()
	w.now += tick
	for _, s := range w.sites {
		s.scale(w.now)
		s.schedule(w.now)
	}
	w.control()
}

// scale is the child's controller. Pods that are not ready go first, the youngest of them.
func (s *site) scale(now int) {
	for len(s.pods) < int(s.replicas) {
		s.pods = append(s.pods, &worldPod{born: now})
	}
	slices.SortStableFunc(s.pods, func(a, b *worldPod) int { return cmp.Compare(a.rank(), b.rank()) })
	s.pods = s.pods[:s.replicas]
}

// rank is the order in which pods are kept.
func (p *worldPod) rank() int {
	switch {
	case p.ready:
		return 0
	case p.scheduled:
		return 1
	}
	return 2
}

func (s *site) schedule(now int) {
	used := 0
	for _, p := range s.pods {
		if p.scheduled && used == s.room { // the node is gone
			*p = worldPod{born: now}
		}
		if p.scheduled {
			used++
		}
		if p.scheduled && !p.ready && !s.broken && now-p.scheduledAt >= s.start {
			p.ready, p.readyAt = true, now
		}
	}
	for _, p := range s.pods {
		if !p.scheduled && used < s.room {
			p.scheduled, p.scheduledAt = true, now
			used++
		}
	}
}

// control is the UnitedDeployment's controller: the state of each subset by part 2.4 or 2.5, and one decision.
func (w *world) control() {
	w.t.Helper()
	all := make([]Seen, len(w.sites))
	for i, s := range w.sites {
		all[i] = w.observe(s)
	}
	if w.lag {
		all, w.old = w.old, all
	}
	for i := range all {
		all[i].Replicas = w.sites[i].replicas // our own decision is always known
	}
	decide := Adaptive
	if w.reserve {
		decide = Reserve
	}
	shares, err := decide(w.n, w.subsets, all)
	if err != nil {
		w.t.Fatal(err)
	}
	w.check(all, shares)
	for i := range shares {
		if w.sites[i].replicas != shares[i].Replicas {
			w.writes++
		}
		w.sites[i].replicas = shares[i].Replicas
	}
	w.shares = shares
}

func (w *world) observe(s *site) Seen {
	var timedOut bool
	seen := Seen{Replicas: s.replicas, Ready: s.ready()}
	for _, p := range s.pods {
		late := !p.scheduled && w.now-p.born > w.critical
		timedOut = timedOut || late
		if p.scheduled && !p.ready {
			seen.Starting++
		}
		switch {
		case p.reserved:
			p.reserved = !p.ready || w.now-p.readyAt < w.duration
		case late, !p.scheduled && s.closed:
			p.reserved = true
		}
		if p.reserved {
			seen.Reserved++
		}
	}
	if w.reserve {
		seen.Unschedulable = seen.Reserved > 0
		s.closed = seen.Unschedulable
		return seen
	}
	seen.Reserved = 0
	stuck := timedOut && seen.Ready < seen.Replicas
	if s.closed && !stuck && w.now-s.closedAt >= w.duration {
		s.closed = false
	}
	if !s.closed && stuck {
		s.closed, s.closedAt = true, w.now
	}
	seen.Unschedulable = s.closed
	return seen
}

func (s *site) ready() int32 {
	ready := int32(0)
	for _, p := range s.pods {
		if p.ready {
			ready++
		}
	}
	return ready
}

func (w *world) ready() int32 {
	ready := int32(0)
	for _, s := range w.sites {
		ready += s.ready()
	}
	return ready
}

// check holds what every single decision has to keep.
func (w *world) check(all []Seen, shares []SubsetShare) {
	w.t.Helper()
	places, err := observe(w.n, w.subsets, all)
	if err != nil {
		w.t.Fatal(err)
	}
	var sum, kept, ready, bound, tries int64
	for i, s := range shares {
		sum += int64(s.Replicas)
		kept += min(int64(s.Replicas), places[i].ready)
		ready += places[i].ready
		bound += places[i].high
		if places[i].closed && !w.reserve {
			low := min(places[i].low, int64(s.Replicas))
			tries += max(low-places[i].ready, 0)
		}
		if int64(s.Replicas) > max(places[i].high, places[i].replicas) {
			w.t.Fatalf("t=%d: subset %s has %d, above its max of %d", w.now, s.Name, s.Replicas, places[i].high)
		}
	}
	n := int64(w.n)
	most := n + max(1, (n+3)/4)
	if w.reserve {
		most = n * int64(len(shares)+1)
	}
	if sum > most || sum < min(n, bound) {
		w.t.Fatalf("t=%d: N=%d, but the sum of %v is %d; seen %+v", w.now, n, numbers(shares), sum, all)
	}
	if kept < min(n-tries, ready) {
		w.t.Fatalf("t=%d: N=%d: %v keeps %d of %d ready pods; %d are mins of closed subsets; seen %+v",
			w.now, n, numbers(shares), kept, ready, tries, all)
	}
}

// settled tells whether every pod is ready, nothing is closed, and the shares are those of the bounds alone.
func (w *world) settled() bool {
	plain, err := Subsets(w.n, ranged(w.subsets), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	for i, s := range w.sites {
		if s.closed || s.replicas != plain[i].Replicas || s.ready() != s.replicas || len(s.pods) != int(s.replicas) {
			return false
		}
	}
	return true
}

// ranged gives subsets without bounds a min of 0, as both allocators read them.
func ranged(subsets []Subset) []Subset {
	out := slices.Clone(subsets)
	for i := range out {
		if out[i].Replicas == nil && out[i].Min == nil && out[i].Max == nil {
			out[i].Min = parse("x{0,}")[0].Min
		}
	}
	return out
}

func (w *world) String() string {
	var b strings.Builder
	for i, s := range w.sites {
		state := ""
		if s.closed {
			state = ", closed"
		}
		fmt.Fprintf(&b, "  %s: %d, %d ready, room for %d%s, %s\n", w.subsets[i].Name, s.replicas, s.ready(), s.room, state,
			w.shares[i].Reason)
	}
	return b.String()
}

// until passes until the world is settled; it fails after limit seconds.
func (w *world) until(limit int, what string, done func() bool) {
	w.t.Helper()
	for end := w.now + limit; !done(); w.pass() {
		if w.now > end {
			w.t.Fatalf("%s: not after %d s (t=%d):\nN=%d, critical %d, duration %d, lag %v\n%s", what, limit, w.now, w.n,
				w.critical, w.duration, w.lag, w)
		}
	}
}

// randomWorld has bounds of every kind; mins only if floors is set.
func randomWorld(t *testing.T, random *rand.Rand, floors bool) *world {
	names := "abcd"[:1+random.IntN(4)]
	specs, rooms := make([]string, len(names)), make([]int, len(names))
	for i, name := range names {
		rooms[i] = random.IntN(8)
		specs[i] = randomBounds(random, string(name), floors, i+1 == len(names))
	}
	w := newWorld(t, random.Int32N(14), rooms, specs...)
	w.lag = random.IntN(2) == 0
	w.old = make([]Seen, len(w.sites))
	w.critical, w.duration = 5+random.IntN(40), 10+random.IntN(200)
	for _, s := range w.sites {
		s.start = random.IntN(100)
		if random.IntN(8) == 0 {
			s.start = 2 * w.duration // slower than a subset stays closed
		}
	}
	return w
}

// randomBounds is a subset for parse; the last one has no max.
func randomBounds(random *rand.Rand, name string, floors, last bool) string {
	low := bound(random, floors && random.IntN(3) == 0, 0)
	high := bound(random, !last && random.IntN(2) == 0, 3)
	return fmt.Sprintf("%s{%s,%s}", name, low, high)
}

func bound(random *rand.Rand, given bool, least int) string {
	switch {
	case !given:
		return ""
	case random.IntN(3) == 0:
		return fmt.Sprintf("%d%%", least*15+random.IntN(30))
	}
	return fmt.Sprint(least + random.IntN(3))
}

// disturb changes one thing at random.
func (w *world) disturb(random *rand.Rand) {
	i := random.IntN(len(w.sites))
	s := w.sites[i]
	switch random.IntN(7) {
	case 0, 1:
		s.room = random.IntN(10)
	case 2:
		w.n = random.Int32N(14)
	case 3:
		if len(s.pods) > 0 { // a pod is lost
			*s.pods[random.IntN(len(s.pods))] = worldPod{born: w.now}
		}
	case 4:
		for _, p := range s.pods { // a probe fails
			if p.ready && random.IntN(2) == 0 {
				p.ready, p.scheduledAt = false, w.now
			}
		}
	case 5:
		s.broken = !s.broken
	case 6: // other bounds
		w.subsets[i] = parse(randomBounds(random, w.subsets[i].Name, true, i+1 == len(w.sites)))[0]
	}
}
