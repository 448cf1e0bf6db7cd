package lending

import (
	"slices"

	"github.com/flotilla-dev/flotilla/topology/division"
)

// Amounts of permission, in pods. Updated: may run the new revision (replicas - partition). Unavailable: may be
// unavailable by us. Surge: may exist above replicas. Negative amounts count as 0.
type Amounts struct{ Updated, Unavailable, Surge int32 }

// Cell is what the last placement says about a cell, and what the cell says itself.
type Cell struct {
	// Key identifies the cell and breaks ties.
	Key string
	// Replicas is the number that the division gives this cell now.
	Replicas int32
	// Granted and Reserved are those of the last placement; zero for a new cell.
	Granted, Reserved Amounts
	// Sequence is that of the order that carries Granted.
	Sequence int64
	// Ceiling is the most pods of Replicas that may be updated, nil for all. It takes nothing back that Granted has.
	Ceiling *int32
	// Floor is how much of Unavailable the cell has before any cell gets more: what it uses, where pods count whatever made
	// them unavailable. 0 elsewhere.
	Floor int32
	// Report is the newest report about the current template; nil if there is none yet.
	Report *Report
	// Lost: the member's lease has run out on both sides, so that it disrupts nothing before the hub has heard it again.
	// Told: the order that carries Granted stands where the member reads it before it disrupts anything again. Both
	// together let Reserved of Unavailable and Surge fall without a report on that order.
	Lost, Told bool
}

// Report is what a member says about its cell. Sequence is that of the order which it follows, InUse what it uses of
// each amount. Updated, Available and Total count pods: of the new revision, available, all. CanGoBack: the member
// still has an old revision, to which updated pods can be brought back. ToRestart is how many pods have still to restart
// in place, which needs Unavailable.
type Report struct {
	Sequence                  int64
	InUse                     Amounts
	Updated, Available, Total int32
	CanGoBack                 bool
	ToRestart                 int32
}

// Beyond returns how many updated pods the cell has above its grant of Updated, of replicas pods in all: back of them
// are to go back to the old revision, and kept of them stay, since there is none to go back to. Pods that are too many
// in all count as neither: they are removed.
func (r Report) Beyond(replicas, granted int32) (back, kept int32) {
	old := r.Total - r.InUse.Updated
	n := max(min(r.InUse.Updated-granted, max(replicas-granted, 0)-old), 0)
	if r.CanGoBack {
		return n, 0
	}
	return 0, n
}

// Grant is what a cell gets. Waiting: it has neither Unavailable nor Surge, so its order says "paused", never 0/0.
type Grant struct {
	Key               string
	Granted, Reserved Amounts
	Waiting           bool
	Reason            Reason
}

// Reason says why a cell has what it has. Its code is one of the constants below; it has no parameters.
type Reason = division.Reason

// Reasons of a grant, the first that applies.
const (
	// Waiting: the cell is to have more, once other cells have confirmed that they gave it up.
	Waiting = "Waiting"
	// Frozen: the cell has pods to update, to bring back or to restart, or has not reported, and other cells have all of
	// Unavailable and Surge.
	Frozen = "Frozen"
	// Silent: the cell has not reported on this template; it keeps what it has, first of all its part by replicas.
	Silent = "Silent"
	// Working: the cell updates pods, brings updated pods back to the old revision, or restarts pods.
	Working = "Working"
	// Finished: nothing is left to update, to bring back or to restart here.
	Finished = "Finished"
	// Lost: the member's lease has run out; what it had of Unavailable and Surge goes to cells that can use it.
	Lost = "Lost"
)

// phase is where a cell stands in the rollout.
type phase int

const (
	silent phase = iota
	working
	finished
	lost
)

// ledger holds one amount of all cells.
type ledger struct {
	granted, reserved, target []int64
}

// Lend returns one grant per cell, in the order given. The package comment has the rules, and what the caller owes.
func Lend(global Amounts, cells []Cell) []Grant {
	update := account(cells, func(a Amounts) int32 { return a.Updated })
	// Pods stay updated whether or not their member is heard: Reserved of Updated falls by a report alone.
	update.target = updateTarget(int64(global.Updated), cells, &update)
	update.lend(int64(global.Updated), cells)

	updates, toUpdate := workOf(cells, update.granted, func(*Report) int32 { return 0 })
	disrupt := func(global int32, pick func(Amounts) int32, floor func(Cell) int32, phases []phase, work []int64) ledger {
		rest := all(phases, finished) && !slices.ContainsFunc(cells, disrupts)
		l := account(cells, pick)
		l.reclaim(cells, pick)
		entries := byReplicas(cells, l.granted)
		floors, above := l.floors(int64(global), cells, entries, floor)
		switch {
		case rest:
			l.target = restTarget(above, entries)
		case all(phases, silent):
			l.target = freshTarget(above, entries, update.target)
		default:
			l.target = handOnTarget(above, entries, phases, work, idleRestarts(cells, pick, phases, updates))
		}
		for i := range floors {
			l.target[i] += floors[i]
		}
		l.lend(int64(global), cells)
		return l
	}
	phases, work := workOf(cells, update.granted, func(r *Report) int32 { return r.ToRestart })
	unavailable := disrupt(global.Unavailable, func(a Amounts) int32 { return a.Unavailable },
		func(c Cell) int32 { return c.Floor }, phases, work)
	// A restart in place has no use for Surge.
	surge := disrupt(global.Surge, func(a Amounts) int32 { return a.Surge }, func(Cell) int32 { return 0 }, updates,
		toUpdate)

	grants := make([]Grant, len(cells))
	for i, c := range cells {
		g := Grant{
			Key:      c.Key,
			Granted:  Amounts{int32(update.granted[i]), int32(unavailable.granted[i]), int32(surge.granted[i])},
			Reserved: Amounts{int32(update.reserved[i]), int32(unavailable.reserved[i]), int32(surge.reserved[i])},
		}
		g.Waiting = g.Granted.Unavailable == 0 && g.Granted.Surge == 0
		waits := update.waits(i) || unavailable.waits(i) || surge.waits(i)
		g.Reason = reason(phases[i], waits, g.Waiting)
		grants[i] = g
	}
	return grants
}

