package decision

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/topology/division"
	"github.com/flotilla-dev/flotilla/topology/failover"
)

// placePerMember gives every selected member one cell with the whole object. How many pods the cell has is not decided
// here: it is what the member reports as desired, and 0 before its first report. A cell with 0 has no budget, so its
// member creates pods and updates none. Taints, room and failover do not apply: the pods belong to the nodes of the
// member.
//
// The limits are resolved on the sum over the selected members, and granted as those of divided workloads.
func placePerMember(d *draft) *kinds.Rejection {
	d.reschedule, d.workload.Open, d.workload.Replicas = nil, true, 0
	last := lastCells(d)
	for i := range d.facts.Members {
		m := &d.facts.Members[i]
		had := last[cellID{cluster: m.Name}]
		switch {
		case m.Selected:
			cell := topology.Cell{Cluster: m.Name, Replicas: d.desiredIn(m, had), Reason: topology.Reason{Code: CellPerMember},
				Ticks: d.givenTicks(had)}
			if d.comesLate(had) {
				cell.Reason.Code = CellLateMember
			}
			if d.facts.Adopt {
				cell.Adoption.Phase = topology.AdoptionDiscovered // there are no replicas to discover
			}
			d.workload.Replicas += cell.Replicas
			d.spec.Cells = append(d.spec.Cells, cell)
		case had != nil && !d.revoked(m, had):
			d.spec.Cells = append(d.spec.Cells, topology.Cell{
				Cluster: m.Name, Adoption: had.Adoption, Ticks: had.Ticks, Reason: topology.Reason{Code: CellDeselected},
			})
		}
	}
	slices.SortFunc(d.spec.Cells, func(a, b topology.Cell) int { return strings.Compare(a.Cluster, b.Cluster) })
	d.result = divided{cells: d.spec.Cells, subsets: map[string]int32{"": d.workload.Replicas}}
	return nil
}

// desiredIn returns how many pods a member asks for, by its newest report. One that does not report any more, as after
// its Work was made again, keeps the last number.
func (d *draft) desiredIn(m *Member, had *topology.Cell) int32 {
	report, ok := d.reports[m.Name]
	switch {
	case ok && report.Use != nil:
		return report.Use[""].Desired
	case had != nil:
		return had.Replicas
	}
	return 0
}

// revoked reports whether a member that is not selected any more has no budget any more: it confirmed the order that
// takes the budget away, or its lease expired after that order was written. Its object is removed then, and not before:
// until then it may still disrupt what it was granted.
func (d *draft) revoked(m *Member, had *topology.Cell) bool {
	if had.Reason.Code != CellDeselected {
		return false
	}
	confirmed := d.reports[m.Name].Sequence >= had.Sequence
	expired := m.Silent && d.facts.Written[m.Name] >= had.Sequence
	return confirmed || expired
}

// PlaceOne makes a workload run in one member, if the policy says so and the kind can. It returns a remark if the kind
// cannot.
func PlaceOne(kind kinds.Kind, w *kinds.Workload, policy topology.PolicyReference, mode topology.PlacementMode) string {
	if mode != topology.PlacementOne || kind.Mode == kinds.Copy {
		return ""
	}
	if kind.Ticks == nil {
		return fmt.Sprintf("placement One of %s is for kinds that start jobs by a schedule: %s is placed as with Each",
			PolicyName(&policy), w.Key.Sentence())
	}
	w.Alone = true
	return ""
}

// placeOne gives one member a cell with 1, and the members that had it before a cell with 0, which starts no jobs. The
// member stays until it is drained, no longer selected, or fenced, and another one can have the workload.
//
// Another member starts jobs only when no earlier one does: each has confirmed an order with 0, or is fenced. It is
// given the ticks after the newest one that the hub knows of. If an earlier member did not confirm its end, ticks up to
// now may have run there, and are reported missed. The order that ends a fenced member is written before that of the
// next one, and the agent of the fenced one reads it before it starts jobs (member-agent/link/fenced.go).
func placeOne(d *draft) *kinds.Rejection {
	d.reschedule, d.workload.Open, d.workload.Replicas = nil, true, 1
	chosen, rejection := d.chooseOne()
	if rejection != nil {
		return rejection
	}
	last := d.lastByMember()
	stays := last[chosen] != nil && last[chosen].Replicas > 0
	waits := d.unconfirmed(last, chosen)
	given := chosen != "" && (stays || len(waits) == 0)
	for i := range d.facts.Members {
		m := &d.facts.Members[i]
		had := last[m.Name]
		cell := topology.Cell{Cluster: m.Name}
		switch {
		case m.Name == chosen && given:
			cell.Replicas, cell.Reason.Code = 1, CellAlone
			cell.Ticks = d.ticksOf(last, m.Name)
		case had == nil && !(d.facts.Adopt && m.Selected):
			continue
		default:
			cell.Reason.Code = d.standbyCode(m, had, given)
			if cell.Reason.Code == CellStandby && !m.Selected {
				continue // its object is removed
			}
			cell.Ticks = aloneAgain(had)
		}
		switch {
		case had != nil:
			cell.Adoption = had.Adoption
		case d.facts.Adopt:
			cell.Adoption.Phase = topology.AdoptionDiscovered // there are no replicas to discover
		}
		d.spec.Cells = append(d.spec.Cells, cell)
	}
	slices.SortFunc(d.spec.Cells, func(a, b topology.Cell) int { return strings.Compare(a.Cluster, b.Cluster) })
	d.result = divided{cells: d.spec.Cells}
	if !given {
		d.result.unplaced = []topology.Unplaced{{Replicas: 1, Reason: topology.Reason{Code: UnplacedMoving}}}
	}
	d.noteOne(chosen, waits, given)
	return nil
}

