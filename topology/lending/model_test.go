package lending

import (
	"fmt"
	"slices"
	"strings"
)

// The model is the protocol as small as it can be: a hub that decides with Lend, the orders that it writes, members
// that follow them, and a network that loses, delays, doubles and reorders. A state is a value; next returns every step
// from it.

// cellsInModel is the most cells that a state holds.
const cellsInModel = 5

// dose is Amounts in small.
type dose struct{ update, break_, add int8 }

func doseOf(a Amounts) dose { return dose{int8(a.Updated), int8(a.Unavailable), int8(a.Surge)} }
func (d dose) amounts() Amounts {
	return Amounts{int32(d.update), int32(d.break_), int32(d.add)}
}

func (d dose) plus(e dose) dose {
	return dose{d.update + e.update, d.break_ + e.break_, d.add + e.add}
}

func (d dose) most(e dose) dose {
	return dose{max(d.update, e.update), max(d.break_, e.break_), max(d.add, e.add)}
}

// told is an order. A sequence of 0 is none.
type told struct {
	sequence, template int8
	share              dose
}

func (o told) frozen() bool { return o.share.break_ == 0 && o.share.add == 0 }

// said is a report.
type said struct {
	there                    bool
	sequence                 int8
	use                      dose
	canGoBack                bool
	updated, total, template int8
}

// entry is a cell of the placement, with what the hub knows of its member.
type entry struct {
	share, held     dose
	sequence, first int8 // first is the sequence of the first order with the present template
	report          said
	lost            bool
}

// pods is a member: what it follows, and what its pods do.
type pods struct {
	order                told
	updated, down, extra int8
	// oldDown and oldExtra are pods that it took down or added before its lease ran out.
	oldDown, oldExtra int8
	current           int8 // the template that all pods had last
	// cut: nothing passes between the member and the hub. leased: it may disrupt.
	cut, leased bool
}

// state is the world at one moment.
type state struct {
	global          int8 // index into model.globals
	template        int8
	changes, faults int8 // what is left to the user and to chance
	limit           dose // the largest global amounts since all acknowledged them
	cells           [cellsInModel]entry
	works           [cellsInModel]told // the newest order that was written
	wire            [cellsInModel]told // the one before, still on its way
	members         [cellsInModel]pods
	late            [cellsInModel]said // a report on its way
}

// without is the rule of the protocol that a model leaves out.
type without int

const (
	nothing without = iota
	lowerBeforeRaise
	reportsOfTheOrder
	newestOrder
	placementFirst
	resetOfUpdate
	leaseOfMember
	leaseTwice
	orderBeforeReclaim
	orderBeforeResume
	answerBeforeResume
	updateStaysHeld
	finishedHandOn
	stuckFirst
	endOfRules
)

// model is what does not change in an exploration.
type model struct {
	replicas []int8
	globals  []dose
	template bool // the user may change the template
	keys     []string
	omit     without
	memo     map[lendKey][]Grant
}

type lendKey struct {
	global int8
	cells  [cellsInModel]lendCell
}

type lendCell struct {
	share, held dose
	fresh, told bool // the report is of the order
	lost        bool
	report      said
}

func (m *model) start(changes, faults int8) state {
	s := state{template: 1, changes: changes, faults: faults, limit: m.globals[0]}
	for i := range m.replicas {
		s.members[i].leased = true
	}
	return s
}

