package delta

import (
	"fmt"
	"math"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
)

// Group counts the pods of one revision. Pods that somebody asked to delete are not among them.
type Group struct {
	// Available and Unavailable pods are candidates for everything.
	Available, Unavailable int32
	// Busy pods are unavailable, and in the middle of something that is to end before they are updated again.
	// They can still be removed.
	Busy int32
	// Unschedulable are those of Unavailable that no node takes.
	Unschedulable int32
}

func (g Group) total() int32 { return g.Available + g.Unavailable + g.Busy }

// Input is what is known when a pass begins. Old are the active pods of all revisions but the update revision.
type Input struct {
	Limits   budget.Limits
	Old, New Group
	// SpecifiedDelete are active pods, of any revision, that somebody asked to delete.
	SpecifiedDelete Group
	// SameRevision says that the current revision is the update revision: then no old pods can be created.
	SameRevision bool
	// Update says that pods may move between revisions; false while paused or OnDelete.
	Update bool
	// InPlace says that no pod that may move must be recreated.
	InPlace bool
	// KeepAvailable says that MaxUnavailable is for pods that somebody asked to delete alone: of what is too many, an
	// available pod goes only where as many as Replicas are available without it.
	KeepAvailable bool
}

// Take is a number of pods to take, by whether they are available. Busy ones count as unavailable.
type Take struct{ Unavailable, Available int32 }

// Total returns the number of pods.
func (t Take) Total() int32 { return t.Unavailable + t.Available }

// Note says why a number is what it is: a stable code and its parameters.
type Note struct {
	Code   string
	Number int32
	Limit  int32
}

func (n Note) String() string { return fmt.Sprintf("%s(%d of %d)", n.Code, n.Number, n.Limit) }

// The codes of notes. A Held code gives the number that waits and how many were wanted.
const (
	SpecifiedDelete     = "SpecifiedDelete"
	SpecifiedDeleteHeld = "SpecifiedDeleteHeldByMaxUnavailable"
	ScaleIn             = "ScaleIn"
	ScaleInHeld         = "ScaleInHeldByMaxUnavailable"
	Surplus             = "SurgeReplaced"
	Move                = "Update"
	MoveBack            = "RollBack"
	MoveHeld            = "UpdateHeldByMaxUnavailable"
	ScaleOut            = "ScaleOut"
	Surge               = "Surge"
	CreateHeld          = "CreateHeldByScaleMaxUnavailable"
	UpdateStopped       = "UpdateStopped"
)

// Delta is what one pass does.
type Delta struct {
	// SpecifiedDelete pods go.
	SpecifiedDelete Take
	// RemoveOld and RemoveNew pods go and are not replaced.
	RemoveOld, RemoveNew Take
	// MoveToNew and MoveToOld pods change revision: in place, or by removing them and creating one for each.
	MoveToNew, MoveToOld Take
	// Moving bounds the moves of a caller who says himself which pods come first.
	Moving Moving
	// CreateOld and CreateNew pods are created, beside those that replace moved pods.
	CreateOld, CreateNew int32
	// CreateLimit is how many pods may be created in this pass in all.
	CreateLimit int32
	// Notes say why.
	Notes []Note
}

// Moving is how many pods are to change revision, and what bounds them in this pass.
type Moving struct {
	// Wanted is how many are to move in the end, Room how many may in this pass, and Spare how many of those may be
	// available.
	Wanted, Room, Spare int32
}

// Take returns how many of the first Wanted pods of an order are moved, when those that may move now are counted in
// first. It never takes more than MoveToNew or MoveToOld does.
func (m Moving) Take(first Group) Take {
	n := min(m.Wanted, m.Room)
	unavailable := min(n, first.Unavailable)
	return Take{Unavailable: unavailable, Available: min(n-unavailable, first.Available, m.Spare)}
}

// Empty reports whether nothing is to be done.
func (d Delta) Empty() bool {
	removed := d.SpecifiedDelete.Total() + d.RemoveOld.Total() + d.RemoveNew.Total()
	return removed+d.MoveToNew.Total()+d.MoveToOld.Total()+d.CreateOld+d.CreateNew == 0
}