// workOf returns where the cells stand, and how many pods each has still to update or to bring back to the old revision,
// or if those are more, to restart. updated is what is granted of Updated.
func workOf(cells []Cell, updated []int64, restarts func(*Report) int32) (phases []phase, work []int64) {
	phases, work = make([]phase, len(cells)), make([]int64, len(cells))
	for i, c := range cells {
		if c.Lost {
			phases[i] = lost
			continue
		}
		if c.Report == nil {
			continue
		}
		phases[i] = finished
		back, _ := c.Report.Beyond(c.Replicas, int32(updated[i]))
		work[i] = max(updated[i]-int64(max(c.Report.Updated, 0)), int64(back), int64(restarts(c.Report)))
		if work[i] > 0 {
			phases[i] = working
		}
	}
	return phases, work
}

// account takes one amount of all cells, with reserved as the reports leave it.
func account(cells []Cell, pick func(Amounts) int32) ledger {
	l := ledger{granted: make([]int64, len(cells)), reserved: make([]int64, len(cells))}
	for i, c := range cells {
		l.granted[i] = int64(max(pick(c.Granted), 0))
		l.reserved[i] = max(int64(pick(c.Reserved)), l.granted[i])
		if c.Report != nil && c.Report.Sequence >= c.Sequence {
			l.reserved[i] = min(l.reserved[i], max(l.granted[i], int64(pick(c.Report.InUse))))
		}
	}
	return l
}

// reclaim lets reserved of lost cells fall: what they took down or added before their lease ran out counts as last
// reported.
func (l *ledger) reclaim(cells []Cell, pick func(Amounts) int32) {
	for i, c := range cells {
		if !c.Lost || !c.Told {
			continue
		}
		used := int64(0)
		if c.Report != nil {
			used = int64(pick(c.Report.InUse))
		}
		l.reserved[i] = min(l.reserved[i], max(l.granted[i], used))
	}
}

// floors returns what the cells have before any gets more, and what is left of the global amount. It takes both out of
// the entries. A lost cell has no more of it than what is reserved for it.
func (l *ledger) floors(
	global int64, cells []Cell, entries []division.Entry, floor func(Cell) int32,
) (floors []int64, above int64) {
	first := slices.Clone(entries)
	for i, c := range cells {
		f := min(int64(max(floor(c), 0)), entries[i].Max)
		if c.Lost {
			f = min(f, l.reserved[i])
		}
		first[i].Weight, first[i].Max = f, f
	}
	floors, above = division.Seats(global, first)
	for i := range entries {
		entries[i].Max -= floors[i]
		entries[i].Current = max(entries[i].Current-floors[i], 0)
	}
	return floors, above
}

// lend moves every grant towards its target, upwards only by what no cell holds.
func (l *ledger) lend(global int64, cells []Cell) {
	free := max(global, 0)
	missing := make([]division.Entry, len(cells))
	for i := range cells {
		free -= l.reserved[i]
		m := max(l.target[i]-l.reserved[i], 0)
		missing[i] = division.Entry{Weight: m, Max: m, Key: cells[i].Key}
	}
	given, _ := division.Seats(free, missing)
	for i := range cells {
		l.reserved[i] += given[i]
		l.granted[i] = min(l.target[i], l.reserved[i])
	}
}

// waits tells whether the cell is to have more than it could be given.
func (l *ledger) waits(i int) bool { return l.granted[i] < l.target[i] }

