package placement

import (
	"maps"
	"math"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// unseenFor is how long a pod that stands counts as missing from its member's report on room, where no report comes: agents
// look at amounts every 30 to 33 s, and tell no change that is too small to matter.
const unseenFor = 40 * time.Second

// Ledger knows what members were told to run and do not count as requested yet, so that workloads which come at once are
// not given the same room. It keeps sums by member, so that a decision costs nothing for the workloads that there are.
//
// A pod is promised from the decision on. It is seen once it is Ready and the member has reported its room after that (a pod
// without a node is not counted there), or once it has stood for so long that the member had the time to. Once all have been seen nothing is promised but what members do not create, whatever came first: the
// ledger holds nothing that a restarted hub does not find again. It bounds what is new; nothing that is placed depends on it.
// It is safe for concurrent use.
type Ledger struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	// count goes up with every promise, so that a decision can tell whether it knew all of them.
	count   int64
	entries map[wire.Key]*promises
	members map[string]*promised
}

// promises are those to one workload.
type promises struct {
	requests map[corev1.ResourceName]float64
	in       map[string]*promise
}

// promise is what one member was told to run of a workload.
type promise struct {
	ordered int32
	zones   map[string]int32 // of ordered, where cells name their zones
	// stand is how many pods there are, ready how many of them are Ready and so have a node, seen how many of them the member's
	// report on its room counts.
	stand, ready, seen int32
	since              time.Time // when stand grew last
}

// promised is what a member was told to run and has not counted, of all workloads.
type promised struct {
	Room
	keys  map[wire.Key]bool
	raise int64 // Ledger.count of the last promise
	// next is when something may count as seen by time, zero for never.
	next time.Time
}

// Room is an amount of resources in a member, in thousandths. Zones have the part of it that is known to be in a zone.
type Room struct {
	All   map[corev1.ResourceName]float64
	Zones map[string]map[corev1.ResourceName]float64
}

// NewLedger returns a ledger without promises.
func NewLedger(clk clock.PassiveClock) *Ledger {
	return &Ledger{clock: clk, entries: map[wire.Key]*promises{}, members: map[string]*promised{}}
}

// Read returns what each member promised, without those that promised nothing, and a number for [Ledger.Write]. Of the workload
// itself only what is Ready and not seen counts: what is not Ready yet is left to the decision, which knows it by cell.
func (l *Ledger) Read(key wire.Key) (map[string]Room, int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[string]Room{}
	own := l.entries[key]
	for name, m := range l.members {
		l.age(name, m)
		if len(m.All) == 0 {
			continue
		}
		room := Room{All: maps.Clone(m.All), Zones: map[string]map[corev1.ResourceName]float64{}}
		for zone, amounts := range m.Zones {
			room.Zones[zone] = maps.Clone(amounts)
		}
		if own != nil && own.in[name] != nil {
			room.add(own, own.in[name], -1)
			room.add(own, own.in[name].started(), 1)
		}
		if !room.empty() {
			out[name] = room
		}
	}
	return out, l.count
}

// Write records what a workload's placement promises now; no cells for nothing. It returns false, and records nothing, where
// the placement asks a member for more than before, and the member promised something to another workload after the number
// was read: then the decision did not know of that. at is the number of [Ledger.Read], or -1 to record in any case.
func (l *Ledger) Write(key wire.Key, requests corev1.ResourceList, cells []topology.Cell, reports map[string]Report, at int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, after := l.entries[key], promisesOf(requests, cells, reports)
	raised := false
	for name, p := range after.in {
		var had int32
		if before != nil && before.in[name] != nil {
			had = before.in[name].ordered
		}
		if p.ordered <= had {
			continue
		}
		raised = true
		if m := l.members[name]; m != nil && at >= 0 && m.raise > at {
			return false
		}
	}
	if raised {
		l.count++
	}
	now := l.clock.Now()
	for name, p := range after.in {
		var had int32
		switch old := l.holding(before, name); {
		case before == nil:
			p.seen = p.stand // a hub that starts: what stands has been there
		case old != nil:
			p.seen, p.since, had = min(old.seen, p.stand), old.since, old.ordered
			if p.stand > old.stand {
				p.since = now
			}
		default:
			p.since = now
		}
		m := l.members[name]
		if m == nil {
			m = &promised{Room: Room{All: map[corev1.ResourceName]float64{}, Zones: map[string]map[corev1.ResourceName]float64{}}, keys: map[wire.Key]bool{}}
			l.members[name] = m
		}
		if p.ordered > had {
			m.raise = l.count
		}
	}
	if before != nil {
		for name, p := range before.in {
			l.members[name].add(before, p, -1)
			delete(l.members[name].keys, key)
		}
	}
	delete(l.entries, key)
	if len(after.in) > 0 {
		l.entries[key] = after
	}
	for name, p := range after.in {
		m := l.members[name]
		m.keys[key] = true
		m.add(after, p, 1)
		m.wait(p)
	}
	return true
}