// chooseOne returns the member that is to start the jobs, "" for none: the last one if nothing drives it out.
func (d *draft) chooseOne() (string, *kinds.Rejection) {
	in := division.Input{
		Replicas: 1, Subsets: []division.Subset{{}}, Salt: d.workload.Key.String(), Spread: spreadOf(d),
	}
	in.Spread.By, in.Spread.MaxSkew = division.ByCluster, 0
	last := d.lastByMember()
	for i := range d.facts.Members {
		m := &d.facts.Members[i]
		c := division.Cell{Cluster: m.Name, Region: m.Region, Weight: weightOf(d, m), Frozen: !m.Ready, Taint: m.Taint,
			Capacity: m.Room(nil, d.workload.Requests)}
		if had := last[m.Name]; had != nil {
			c.Current = min(had.Replicas, 1)
		}
		if m.Lost || !m.Selected {
			c.Taint = division.NoExecute
		}
		if m.Selected || c.Current > 0 {
			in.Cells = append(in.Cells, c)
		}
	}
	plan, err := division.Divide(in)
	if err != nil {
		return "", &kinds.Rejection{Reason: kinds.InvalidSubsets,
			Message: fmt.Sprintf("%s: %v", d.workload.Key.Sentence(), err)}
	}
	for _, share := range plan.Cells {
		if share.Replicas > 0 {
			return share.Cluster, nil
		}
	}
	return "", nil
}

// lastByMember returns the last cell of each member that exists.
func (d *draft) lastByMember() map[string]*topology.Cell {
	cells := map[string]*topology.Cell{}
	for i := range d.facts.Members {
		name := d.facts.Members[i].Name
		for j := 0; d.last != nil && j < len(d.last.Cells); j++ {
			if d.last.Cells[j].Cluster == name {
				cells[name] = &d.last.Cells[j]
			}
		}
	}
	return cells
}

// ended reports whether a member starts no jobs: it has confirmed that, or it is fenced.
func (d *draft) ended(m *Member, had *topology.Cell) bool {
	report, reported := d.reports[m.Name]
	switch runs := reported && report.Use[""].Total > 0; {
	case m.Lost:
		return true
	case had == nil:
		return !d.facts.Adopt // what runs there is not known
	case had.Replicas > 0:
		return false
	case reported && report.Sequence >= had.Sequence:
		return !runs
	case had.Reason.Code == CellTicksMoved:
		return !m.Ready
	}
	return had.Reason.Code == CellStandby || had.Reason.Code == CellStopped
}

// unconfirmed returns the members beside one that may start jobs.
func (d *draft) unconfirmed(last map[string]*topology.Cell, beside string) []string {
	var names []string
	for i := range d.facts.Members {
		m := &d.facts.Members[i]
		known := last[m.Name] != nil || d.facts.Adopt && m.Selected
		if m.Name != beside && known && !d.ended(m, last[m.Name]) {
			names = append(names, m.Name)
		}
	}
	return names
}

// standbyCode returns the reason of a cell with 0. The ticks of a member that has ended are its own until they are
// given to another one.
func (d *draft) standbyCode(m *Member, had *topology.Cell, given bool) string {
	report, reported := d.reports[m.Name]
	confirmed := had != nil && had.Replicas == 0 && reported && report.Sequence >= had.Sequence
	switch {
	case !d.ended(m, had):
		return CellStopping
	case had == nil:
		return CellStandby
	case !confirmed && (had.Replicas > 0 || had.Reason.Code == CellStopping || had.Reason.Code == CellTicksMoved):
		if given {
			return CellTicksMoved
		}
		return CellStopping
	case had.Reason.Code == CellStandby || had.Reason.Code == CellTicksMoved || given:
		return CellStandby
	}
	return CellStopped
}