// lend calls Lend, and remembers what it said.
func (m *model) lend(s *state) []Grant {
	key := lendKey{global: s.global}
	cells := make([]Cell, len(m.replicas))
	for i := range cells {
		e := &s.cells[i]
		c := Cell{Key: m.keys[i], Replicas: int32(m.replicas[i]), Granted: e.share.amounts(), Reserved: e.held.amounts(),
			Sequence: int64(e.sequence), Lost: e.lost, Told: s.works[i].sequence >= e.sequence}
		switch m.omit {
		case lowerBeforeRaise:
			c.Reserved = c.Granted
		case orderBeforeReclaim:
			c.Told = true
		}
		r := e.report
		if r.there && (r.sequence >= e.first || m.omit == resetOfUpdate) {
			c.Report = &Report{Sequence: int64(r.sequence), InUse: r.use.amounts(), Updated: int32(r.updated),
				Total: int32(r.total), CanGoBack: r.canGoBack || m.omit == stuckFirst}
			if m.omit == reportsOfTheOrder {
				c.Report.Sequence = c.Sequence
			}
			if m.omit == updateStaysHeld && e.lost && c.Told {
				c.Reserved.Updated, c.Granted.Updated = int32(r.use.update), min(c.Granted.Updated, int32(r.use.update))
			}
		} else {
			r = said{}
		}
		fresh := c.Report != nil && c.Report.Sequence >= c.Sequence
		r.sequence, r.template = 0, 0
		key.cells[i] = lendCell{doseOf(c.Granted), doseOf(c.Reserved), fresh, c.Told, c.Lost, r}
		cells[i] = c
	}
	if grants, ok := m.memo[key]; ok {
		return grants
	}
	grants := Lend(m.globals[s.global].amounts(), cells)
	if m.omit == finishedHandOn {
		keepWhatFinishedCellsHave(cells, grants)
	}
	m.memo[key] = grants
	return grants
}

// keepWhatFinishedCellsHave takes back that a finished cell hands on: while one is, Break and Add stay where they are.
func keepWhatFinishedCellsHave(cells []Cell, grants []Grant) {
	finished := false
	for i, c := range cells {
		finished = finished || c.Report != nil && c.Granted.Unavailable+c.Granted.Surge > 0 &&
			c.Report.Updated >= grants[i].Granted.Updated
	}
	for i, c := range cells {
		if g := &grants[i]; finished {
			g.Granted.Unavailable, g.Granted.Surge, g.Reserved.Unavailable, g.Reserved.Surge = c.Granted.Unavailable,
				c.Granted.Surge, c.Reserved.Unavailable, c.Reserved.Surge
		}
	}
}

// decide is the hub's step: it stores what Lend says. It tells whether anything changed.
func (m *model) decide(s *state) bool {
	before := s.cells
	reserved := dose{}
	for i, g := range m.lend(s) {
		e := &s.cells[i]
		if granted := doseOf(g.Granted); granted != e.share || e.sequence == 0 || e.first > e.sequence {
			e.sequence++
		}
		e.share, e.held = doseOf(g.Granted), doseOf(g.Reserved)
		reserved = reserved.plus(e.held)
	}
	limit := s.limit
	for _, a := range []func(*dose) *int8{
		func(d *dose) *int8 { return &d.update }, func(d *dose) *int8 { return &d.break_ }, func(d *dose) *int8 {
			return &d.add
		},
	} {
		if global := m.globals[s.global]; *a(&reserved) <= *a(&global) {
			*a(&s.limit) = *a(&global)
		}
	}
	return before != s.cells || limit != s.limit
}

// write writes the order of a cell.
func (m *model) write(s *state, i int) {
	s.wire[i] = s.works[i]
	s.works[i] = told{s.cells[i].sequence, s.template, s.cells[i].share}
}

// follow is the member's step.
func (m *model) follow(p *pods, o told) {
	if o.sequence <= p.order.sequence && m.omit != newestOrder {
		return
	}
	if o.template != p.order.template {
		p.updated = 0
	}
	p.order = o
}

func (m *model) report(s *state, i int) said {
	p := &s.members[i]
	return said{
		there: true, sequence: p.order.sequence, use: dose{p.updated, p.down + p.oldDown, p.extra + p.oldExtra},
		updated: p.updated, total: m.replicas[i] + p.extra + p.oldExtra, canGoBack: p.current != p.order.template,
		template: p.order.template,
	}
}

// step is one action and the state after it.
type step struct {
	what string
	i    int
	to   state
}