func (l *Ledger) holding(of *promises, member string) *promise {
	if of == nil {
		return nil
	}
	return of.in[member]
}

// Seen tells that a member reported its room: what stands there is counted in it.
func (l *Ledger) Seen(member string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m := l.members[member]; m != nil {
		l.see(member, m, func(p *promise) int32 { return max(p.seen, min(p.stand, p.ready)) })
	}
}

// age counts as seen what has stood for so long that the member must have counted it.
func (l *Ledger) age(name string, m *promised) {
	now := l.clock.Now()
	if m.next.IsZero() || now.Before(m.next) {
		return
	}
	l.see(name, m, func(p *promise) int32 {
		if now.Sub(p.since) < unseenFor {
			return p.seen
		}
		return p.stand
	})
}

// see counts as many pods of each promise as seen as now tells.
func (l *Ledger) see(name string, m *promised, now func(*promise) int32) {
	m.next = time.Time{}
	busy := false
	for key := range m.keys {
		e := l.entries[key]
		p := e.in[name]
		if n := now(p); n != p.seen {
			m.add(e, p, -1)
			p.seen = n
			m.add(e, p, 1)
		}
		m.wait(p)
		busy = busy || p.unseen() > 0
	}
	if !busy { // no rest of sums that were rounded
		clear(m.All)
		clear(m.Zones)
	}
}

// wait sees to it that a promise is looked at when its time has come.
func (m *promised) wait(p *promise) {
	if p.seen == p.stand {
		return
	}
	if at := p.since.Add(unseenFor); m.next.IsZero() || at.Before(m.next) {
		m.next = at
	}
}

// started returns the part of the promise that is Ready.
func (p *promise) started() *promise {
	return &promise{ordered: min(p.ready, p.ordered), zones: p.zones, seen: p.seen}
}

func (p *promise) unseen() int32 { return max(p.ordered-p.seen, 0) }

// add adds what a promise holds, times is 1 or -1.
func (r *Room) add(of *promises, p *promise, times float64) {
	n := p.unseen()
	if n == 0 {
		return
	}
	for name, amount := range of.requests {
		r.All[name] = plus(r.All[name], times*float64(n)*amount)
		for zone, ordered := range p.zones {
			if r.Zones[zone] == nil {
				r.Zones[zone] = map[corev1.ResourceName]float64{}
			}
			r.Zones[zone][name] = plus(r.Zones[zone][name], times*float64(min(n, ordered))*amount)
		}
	}
}

// plus never goes below nothing: sums of large amounts are rounded.
func plus(sum, more float64) float64 { return max(sum+more, 0) }

func (r *Room) empty() bool {
	for _, amount := range r.All {
		if amount >= 1 {
			return false
		}
	}
	return true
}

// promisesOf reads what a placement tells members to run, and what of it they reported to stand.
func promisesOf(requests corev1.ResourceList, cells []topology.Cell, reports map[string]Report) *promises {
	e := &promises{requests: map[corev1.ResourceName]float64{}, in: map[string]*promise{}}
	for name := range requests {
		if amount := thousandths(requests, name); amount > 0 && counted(name) {
			e.requests[name] = float64(amount)
		}
	}
	for i := range cells {
		c := &cells[i]
		p := e.in[c.Cluster]
		if p == nil {
			p = &promise{zones: map[string]int32{}}
			e.in[c.Cluster] = p
			for _, use := range reports[c.Cluster].Use {
				p.stand += use.Total
				p.ready += use.Ready
			}
			if found, err := strconv.ParseInt(c.Adopt, 10, 32); err == nil && !reports[c.Cluster].Applied {
				p.stand = max(p.stand, int32(found)) // it runs there, without a mark
				p.ready = p.stand
			}
		}
		p.ordered += c.Replicas
		if c.Zone != "" {
			p.zones[c.Zone] += c.Replicas
		}
	}
	maps.DeleteFunc(e.in, func(_ string, p *promise) bool { return p.ordered == 0 })
	return e
}

// whole64 is an amount of a [Room] as the amounts of reports are counted, from 0 to mostAmount.
func whole64(amount float64) int64 { return int64(math.Ceil(min(max(amount, 0), mostAmount))) }
