package lending

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
)

var runs = flag.Int("runs", 3000, "number of simulated rollouts")

// order is what a member is told; report, what it tells. Both travel through a network that delays, drops and doubles.
type order struct {
	sequence int64
	template int
	replicas int32
	share    Amounts
	frozen   bool
}

type message struct {
	Report
	member, template, counter int
}

// member follows its newest order and uses what it permits, pod by pod.
type member struct {
	order
	updated int32 // pods of the template
	down    int32 // pods that it took down and that are not ready again
	extra   int32 // surge pods
	current int   // the template that all pods had last
	counter int

	restart  int   // the restart in place that it saw last
	restarts int32 // pods that have still to restart
}

func (m *member) inUse() Amounts { return Amounts{m.updated, m.down, m.extra} }

func (m *member) follow(o order) {
	if o.sequence <= m.sequence {
		return
	}
	if o.template != m.template {
		m.updated = 0
	}
	m.order = o
	m.updated = min(m.updated, m.replicas)
}

// canGoBack tells whether there is an older template than the one that is rolled out.
func (m *member) canGoBack() bool { return m.current != m.template }

// act does one step of a rollout, or finishes one.
func (m *member) act(random *rand.Rand) {
	may := !m.frozen && m.updated < m.share.Updated && m.updated < m.replicas
	old := m.replicas + m.extra - m.updated
	back := m.canGoBack() && m.updated > m.share.Updated
	mayBack := !m.frozen && back && old < m.replicas-m.share.Updated
	switch random.IntN(4) {
	case 0:
		if m.down >= m.share.Unavailable {
			break
		}
		if may {
			m.down++
			m.updated++
		} else if mayBack {
			m.down++
			m.updated--
		} else if !m.frozen && m.restarts > 0 {
			m.down++
			m.restarts--
		}
	case 1:
		if m.extra >= m.share.Surge {
			break
		}
		if may {
			m.extra++
			m.updated++
		} else if mayBack {
			m.extra++ // a pod of the old template
		}
	case 2:
		m.down = max(m.down-1, 0)
	case 3:
		if m.extra == 0 {
			break
		}
		m.extra--
		if back && old <= m.replicas-m.share.Updated || old == 0 {
			m.updated-- // there are old pods enough: a new one goes
		}
	}
	if m.updated == m.replicas && m.down == 0 && m.extra == 0 {
		m.current = m.template
	}
}

// sees has the member see a restart, which brings no order.
func (m *member) sees(restart int) {
	if m.restart != restart {
		m.restart, m.restarts = restart, m.replicas
	}
	m.restarts = min(m.restarts, m.replicas)
}

// world is a hub, its members and the network between them.
type world struct {
	restart  int // counts the restarts that the user asked for
	t        *testing.T
	random   *rand.Rand
	global   Amounts
	template int
	cells    []Cell
	members  []member
	seen     []int // newest report counter per member
	orders   []order
	to       []int
	reports  []message
	first    []int64 // sequence of the first order with the current template
	writes   int
	log      []string
}

func newWorld(t *testing.T, random *rand.Rand) *world {
	k := 1 + random.IntN(5)
	w := &world{t: t, random: random, members: make([]member, k), seen: make([]int, k), first: make([]int64, k)}
	for i := range k {
		w.cells = append(w.cells, Cell{Key: fmt.Sprint("m", i), Replicas: random.Int32N(8)})
		if random.IntN(3) > 0 {
			w.members[i].current = -1 // the first template replaces another one; else it is the first one that there is
		}
	}
	w.change()
	return w
}

func (w *world) change() {
	total := int32(0)
	for _, c := range w.cells {
		total += c.Replicas
	}
	switch w.random.IntN(5) {
	case 4:
		w.restart++
	case 0:
		w.cells[w.random.IntN(len(w.cells))].Replicas = w.random.Int32N(8)
	case 1: // a new template, done as the package comment asks
		w.template++
		for i := range w.cells {
			w.cells[i].Granted.Updated, w.cells[i].Reserved.Updated, w.cells[i].Report = 0, 0, nil
			w.first[i] = w.cells[i].Sequence + 1
		}
	}
	w.global = Amounts{Updated: w.random.Int32N(total + 2), Unavailable: w.random.Int32N(5), Surge: w.random.Int32N(3)}
	if w.global.Unavailable == 0 && w.global.Surge == 0 {
		w.global.Unavailable = 1
	}
	w.note("user wants %+v of %d, template %d", w.global, total, w.template)
}