// next returns every step from a state.
func (m *model) next(s *state) []step {
	var out []step
	add := func(what string, i int, change func(*state) bool) {
		to := *s
		if change(&to) {
			m.normalise(&to)
			if to != *s {
				out = append(out, step{what, i, to})
			}
		}
	}
	add("decide", 0, m.decide)
	if m.omit == placementFirst {
		// The orders are written first, and the hub dies before it has stored its decision.
		add("decide, write and die", 0, func(to *state) bool {
			after := *to
			m.decide(&after)
			for i := range m.replicas {
				if after.cells[i].sequence > to.cells[i].sequence {
					m.write(&after, i)
				}
			}
			to.works, to.wire = after.works, after.wire
			return true
		})
	}
	if s.changes > 0 {
		for g := range m.globals {
			add("user limits", g, func(to *state) bool {
				to.global, to.changes = int8(g), to.changes-1
				to.limit = to.limit.most(m.globals[g])
				return int8(g) != s.global
			})
		}
		if m.template && s.template == 1 {
			add("user template", 0, func(to *state) bool { m.newTemplate(to); return true })
		}
	}
	for i := range m.replicas {
		m.hubSteps(s, i, add)
		m.linkSteps(s, i, add)
		m.podSteps(s, i, add)
	}
	return out
}

func (m *model) newTemplate(to *state) {
	to.template, to.changes = to.template+1, to.changes-1
	to.limit.update = m.globals[to.global].update
	for i := range m.replicas {
		e := &to.cells[i]
		if m.omit != resetOfUpdate {
			e.share.update, e.held.update, e.report = 0, 0, said{}
		}
		e.first = e.sequence + 1
	}
}

type adder func(what string, i int, change func(*state) bool)

func (m *model) hubSteps(s *state, i int, add adder) {
	if s.works[i].sequence < s.cells[i].sequence {
		add("write", i, func(to *state) bool { m.write(to, i); return true })
	}
	if s.late[i].there {
		add("receive", i, func(to *state) bool { to.cells[i].report, to.late[i] = to.late[i], said{}; return true })
	}
	expired := !s.members[i].leased || m.omit == leaseTwice
	if s.members[i].cut && expired && !s.cells[i].lost {
		add("give up", i, func(to *state) bool { to.cells[i].lost = true; return true })
	}
	if s.cells[i].lost && !s.members[i].cut {
		add("hear again", i, func(to *state) bool { to.cells[i].lost = false; return true })
	}
}

func (m *model) linkSteps(s *state, i int, add adder) {
	p := &s.members[i]
	switch {
	case p.cut && p.leased:
		add("lease runs out", i, func(to *state) bool {
			p := &to.members[i]
			p.leased = m.omit == leaseOfMember
			if !p.leased {
				p.oldDown, p.oldExtra, p.down, p.extra = p.oldDown+p.down, p.oldExtra+p.extra, 0, 0
			}
			return true
		})
		if m.omit == leaseOfMember {
			add("give up", i, func(to *state) bool { to.cells[i].lost = true; return true })
		}
	case !p.cut && s.faults > 0:
		add("cut", i, func(to *state) bool { to.members[i].cut, to.faults = true, to.faults-1; return true })
	}
	if p.cut {
		add("join again", i, func(to *state) bool { to.members[i].cut = false; return true })
		return
	}
	if !p.leased && (!s.cells[i].lost || m.omit == answerBeforeResume) {
		add("resume", i, func(to *state) bool {
			if m.omit != orderBeforeResume {
				m.follow(&to.members[i], to.works[i])
			}
			to.members[i].leased = true
			return true
		})
	}
	add("follow", i, func(to *state) bool { m.follow(&to.members[i], to.works[i]); return true })
	if s.wire[i].sequence > 0 {
		add("follow an old order", i, func(to *state) bool { m.follow(&to.members[i], to.wire[i]); return true })
	}
	if now := m.report(s, i); p.order.sequence > 0 && now != s.late[i] && now != s.cells[i].report {
		add("report", i, func(to *state) bool { to.late[i] = now; return true })
	}
}