// updateTarget splits the pods that may be updated in proportion to replicas. First of all cells that cannot go back
// keep what their updated pods hold, and then the others, so that no pod goes back while another one is updated
// instead.
func updateTarget(global int64, cells []Cell, update *ledger) []int64 {
	entries := byReplicas(cells, update.granted)
	stuck, updated := slices.Clone(entries), slices.Clone(entries)
	for i, c := range cells {
		if c.Ceiling != nil {
			entries[i].Max = min(entries[i].Max, max(int64(*c.Ceiling), update.granted[i]))
		}
		if c.Lost {
			entries[i].Max = min(entries[i].Max, update.reserved[i]) // nothing new for a member that does not hear of it
		}
		stuck[i].Max, updated[i].Max = 0, min(update.reserved[i], entries[i].Max)
		if c.Report == nil {
			continue
		}
		updated[i].Max = min(updated[i].Max, int64(max(c.Report.InUse.Updated, 0)))
		if !c.Report.CanGoBack {
			stuck[i].Max = updated[i].Max
		}
	}
	raise(updated, global, stuck)
	raise(entries, global, updated)
	target, _ := division.Seats(global, entries)
	return target
}

// raise makes what the entries of first get of the global amount the least that each entry gets.
func raise(entries []division.Entry, global int64, first []division.Entry) {
	floors, _ := division.Seats(global, first)
	for i := range entries {
		entries[i].Min = floors[i]
	}
}

// freshTarget splits Unavailable or Surge while nobody has reported: by replicas, but first to the cells that may
// update pods at all, so that a canary starts without a hand-over.
func freshTarget(global int64, entries []division.Entry, update []int64) []int64 {
	useful := slices.Clone(entries)
	for i := range useful {
		useful[i].Max = min(useful[i].Max, update[i])
	}
	floors, _ := division.Proportional(global, useful)
	for i := range entries {
		entries[i].Min = floors[i]
	}
	target, _ := division.Proportional(global, entries)
	return target
}

// restTarget splits Unavailable or Surge where nothing is to be done and nothing of them is in use: by replicas, and
// where that is no whole number, a cell stays where it is if that is the next lower or the next higher one.
func restTarget(global int64, entries []division.Entry) []int64 {
	var replicas int64
	for _, e := range entries {
		replicas += e.Weight
	}
	near := slices.Clone(entries)
	global = min(max(global, 0), replicas)
	for i, e := range near {
		if e.Weight > 0 {
			near[i].Min, near[i].Max = e.Weight*global/replicas, (e.Weight*global+replicas-1)/replicas
		}
	}
	target, _ := division.Seats(global, near)
	return target
}

// disrupts tells whether a cell uses Unavailable or Surge, as it reports.
func disrupts(c Cell) bool {
	return c.Report != nil && (c.Report.InUse.Unavailable > 0 || c.Report.InUse.Surge > 0)
}

// idleRestarts returns, for cells whose pods are all updated and have only to restart, how much of an amount they use,
// and -1 for the others. It returns nil if no cell has pods to update or to bring back.
func idleRestarts(cells []Cell, pick func(Amounts) int32, phases, updates []phase) []int64 {
	if !slices.Contains(updates, working) {
		return nil
	}
	used := make([]int64, len(cells))
	for i, c := range cells {
		used[i] = -1
		if phases[i] == working && updates[i] == finished {
			used[i] = int64(max(pick(c.Report.InUse), 0))
		}
	}
	return used
}

// handOnTarget splits Unavailable or Surge in a running rollout: to the working and silent cells first. While cells have
// pods to update, those that have only to restart some keep what they use; used is that of idleRestarts.
func handOnTarget(global int64, entries []division.Entry, phases []phase, work, used []int64) []int64 {
	first, second, last := slices.Clone(entries), slices.Clone(entries), slices.Clone(entries)
	for i, e := range entries {
		kept := min(e.Current, e.Max)
		second[i].Max = 0
		switch phases[i] {
		case working:
			first[i].Weight, first[i].Max = work[i], max(kept, min(work[i], e.Max))
			last[i].Max = 0
			if used != nil && used[i] >= 0 {
				second[i].Weight, second[i].Max = work[i], first[i].Max-min(used[i], first[i].Max)
				first[i].Max -= second[i].Max
			}
		case silent:
			first[i].Max = kept
			last[i].Max = 0
		case finished, lost:
			first[i].Max = 0
			last[i].Max = kept
		}
	}
	target, rest := division.Seats(global, first)
	for _, next := range [][]division.Entry{second, last} {
		for i := range next {
			next[i].Current = max(entries[i].Current-target[i], 0)
		}
		var more []int64
		more, rest = division.Seats(rest, next)
		for i := range target {
			target[i] += more[i]
		}
	}
	return target
}

// byReplicas makes receivers that weigh, and take at most, their replicas.
func byReplicas(cells []Cell, granted []int64) []division.Entry {
	entries := make([]division.Entry, len(cells))
	for i, c := range cells {
		n := int64(max(c.Replicas, 0))
		entries[i] = division.Entry{Weight: n, Max: n, Current: granted[i], Key: c.Key}
	}
	return entries
}

func all(phases []phase, want phase) bool {
	for _, p := range phases {
		if p != want {
			return false
		}
	}
	return true
}

func reason(p phase, waits, waiting bool) Reason {
	switch {
	case p == lost:
		return Reason{Code: Lost}
	case waits:
		return Reason{Code: Waiting}
	case waiting && p != finished:
		return Reason{Code: Frozen}
	case p == silent:
		return Reason{Code: Silent}
	case p == working:
		return Reason{Code: Working}
	}
	return Reason{Code: Finished}
}