// lend is the hub's step: lend, check what was promised, store, send.
func (w *world) lend() {
	before := sum(w.cells, func(c Cell) Amounts { return c.Reserved })
	grants := Lend(w.global, w.cells)
	after := Amounts{}
	for i, g := range grants {
		after = plus(after, g.Reserved)
		if !within(g.Granted, g.Reserved) {
			w.fail("%s: share %+v above held %+v", g.Key, g.Granted, g.Reserved)
		}
		c := &w.cells[i]
		o := order{c.Sequence + 1, w.template, c.Replicas, g.Granted, g.Waiting}
		last := w.lastOrder(i)
		if c.Granted != g.Granted || last.frozen != g.Waiting || last.replicas != c.Replicas || last.template != w.template ||
			c.Sequence == 0 {
			c.Sequence++
			w.orders, w.to = append(w.orders, o), append(w.to, i)
			w.writes++
		}
		c.Granted, c.Reserved = g.Granted, g.Reserved
	}
	w.note("lent %+v", grants)
	limit := Amounts{max(before.Updated, w.global.Updated), max(before.Unavailable, w.global.Unavailable),
		max(before.Surge, w.global.Surge)}
	if !within(after, limit) {
		w.fail("held %+v, allowed %+v", after, limit)
	}
	for i, g := range Lend(w.global, w.cells) {
		if g.Granted != grants[i].Granted || g.Reserved != grants[i].Reserved || g.Waiting != grants[i].Waiting ||
			g.Reason.Code != grants[i].Reason.Code {
			w.fail("no fixed point: %+v, then %+v", grants[i], g)
		}
	}
}

// lastOrder is the newest order that was sent to a member, received or not.
func (w *world) lastOrder(i int) order {
	last := w.members[i].order
	for n, o := range w.orders {
		if w.to[n] == i && o.sequence > last.sequence {
			last = o
		}
	}
	return last
}

// deliver brings one order; the newest one to a member stays, since an order is a stored object that is read again.
func (w *world) deliver() {
	if len(w.orders) == 0 {
		return
	}
	n := w.random.IntN(len(w.orders))
	w.members[w.to[n]].follow(w.orders[n])
	w.note("m%d follows %+v", w.to[n], w.members[w.to[n]].order)
}

func (w *world) report(i int) {
	m := &w.members[i]
	m.counter++
	w.reports = append(w.reports, message{Report{m.sequence, m.inUse(), m.updated, m.replicas - m.down,
		m.replicas + m.extra, m.canGoBack(), m.restarts}, i, m.template, m.counter})
}

// receive takes any report on its way, and maybe leaves it there to come again; the hub ignores those older than the
// last.
func (w *world) receive() {
	if len(w.reports) == 0 {
		return
	}
	n := w.random.IntN(len(w.reports))
	r := w.reports[n]
	if w.random.IntN(3) > 0 {
		w.reports = append(w.reports[:n], w.reports[n+1:]...)
	}
	if r.counter <= w.seen[r.member] || r.Sequence < w.first[r.member] {
		return
	}
	w.seen[r.member] = r.counter
	w.cells[r.member].Report = &r.Report
	w.note("m%d reported %+v", r.member, r.Report)
}

// check compares what all members really use with what the hub believes them to hold.
func (w *world) check() {
	used := Amounts{}
	for i := range w.members {
		m := &w.members[i]
		u := m.inUse()
		if m.template != w.template {
			u.Updated = 0
		}
		if !within(u, w.cells[i].Reserved) {
			w.fail("m%d uses %+v, held is %+v", i, u, w.cells[i].Reserved)
		}
		used = plus(used, u)
	}
}