// pass holds what is left while a pass is computed.
type pass struct {
	in                        Input
	old, new, specifiedDelete Group
	spare                     int32 // available pods that may still be taken
	wantOld, wantNew          int32
	out                       Delta
}

// Compute returns what one pass does.
func Compute(in Input) Delta {
	// More than all pods changes nothing, and sums stay within their type.
	in.Limits.MaxUnavailable = min(in.Limits.MaxUnavailable, max(1, in.Limits.Replicas))
	in.Limits.MaxSurge = min(in.Limits.MaxSurge, math.MaxInt32-in.Limits.Replicas)
	p := &pass{in: in, old: in.Old, new: in.New, specifiedDelete: in.SpecifiedDelete}
	l := in.Limits
	available := in.Old.Available + in.New.Available + in.SpecifiedDelete.Available
	p.spare = max(0, available-(l.Replicas-l.MaxUnavailable))
	p.wantOld = l.Partition
	if in.SameRevision {
		p.wantOld = min(p.wantOld, in.Old.total())
	}
	p.wantNew = l.Replicas - p.wantOld

	p.removeSpecified()
	if in.KeepAvailable {
		p.spare = max(0, p.spare-l.MaxUnavailable)
	}
	p.removeExcess()
	p.move()
	p.create()
	return p.out
}

func (p *pass) note(code string, number, limit int32) {
	if number != 0 {
		p.out.Notes = append(p.out.Notes, Note{Code: code, Number: number, Limit: limit})
	}
}

// take takes up to n pods from g: unavailable ones first, available ones as far as the budget goes.
func (p *pass) take(g *Group, n int32) Take {
	var t Take
	t.Unavailable = min(n, g.Unavailable+g.Busy)
	t.Available = min(n-t.Unavailable, g.Available, p.spare)
	fromUnavailable := min(t.Unavailable, g.Unavailable)
	g.Unavailable -= fromUnavailable
	g.Busy -= t.Unavailable - fromUnavailable
	g.Available -= t.Available
	p.spare -= t.Available
	return t
}

func (p *pass) total() int32 { return p.old.total() + p.new.total() + p.specifiedDelete.total() }

func (p *pass) removeSpecified() {
	want := p.specifiedDelete.total()
	p.out.SpecifiedDelete = p.take(&p.specifiedDelete, want)
	p.note(SpecifiedDelete, p.out.SpecifiedDelete.Total(), want)
	p.note(SpecifiedDeleteHeld, p.specifiedDelete.total(), want)
}

// surplusOld and surplusNew are the pods that a revision has beyond its aim.
func (p *pass) surplusOld() int32 { return max(0, p.old.total()-p.wantOld) }
func (p *pass) surplusNew() int32 { return max(0, p.new.total()-p.wantNew) }
func (p *pass) deficitOld() int32 { return max(0, p.wantOld-p.old.total()) }
func (p *pass) deficitNew() int32 { return max(0, p.wantNew-p.new.total()) }

// moving reports whether pods are to move in either direction.
func (p *pass) moving() bool {
	forward := p.surplusOld() > 0 && p.deficitNew() > 0
	back := p.surplusNew() > 0 && p.deficitOld() > 0 && !p.in.SameRevision
	return p.in.Update && (forward || back)
}

// surge is how many pods may exist beyond replicas.
func (p *pass) surge() int32 {
	l := p.in.Limits
	if p.specifiedDelete.total() > 0 && p.spare == 0 {
		return l.MaxSurge
	}
	if p.moving() && (!p.in.InPlace || l.MaxUnavailable == 0) {
		return l.MaxSurge
	}
	return 0
}

