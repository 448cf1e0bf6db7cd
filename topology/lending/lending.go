package lending

import (
	"slices"

	"github.com/flotilla-dev/flotilla/topology/division"
)

// Amounts of permission, in pods. Update: may run the new revision (replicas - partition). Break: may be unavailable by
// us. Add: may exist above replicas. Negative amounts count as 0.
type Amounts struct{ Update, Break, Add int32 }

// Cell is what the last placement says about a cell, and what the cell says itself.
type Cell struct {
	// Key identifies the cell and breaks ties.
	Key string
	// Replicas is the number that the division gives this cell now.
	Replicas int32
	// Share and Held are those of the last placement; zero for a new cell.
	Share, Held Amounts
	// Sequence is that of the order that carries Share.
	Sequence int64
	// Report is the newest report about the current template; nil if there is none yet.
	Report *Report
}

// Report is what a member says about its cell. Sequence is that of the order which it follows, InUse what it uses of each
// amount. Updated, Available and Total count pods: of the new revision, available, all.
type Report struct {
	Sequence                  int64
	InUse                     Amounts
	Updated, Available, Total int32
}

// Grant is the new share of a cell. Frozen: it has neither Break nor Add, so its order says "paused", never 0/0.
type Grant struct {
	Key         string
	Share, Held Amounts
	Frozen      bool
	Reason      Reason
}

// Reason says why a cell has what it has. Its code is one of the constants below; it has no parameters.
type Reason = division.Reason

// Reasons of a grant, the first that applies.
const (
	// Waiting: the cell is to have more, once other cells have confirmed that they gave it up.
	Waiting = "Waiting"
	// Frozen: the cell has pods to update, or has not reported, and other cells have all of Break and Add.
	Frozen = "Frozen"
	// Silent: the cell has not reported on this template; it keeps what it has, first of all its part by replicas.
	Silent = "Silent"
	// Working: the cell updates pods.
	Working = "Working"
	// Finished: nothing is left to update here.
	Finished = "Finished"
)

// phase is where a cell stands in the rollout.
type phase int

const (
	silent phase = iota
	working
	finished
)

// ledger holds one amount of all cells.
type ledger struct {
	share, held, target []int64
}

// Lend returns one grant per cell, in the order given. The package comment has the rules, and what the caller owes.
func Lend(global Amounts, cells []Cell) []Grant {
	update := account(cells, func(a Amounts) int32 { return a.Update })
	update.target = updateTarget(int64(global.Update), cells, update.share)
	update.lend(int64(global.Update), cells)

	phases := make([]phase, len(cells))
	work := make([]int64, len(cells)) // pods that the cell may and has still to update
	for i, c := range cells {
		if c.Report == nil {
			continue
		}
		phases[i] = finished
		if work[i] = update.share[i] - int64(max(c.Report.Updated, 0)); work[i] > 0 {
			phases[i] = working
		}
	}
	disrupt := func(global int32, pick func(Amounts) int32) ledger {
		l := account(cells, pick)
		entries := byReplicas(cells, l.share)
		if all(phases, silent) {
			l.target = freshTarget(int64(global), entries, update.target)
		} else {
			l.target = handOnTarget(int64(global), entries, phases, work)
		}
		l.lend(int64(global), cells)
		return l
	}
	unavailable := disrupt(global.Break, func(a Amounts) int32 { return a.Break })
	surge := disrupt(global.Add, func(a Amounts) int32 { return a.Add })

	grants := make([]Grant, len(cells))
	for i, c := range cells {
		g := Grant{
			Key:   c.Key,
			Share: Amounts{int32(update.share[i]), int32(unavailable.share[i]), int32(surge.share[i])},
			Held:  Amounts{int32(update.held[i]), int32(unavailable.held[i]), int32(surge.held[i])},
		}
		g.Frozen = g.Share.Break == 0 && g.Share.Add == 0
		waits := update.waits(i) || unavailable.waits(i) || surge.waits(i)
		g.Reason = reason(phases[i], waits, g.Frozen)
		grants[i] = g
	}
	return grants
}

// account takes one amount of all cells, with held as the reports leave it.
func account(cells []Cell, pick func(Amounts) int32) ledger {
	l := ledger{share: make([]int64, len(cells)), held: make([]int64, len(cells))}
	for i, c := range cells {
		l.share[i] = int64(max(pick(c.Share), 0))
		l.held[i] = max(int64(pick(c.Held)), l.share[i])
		if c.Report != nil && c.Report.Sequence >= c.Sequence {
			l.held[i] = min(l.held[i], max(l.share[i], int64(pick(c.Report.InUse))))
		}
	}
	return l
}

// lend moves every share towards its target, upwards only by what no cell holds.
func (l *ledger) lend(global int64, cells []Cell) {
	free := max(global, 0)
	missing := make([]division.Entry, len(cells))
	for i := range cells {
		free -= l.held[i]
		m := max(l.target[i]-l.held[i], 0)
		missing[i] = division.Entry{Weight: m, Max: m, Key: cells[i].Key}
	}
	given, _ := division.Seats(free, missing)
	for i := range cells {
		l.held[i] += given[i]
		l.share[i] = min(l.target[i], l.held[i])
	}
}

// waits tells whether the cell is to have more than it could be given.
func (l *ledger) waits(i int) bool { return l.share[i] < l.target[i] }

// updateTarget splits the pods that may be updated in proportion to replicas.
func updateTarget(global int64, cells []Cell, share []int64) []int64 {
	target, _ := division.Seats(global, byReplicas(cells, share))
	return target
}

// freshTarget splits Break or Add while nobody has reported: by replicas, but first to the cells that may update pods at
// all, so that a canary starts without a hand-over.
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

// handOnTarget splits Break or Add in a running rollout: to the working and silent cells first.
func handOnTarget(global int64, entries []division.Entry, phases []phase, work []int64) []int64 {
	first, last := slices.Clone(entries), slices.Clone(entries)
	for i, e := range entries {
		kept := min(e.Current, e.Max)
		switch phases[i] {
		case working:
			first[i].Weight, first[i].Max = work[i], max(kept, min(work[i], e.Max))
			last[i].Max = 0
		case silent:
			first[i].Max = kept
			last[i].Max = 0
		case finished:
			first[i].Max = 0
			last[i].Max = kept
		}
	}
	target, rest := division.Seats(global, first)
	kept, _ := division.Seats(rest, last)
	for i := range target {
		target[i] += kept[i]
	}
	return target
}

// byReplicas makes receivers that weigh, and take at most, their replicas.
func byReplicas(cells []Cell, share []int64) []division.Entry {
	entries := make([]division.Entry, len(cells))
	for i, c := range cells {
		n := int64(max(c.Replicas, 0))
		entries[i] = division.Entry{Weight: n, Max: n, Current: share[i], Key: c.Key}
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

func reason(p phase, waits, frozen bool) Reason {
	switch {
	case waits:
		return Reason{Code: Waiting}
	case frozen && p != finished:
		return Reason{Code: Frozen}
	case p == silent:
		return Reason{Code: Silent}
	case p == working:
		return Reason{Code: Working}
	}
	return Reason{Code: Finished}
}