// settle lets everything arrive until nothing changes any more, and checks that the rollout is where the user wants it.
func (w *world) settle() {
	quiet := 0
	for range 2000 {
		writes := w.writes
		for n, o := range w.orders {
			w.members[w.to[n]].follow(o)
		}
		w.orders, w.to, w.reports = nil, nil, nil
		for i := range w.members {
			w.members[i].sees(w.restart)
			for range 20 {
				w.members[i].act(w.random)
			}
			w.report(i)
			r := w.reports[len(w.reports)-1]
			if r.Sequence >= w.first[i] {
				w.seen[i], w.cells[i].Report = r.counter, &r.Report
			}
		}
		w.check()
		w.lend()
		if quiet++; w.writes != writes {
			quiet = 0
		}
		if quiet == 20 {
			break
		}
	}
	if quiet < 20 {
		w.fail("the hub never stops writing")
	}
	updated, replicas, stuck := int32(0), int32(0), int32(0)
	for i := range w.members {
		m := &w.members[i]
		if m.restarts > 0 && w.global.Unavailable > 0 {
			w.fail("m%d has still to restart %d pods", i, m.restarts)
		}
		updated += m.updated
		replicas += m.replicas
		if !m.canGoBack() {
			stuck += m.updated
		}
	}
	// Where more pods are beyond recall than the user wants updated, those are what is left.
	if want := max(min(w.global.Updated, replicas), stuck); updated != want {
		w.fail("stuck at %d updated, %d of them beyond recall, the user wants %d of %d", updated, stuck, w.global.Updated,
			replicas)
	}
	for i := range w.cells {
		c := &w.cells[i]
		for what, part := range map[string][2]int32{"break": {c.Granted.Unavailable, w.global.Unavailable},
			"add": {c.Granted.Surge, w.global.Surge}} {
			// replicas times limit by all replicas, rounded down or up
			if n := c.Replicas * min(part[1], replicas); replicas > 0 &&
				(part[0] < n/replicas || part[0] > (n+replicas-1)/replicas) {
				w.fail("at rest m%d of %d has %d of %s, of %d for %d", i, c.Replicas, part[0], what, part[1], replicas)
			}
		}
	}
	reserved := sum(w.cells, func(c Cell) Amounts { return c.Reserved })
	if !within(reserved, Amounts{max(w.global.Updated, updated), w.global.Unavailable, w.global.Surge}) {
		w.fail("at rest %+v is held, the user wants %+v", reserved, w.global)
	}
}

func (w *world) note(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf(format, args...))
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	for _, line := range w.log[max(0, len(w.log)-25):] {
		w.t.Log(line)
	}
	w.t.Fatalf(format, args...)
}

func TestProtocol(t *testing.T) {
	for seed := range *runs {
		random := rand.New(rand.NewPCG(uint64(seed), 1))
		w := newWorld(t, random)
		w.note("seed %d", seed)
		for range 150 {
			switch random.IntN(20) {
			case 0:
				w.change()
				w.lend() // the hub lends in the same step in which it sees a change
			case 1, 2, 3:
				w.lend()
			case 4, 5, 6, 7:
				w.deliver()
			case 8, 9, 10:
				w.report(random.IntN(len(w.members)))
			case 11, 12, 13:
				w.receive()
			case 14:
				w.members[random.IntN(len(w.members))].sees(w.restart)
			default:
				w.members[random.IntN(len(w.members))].act(random)
			}
			w.check()
		}
		w.settle()
	}
}

func sum(cells []Cell, pick func(Cell) Amounts) Amounts {
	var a Amounts
	for _, c := range cells {
		a = plus(a, pick(c))
	}
	return a
}

func plus(a, b Amounts) Amounts {
	return Amounts{a.Updated + b.Updated, a.Unavailable + b.Unavailable, a.Surge + b.Surge}
}

func within(a, b Amounts) bool {
	return a.Updated <= b.Updated && a.Unavailable <= b.Unavailable && a.Surge <= b.Surge
}