// ticksOf returns the ticks of the member that starts the jobs.
func (d *draft) ticksOf(last map[string]*topology.Cell, name string) *topology.Ticks {
	if had := last[name]; had != nil && had.Replicas > 0 {
		return aloneAgain(had)
	}
	if d.last == nil && d.facts.Adopt {
		return &topology.Ticks{Alone: true} // it goes on with its own
	}
	now := wholeSeconds(d.facts.Now)
	past := d.ticksBefore(last, name)
	since := past.since
	if past.outdated && !past.current || since.After(d.facts.Now) {
		since = now.Time // the new schedule has no ticks before a member saw it
	}
	out := &topology.Ticks{Alone: true, At: &now, Since: &metav1.Time{Time: since}}
	if (!past.stopped || !past.sure) && since.Before(now.Time) {
		out.StartAfter = &now
	}
	return out
}

// pastTicks is what is known of the ticks before the member that starts the jobs now.
type pastTicks struct {
	// since is the newest tick that is known to be settled.
	since time.Time
	// current: a member that had the ticks follows the user's schedule. outdated: one follows another schedule.
	current, outdated bool
	// stopped: no member had the ticks, or the one that starts the jobs now, or one that confirmed its end, had them.
	// sure: no member that had them has not confirmed its end.
	stopped, sure bool
}

// ticksBefore returns what is known of the ticks before the member of this name.
func (d *draft) ticksBefore(last map[string]*topology.Cell, name string) pastTicks {
	out := pastTicks{since: d.facts.Ticks[""].Settled, stopped: d.last == nil, sure: true}
	for i := range d.facts.Members {
		m := &d.facts.Members[i]
		ticks := d.facts.Ticks[m.Name]
		if ticks.Settled.After(out.since) {
			out.since = ticks.Settled
		}
		if last[m.Name] == nil || last[m.Name].Reason.Code == CellStandby || last[m.Name].Reason.Code == CellTicksMoved {
			continue
		}
		// No other member had its ticks since.
		out.current = out.current || !ticks.Outdated && !ticks.Settled.IsZero()
		out.outdated = out.outdated || ticks.Outdated
		if m.Name == name || d.standbyCode(m, last[m.Name], true) == CellStandby {
			out.stopped = true
		} else {
			out.sure = false
		}
	}
	return out
}

// aloneAgain returns the ticks of a cell as they were, nil for a new one, of a workload that runs in one member. They
// stay in a cell with 0: a member has the schedule since the same time however often it is paused.
func aloneAgain(had *topology.Cell) *topology.Ticks {
	ticks := &topology.Ticks{}
	if had != nil && had.Ticks != nil {
		ticks = had.Ticks.DeepCopy()
	}
	ticks.Alone = true
	return ticks
}

// givenTicks returns the ticks of a member of which each runs the workload, given its last cell, nil for none. One that
// was not the only one to start jobs has no ticks from before.
func (d *draft) givenTicks(had *topology.Cell) *topology.Ticks {
	switch {
	case had == nil || had.Ticks == nil || !had.Ticks.Alone:
		if had == nil {
			return nil
		}
		return had.Ticks
	case had.Replicas == 0:
		now := wholeSeconds(d.facts.Now)
		return &topology.Ticks{At: &now, Since: &now}
	}
	ticks := had.Ticks.DeepCopy()
	ticks.Alone = false
	if equality.Semantic.DeepEqual(ticks, &topology.Ticks{}) {
		return nil
	}
	return ticks
}

func wholeSeconds(t time.Time) metav1.Time { return metav1.Time{Time: t.Truncate(time.Second)} }

// noteOne says what a person should know of the member that starts the jobs.
func (d *draft) noteOne(chosen string, waits []string, given bool) {
	note := func(format string, args ...any) {
		d.notes = append(d.notes, Note{Reason: Placed, Message: fmt.Sprintf(format, args...)})
	}
	members := map[string]*Member{}
	for i := range d.facts.Members {
		members[d.facts.Members[i].Name] = &d.facts.Members[i]
	}
	switch m := members[chosen]; {
	case chosen == "":
		note("no member can start the jobs now: members must be Ready, and free of taints that the policy does not tolerate")
	case !given:
	case m.Fencing:
		note("member %s, which starts the jobs, counts as lost; if nothing runs there any more, let another one start them "+
			"with: flotilla fence %s --confirm", chosen, chosen)
	case !m.Ready && m.State == "":
		note("member %s, which starts the jobs, is unreachable and goes on by its own clock; they move to another member "+
			"only with failover.mode Fence", chosen)
	case !m.Ready && m.State != failover.Lost:
		note("member %s, which starts the jobs, is unreachable and goes on by its own clock", chosen)
	case !m.Selected || m.Lost || m.Taint == division.NoExecute:
		note("the jobs stay in member %s, because no other member can start them; add a member, or raise a bound", chosen)
	default:
		note("member %s starts the jobs", chosen)
	}
	for _, name := range waits {
		text := fmt.Sprintf("member %s has not confirmed yet that it starts no jobs", name)
		if !given {
			text += ", and another one starts them after that"
		}
		if !members[name].Ready {
			text += fmt.Sprintf("; it is unreachable: if nothing runs there any more, use failover.mode Fence and: "+
				"flotilla fence %s --confirm", name)
		}
		note("%s", text)
	}
}