// podSteps are what a member does with its pods, one by one.
func (m *model) podSteps(s *state, i int, add adder) {
	p, n := s.members[i], m.replicas[i]
	granted := p.order.share
	old := n + p.extra + p.oldExtra - p.updated
	back := p.current != p.order.template && p.updated > granted.update
	forward := p.updated < granted.update && p.updated < n
	mayBack := back && old < n-granted.update
	may := p.leased && !p.order.frozen()
	change := func(what string, f func(*pods)) {
		add(what, i, func(to *state) bool { f(&to.members[i]); return true })
	}
	turn := func(p *pods) {
		if forward {
			p.updated++
		} else {
			p.updated--
		}
	}
	if may && (forward || mayBack) && p.down+p.oldDown < granted.break_ {
		change("take down", func(p *pods) { p.down++; turn(p) })
	}
	if may && (forward || mayBack) && p.extra+p.oldExtra < granted.add {
		change("add", func(p *pods) {
			p.extra++
			if forward {
				p.updated++
			}
		})
	}
	if p.down > 0 {
		change("ready", func(p *pods) { p.down-- })
	}
	if p.oldDown > 0 {
		change("ready", func(p *pods) { p.oldDown-- })
	}
	if p.extra+p.oldExtra > 0 {
		change("remove one too many", func(p *pods) {
			if p.extra > 0 {
				p.extra--
			} else {
				p.oldExtra--
			}
			if back && old <= n-granted.update || old == 0 {
				p.updated--
			}
		})
	}
}

// normalise gives states that behave alike one form: sequences become ranks, and what can have no effect any more goes.
func (m *model) normalise(s *state) {
	for i := range m.replicas {
		p, e := &s.members[i], &s.cells[i]
		if p.updated == m.replicas[i] && p.down+p.oldDown+p.extra+p.oldExtra == 0 && p.order.sequence > 0 {
			p.current = p.order.template
		}
		if s.wire[i].sequence <= p.order.sequence && m.omit != newestOrder || s.wire[i] == s.works[i] {
			s.wire[i] = told{}
		}
		if s.late[i] == e.report {
			s.late[i] = said{}
		}
		all := []*int8{&e.sequence, &e.first, &s.works[i].sequence, &s.wire[i].sequence, &p.order.sequence,
			&e.report.sequence, &s.late[i].sequence}
		values := make([]int8, 0, len(all)+1)
		values = append(values, 0)
		for _, v := range all {
			values = append(values, *v)
		}
		slices.Sort(values)
		values = slices.Compact(values)
		for _, v := range all {
			*v = int8(slices.Index(values, *v))
		}
	}
}

// wrong returns what the state breaks, "" if nothing.
func (m *model) wrong(s *state) string {
	var used dose
	for i := range m.replicas {
		p := &s.members[i]
		var u dose
		if p.order.template == s.template {
			u.update = p.updated
		}
		u.break_, u.add = p.down, p.extra
		if p.leased && p.order.sequence > 0 {
			granted := p.order.share
			if p.order.template != s.template {
				granted.update = 0
			}
			u = u.most(granted)
		}
		used = used.plus(u)
	}
	var beyond []string
	for _, a := range []struct {
		what       string
		used, most int8
	}{
		{"too many updated", used.update, s.limit.update}, {"too many down", used.break_, s.limit.break_},
		{"too many added", used.add, s.limit.add},
	} {
		if a.used > a.most {
			beyond = append(beyond, a.what)
		}
	}
	if len(beyond) == 0 {
		return ""
	}
	return fmt.Sprintf("%s: %+v is in force, at most %+v may be", strings.Join(beyond, ", "), used, s.limit)
}

// atRest tells whether nobody has anything to do any more, and whether the pods are what the user wants.
func (m *model) atRest(s *state, steps []step) (rest, good bool) {
	for _, next := range steps {
		switch next.what {
		case "cut", "user limits", "user template":
		default:
			return false, false
		}
	}
	var updated, replicas, stuck int8
	for i, n := range m.replicas {
		p := &s.members[i]
		updated, replicas = updated+p.updated, replicas+n
		if p.current == p.order.template {
			stuck += p.updated
		}
	}
	return true, updated == max(min(m.globals[s.global].update, replicas), stuck)
}