// removeExcess removes what exists beyond replicas: new pods that no node takes before anything that runs, then pods of
// the old revision as far as it has too many. Surge pods of an update in place are kept until the last pod has moved:
// they make room for it.
func (p *pass) removeExcess() {
	replicas := p.in.Limits.Replicas
	kept := int32(0)
	if p.in.InPlace && p.moving() {
		kept = p.surge()
	}
	excess := max(0, p.old.total()+p.new.total()-(replicas+kept))
	if excess == 0 {
		return
	}
	code := ScaleIn
	if p.moving() && excess <= p.in.Limits.MaxSurge {
		code = Surplus
	}
	stuck := p.take(&p.new, min(excess, p.stuck()))
	fromOld := min(excess-stuck.Total(), p.surplusOld())
	fromNew := min(excess-stuck.Total()-fromOld, p.surplusNew())
	p.out.RemoveOld = p.take(&p.old, fromOld)
	p.out.RemoveNew = p.take(&p.new, fromNew)
	p.out.RemoveNew.Unavailable += stuck.Unavailable
	done := p.out.RemoveOld.Total() + p.out.RemoveNew.Total()
	p.note(code, done, excess)
	p.note(ScaleInHeld, excess-done, excess)
}

// stuck is how many of the new pods that no node takes are beyond replicas and the surge. Those within would be made
// again in the same pass.
func (p *pass) stuck() int32 {
	beyond := min(p.new.Unschedulable, p.old.total()+p.new.total()-p.in.Limits.Replicas)
	without := *p
	without.new.Unavailable -= p.new.Unschedulable
	return max(0, beyond-without.surge())
}

// move moves pods from the revision with too many to the one with too few.
func (p *pass) move() {
	forward := min(p.surplusOld(), p.deficitNew())
	back := min(p.surplusNew(), p.deficitOld())
	if p.in.SameRevision {
		back = 0
	}
	if !p.in.Update {
		p.note(UpdateStopped, forward+back, p.in.Limits.Replicas)
		return
	}
	if forward > 0 {
		p.out.MoveToNew = p.moveFrom(&p.old, p.new, forward, Move)
	} else if back > 0 {
		p.out.MoveToOld = p.moveFrom(&p.new, p.old, back, MoveBack)
	}
}

// moveFrom takes up to n pods from g, so that no more than the allowed number of the target's pods is unavailable.
func (p *pass) moveFrom(g *Group, target Group, n int32, code string) Take {
	l := p.in.Limits
	beyond := max(0, p.total()-l.Replicas)
	room := max(0, l.MaxUnavailable+beyond-target.Unavailable-target.Busy)
	p.out.Moving = Moving{Wanted: n, Room: room, Spare: p.spare}
	busy := g.Busy
	g.Busy = 0
	taken := p.take(g, min(n, room))
	g.Busy = busy
	p.note(code, taken.Total(), n)
	p.note(MoveHeld, n-taken.Total(), n)
	return taken
}

// create makes up what is missing, the old revision first.
func (p *pass) create() {
	l := p.in.Limits
	// Pods that move are counted where they arrive.
	toOld, toNew := p.out.MoveToOld.Total(), p.out.MoveToNew.Total()
	exist := p.total() + toOld + toNew
	limit := l.Replicas + p.surge()
	room := max(0, limit-exist)
	p.out.CreateOld = min(room, max(0, p.deficitOld()-toOld))
	if p.in.SameRevision {
		p.out.CreateOld = 0
	}
	p.out.CreateNew = min(room-p.out.CreateOld, max(0, p.deficitNew()-toNew))
	wanted := p.out.CreateOld + p.out.CreateNew
	p.out.CreateLimit = p.createLimit()
	p.out.CreateOld = min(p.out.CreateOld, p.out.CreateLimit)
	p.out.CreateNew = min(p.out.CreateNew, p.out.CreateLimit-p.out.CreateOld)
	made := p.out.CreateOld + p.out.CreateNew
	scaleOut := min(made, max(0, l.Replicas-exist))
	p.note(ScaleOut, scaleOut, l.Replicas)
	p.note(Surge, made-scaleOut, l.MaxSurge)
	p.note(CreateHeld, wanted-made, wanted)
}

func (p *pass) createLimit() int32 {
	l := p.in.Limits
	if l.ScaleMaxUnavailable == budget.Unlimited {
		return budget.Unlimited
	}
	down := p.in.Old.Unavailable + p.in.Old.Busy + p.in.New.Unavailable + p.in.New.Busy + p.in.SpecifiedDelete.Unavailable
	return max(0, l.ScaleMaxUnavailable-down)
}
