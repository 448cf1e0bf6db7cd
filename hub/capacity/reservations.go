package capacity

import (
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

const (
	// UnseenFor is how long what is Ready counts as missing from its member's report on room, where no report comes:
	// agents look at amounts every 30 to 33 s, and tell no change that is too small to matter. A pod that finds no
	// node for as long is left to itself.
	UnseenFor = time.Minute
	// surveySlack is how much later than a workload's report its member must have looked at its nodes to have counted
	// what that report tells of: the agent hears of pods and of their owners one after the other.
	surveySlack = time.Second
	// mostMarks bounds what is remembered of how the pods of a workload became Ready.
	mostMarks = 8
)

// Reservations knows what members were told to run and do not count as requested yet, so that workloads which come at
// once are not given the same room. It keeps sums by member, so that a decision costs nothing for the workloads that
// there are.
//
// A pod is promised from the decision on. It is counted once its member has looked at its nodes after the pod was
// reported to be Ready, by the member's own clock, or once it was Ready for so long that the member had the time to.
// One that stands without being Ready for as long is held against others no more, until it is Ready. Then nothing is
// promised but what members do not create, whatever came first: the ledger holds nothing that a restarted hub does not
// find again. It bounds what is new; nothing that is placed depends on it. It is safe for concurrent use.
type Reservations struct {
	mu sync.Mutex
	// count goes up with every reservation, so that a decision can tell whether it knew all of them.
	count   int64
	entries map[wire.Key]*workload
	members map[string]*member
}

// workload has the reservations of one workload.
type workload struct {
	requests map[corev1.ResourceName]float64
	in       map[string]*reservation
}

// reservation is what one member was told to run of a workload.
type reservation struct {
	ordered int32
	zones   map[string]int32 // of ordered, where cells name their zones
	// adopts is how many pods were found there and are to come under the hub: until then no report tells of them.
	adopts int32
	// stand is how many pods there are, ready how many of them are Ready and so have a node, by the report of the time
	// told.
	stand, ready int32
	told         time.Time
	// marks say since which report at least so many have been Ready: both grow.
	marks []mark
	// counted is how many the member's report on its room counts.
	counted int32
	// stood is when stand grew last, readied when ready did. left: those that stand and are not Ready are held no more.
	stood, readied time.Time
	left           bool
	// fell is when ready became less.
	fell time.Time
}

// mark is a number of pods that were Ready in a report, and have been since. The time is its member's.
type mark struct {
	at    time.Time
	ready int32
}

// member is what all workloads have reserved in a member: ordered pods that the member has not counted yet.
type member struct {
	Amounts
	keys  map[wire.Key]bool
	raise int64 // Reservations.count of the last reservation
	// surveyed is when the member looked at its nodes for its newest report on room, by its own clock; zero where that
	// is not known.
	surveyed time.Time
	// next is when something may count by time, zero for never.
	next time.Time
}

// Amounts is an amount of resources in a member, in thousandths. Zones have the part of it that is known to be in a
// zone.
type Amounts struct {
	All   map[corev1.ResourceName]float64
	Zones map[string]map[corev1.ResourceName]float64
	// Settled is since when no pod of the workload that it is read for came in the member, or ceased to be Ready; zero
	// where nothing is known of that. It is of the API's type, which the comparison of objects knows.
	Settled metav1.Time
}

// NewReservations returns an empty store.
func NewReservations() *Reservations {
	return &Reservations{entries: map[wire.Key]*workload{}, members: map[string]*member{}}
}

// Read returns what each member promised, without those that promised nothing, and a number for [Reservations.Write].
// Of the workload itself only what is Ready and not counted is among it: what is not Ready yet is left to the
// decision, which knows it by cell, from the same reports. Whoever decides reads the members afterwards: what they
// count by then may be promised here too, and is never in neither.
func (l *Reservations) Read(now time.Time, key wire.Key, reports map[string]Report) (map[string]Amounts, int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := l.entries[key]
	if own != nil {
		for name, p := range own.in {
			m := l.members[name]
			m.add(own, p, -1)
			p.hear(reports[name], m.surveyed, now)
			m.add(own, p, 1)
			m.wait(p)
		}
	}
	out := map[string]Amounts{}
	for name, m := range l.members {
		l.age(now, name, m)
		var settled metav1.Time
		if own != nil && own.in[name] != nil {
			settled = metav1.NewTime(own.in[name].settled())
		}
		if len(m.All) == 0 {
			if !settled.IsZero() {
				out[name] = Amounts{Settled: settled}
			}
			continue
		}
		room := Amounts{All: maps.Clone(m.All), Zones: map[string]map[corev1.ResourceName]float64{}, Settled: settled}
		for zone, amounts := range m.Zones {
			room.Zones[zone] = maps.Clone(amounts)
		}
		if own != nil && own.in[name] != nil {
			p := own.in[name]
			room.hold(own, p, p.unseen(), -1)
			room.hold(own, p, p.started(), 1)
		}
		if !settled.IsZero() || !room.empty() {
			out[name] = room
		}
	}
	return out, l.count
}

// Write records what a workload's placement reserves now; no cells for nothing. It returns false, and records nothing,
// where the placement asks a member for more than before, and the member promised something to another workload after
// the number was read: then the decision did not know of that. at is the number of [Reservations.Read], or -1 to
// record in any case.
func (l *Reservations) Write(
	now time.Time,
	key wire.Key,
	requests corev1.ResourceList,
	cells []topology.Cell,
	reports map[string]Report,
	at int64,
) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, after := l.entries[key], reservationsOf(requests, cells)
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
	for name, p := range after.in {
		m, had, old := l.member(name), int32(0), before.holding(name)
		if old != nil {
			had = old.ordered
		}
		p.goOn(old, before == nil, reports[name], m.surveyed, now)
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

// member returns what is known of a member, also of one that promised nothing yet.
func (l *Reservations) member(name string) *member {
	m := l.members[name]
	if m == nil {
		m = &member{
			Amounts: Amounts{All: map[corev1.ResourceName]float64{}, Zones: map[string]map[corev1.ResourceName]float64{}},
			keys:    map[wire.Key]bool{},
		}
		l.members[name] = m
	}
	return m
}

func (e *workload) holding(member string) *reservation {
	if e == nil {
		return nil
	}
	return e.in[member]
}

// Seen tells that a member reported its room, and when it looked at its nodes for that, by its own clock: what was
// Ready before is counted. From an agent that does not say when, what is known to be Ready counts.
func (l *Reservations) Seen(member string, surveyed time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.member(member)
	m.surveyed = surveyed // also an earlier time: the agent's clock was set right
	l.see(member, m, func(p *reservation) { p.count(surveyed) })
}

// age counts what has stood for so long that the member must have counted it.
func (l *Reservations) age(now time.Time, name string, m *member) {
	if m.next.IsZero() || now.Before(m.next) {
		return
	}
	l.see(name, m, func(p *reservation) {
		if now.Sub(p.readied) >= UnseenFor {
			p.counted = max(p.counted, min(p.ready, p.ordered))
		}
		p.left = p.left || now.Sub(p.stood) >= UnseenFor
	})
}

// see changes what is known of each reservation of a member.
func (l *Reservations) see(name string, m *member, change func(*reservation)) {
	m.next = time.Time{}
	busy := false
	for key := range m.keys {
		e := l.entries[key]
		p := e.in[name]
		m.add(e, p, -1)
		change(p)
		m.add(e, p, 1)
		m.wait(p)
		busy = busy || p.unseen() > 0
	}
	if !busy { // no rest of sums that were rounded
		clear(m.All)
		clear(m.Zones)
	}
}

// wait sees to it that a reservation is looked at when its time has come.
func (m *member) wait(p *reservation) {
	sooner := func(at time.Time) {
		if m.next.IsZero() || at.Before(m.next) {
			m.next = at
		}
	}
	if p.counted < min(p.ready, p.ordered) {
		sooner(p.readied.Add(UnseenFor))
	}
	if !p.left && p.stand > p.ready {
		sooner(p.stood.Add(UnseenFor))
	}
}

// goOn takes up what was known of a reservation with what is reported now. old is the reservation of before, nil for
// none; first: nothing was known of the workload at all, so that the hub has just started, and what stands has been
// there.
func (p *reservation) goOn(old *reservation, first bool, report Report, surveyed, now time.Time) {
	if old != nil {
		p.stand, p.ready, p.told, p.marks, p.counted = old.stand, old.ready, old.told, old.marks, old.counted
		p.stood, p.readied, p.left, p.fell = old.stood, old.readied, old.left, old.fell
		p.hear(report, surveyed, now)
		return
	}
	// What else is reported from the time before may be pods that go.
	p.stand, p.ready = p.podsIn(report)
	p.told, p.stood, p.readied = report.At, now, now
	if first {
		p.counted, p.left = min(p.stand, p.ordered), true
	}
}

// podsIn returns how many pods a report tells of, and how many of them are Ready.
func (p *reservation) podsIn(report Report) (stand, ready int32) {
	for _, use := range report.Use {
		stand, ready = stand+use.Total, ready+min(use.Ready, use.Total)
	}
	if !report.Applied && p.adopts > 0 {
		stand = max(stand, p.adopts) // it runs there, without a mark
		ready = stand
	}
	return stand, ready
}

// hear takes up a report.
func (p *reservation) hear(report Report, surveyed, now time.Time) {
	stand, ready := p.podsIn(report)
	if stand > p.stand {
		p.stood, p.left = now, false
	}
	if ready > p.ready {
		p.readied = now
	}
	if ready < p.ready {
		p.fell = now
	}
	again := !report.At.IsZero() && report.At.Equal(p.told)
	p.stand, p.ready, p.told = stand, ready, report.At
	p.counted = min(p.counted, stand, p.ordered)
	// What was Ready and is not, or is to go, is not counted by a report on room that is yet to come.
	for i := range p.marks {
		p.marks[i].ready = min(p.marks[i].ready, ready, p.ordered)
	}
	p.marks = slices.CompactFunc(p.marks, func(a, b mark) bool { return a.ready == b.ready })
	if last := len(p.marks) - 1; !again && (last < 0 || min(ready, p.ordered) > p.marks[last].ready) {
		if len(p.marks) == mostMarks {
			p.marks = p.marks[:last]
		}
		p.marks = append(p.marks, mark{report.At, min(ready, p.ordered)})
	}
	if !surveyed.IsZero() && !report.At.IsZero() {
		p.count(surveyed)
	}
}

// count takes up that the member looked at its nodes at a time; zero for now.
func (p *reservation) count(surveyed time.Time) {
	for _, m := range p.marks {
		if surveyed.IsZero() || !m.at.Add(surveySlack).After(surveyed) {
			p.counted = max(p.counted, m.ready)
		}
	}
}

// settled is since when no pod came or ceased to be Ready.
func (p *reservation) settled() time.Time {
	if p.fell.After(p.stood) {
		return p.fell
	}
	return p.stood
}

// started is how many pods are Ready and not counted.
func (p *reservation) started() int32 { return max(min(p.ready, p.ordered)-p.counted, 0) }

// unseen is how many pods are held against others.
func (p *reservation) unseen() int32 {
	if p.left {
		return p.started() + max(p.ordered-max(p.stand, p.counted), 0)
	}
	return max(p.ordered-p.counted, 0)
}

// add adds what a reservation holds against others, times is 1 or -1.
func (r *Amounts) add(of *workload, p *reservation, times float64) { r.hold(of, p, p.unseen(), times) }

// hold adds the room of some pods of a reservation.
func (r *Amounts) hold(of *workload, p *reservation, pods int32, times float64) {
	if pods == 0 {
		return
	}
	for name, amount := range of.requests {
		r.All[name] = plus(r.All[name], times*float64(pods)*amount)
		for zone, ordered := range p.zones {
			if r.Zones[zone] == nil {
				r.Zones[zone] = map[corev1.ResourceName]float64{}
			}
			r.Zones[zone][name] = plus(r.Zones[zone][name], times*float64(min(pods, ordered))*amount)
		}
	}
}

// plus never goes below nothing: sums of large amounts are rounded.
func plus(sum, more float64) float64 { return max(sum+more, 0) }

func (r *Amounts) empty() bool {
	for _, amount := range r.All {
		if amount >= 1 {
			return false
		}
	}
	return true
}

// reservationsOf reads what a placement tells members to run. One that is told to run none is among them for as long
// as it has a cell: until then its report may tell of pods that go, and what the workload gets there again is new.
func reservationsOf(requests corev1.ResourceList, cells []topology.Cell) *workload {
	e := &workload{requests: map[corev1.ResourceName]float64{}, in: map[string]*reservation{}}
	for name := range requests {
		if amount := thousandths(requests, name); amount > 0 && counted(name) {
			e.requests[name] = float64(amount)
		}
	}
	for i := range cells {
		c := &cells[i]
		p := e.in[c.Cluster]
		if p == nil {
			p = &reservation{zones: map[string]int32{}}
			e.in[c.Cluster] = p
			p.adopts = c.Adoption.Replicas
		}
		p.ordered += c.Replicas
		if c.Zone != "" {
			p.zones[c.Zone] += c.Replicas
		}
	}
	return e
}

// whole64 is an amount of a [Amounts] as the amounts of reports are counted, from 0 to mostAmount.
func whole64(amount float64) int64 { return int64(math.Ceil(min(max(amount, 0), mostAmount))) }
