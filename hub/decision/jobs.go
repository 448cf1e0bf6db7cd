package decision

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/topology/waves"
)

// A job runs a pod to its end on each node. Its nodes are granted as updates are: Updated is how many nodes a member
// may touch, and Unavailable on how many a pod may run.

// goesInParts reports whether the nodes of a job go in waves or steps of the policy, or in batches.
func (d *draft) goesInParts() bool {
	return inParts(&d.facts.Rollout) || d.workload.Job.Batches != nil
}

// unreported says for which member a job in parts waits before the first part begins, "" for none. The size of a part
// depends on the nodes of all members.
func (d *draft) unreported() string {
	if d.last == nil {
		return "no node is touched before the members have reported their nodes"
	}
	for i := range d.facts.Members {
		m := &d.facts.Members[i]
		report, ok := d.reports[m.Name]
		refused := ok && !report.Applied
		if m.Selected && m.Ready && !refused && (!ok || report.Sequence < d.last.RevisionSequence) {
			return fmt.Sprintf("no node is touched before member %s has reported its nodes", m.Name)
		}
	}
	if d.workload.Replicas == 0 {
		return "no node of any member fits"
	}
	return ""
}

// addJob adds to the facts about waves what is different for a job: its first template goes in waves too.
func (d *draft) addJob(f *waves.Facts) {
	job := d.workload.Job
	f.Begins = f.Last == nil
	if !inParts(&d.facts.Rollout) {
		f.Batches = job.Batches
	}
	if member, halt := d.halt(false); halt != nil {
		f.Halted = fmt.Sprintf("the job halted in member %s", member)
	}
	if p := f.Last; p != nil && job.Promoted == p.Number {
		f.Word = waves.ApproveWord(f.Revision, f.Sequence, p)
	}
}

// halt returns why the job halted, or failed, in the first member by name, nil if it did not.
func (d *draft) halt(failed bool) (member string, halt *work.JobHalt) {
	for i := range d.facts.Members {
		m := &d.facts.Members[i]
		h := d.reports[m.Name].Halted
		if m.Selected && h != nil && h.Failed == failed && (halt == nil || m.Name < member) {
			member, halt = m.Name, h
		}
	}
	return member, halt
}

// comesLate reports whether a member joined after pods of a job were created; had is its last cell, nil for none. Such
// a member stays late.
func (d *draft) comesLate(had *topology.Cell) bool {
	switch {
	case d.workload.Job == nil || d.last == nil:
		return false
	case had != nil:
		return had.Reason.Code == CellLateMember
	}
	return slices.ContainsFunc(d.last.Cells, func(c topology.Cell) bool { return c.Reserved.Updated > 0 })
}

// isLate reports whether the cell of a member is that of one that joined late.
func (d *draft) isLate(spec *topology.WorkloadPlacementSpec, cluster string) bool {
	return slices.ContainsFunc(spec.Cells, func(c topology.Cell) bool {
		return c.Cluster == cluster && c.Reason.Code == CellLateMember
	})
}

// holdLateMembers grants members that joined late no nodes before those of all others are touched. Members that are not
// heard of are not waited for.
func holdLateMembers(d *draft, spec *topology.WorkloadPlacementSpec, pools []pool) {
	if d.workload.Job == nil {
		return
	}
	for _, p := range pools {
		var late []int
		left := false
		for i := range p.cells {
			c := &p.cells[i]
			switch {
			case d.isLate(spec, c.Key):
				late = append(late, i)
			case !c.Lost:
				left = left || d.reports[c.Key].Use[p.subset].Updated < c.Replicas
			}
		}
		for _, i := range late {
			if left {
				p.cells[i].Ceiling = new(int32)
			}
		}
	}
}

// endJob ends a job that is through or has failed, and pauses the cells of one that has halted or ended. It also says
// which batch the nodes of a cell belong to that were granted last.
func endJob(d *draft) *kinds.Rejection {
	if d.workload.Job == nil {
		return nil
	}
	if d.last != nil {
		d.spec.End = d.last.End
	}
	if d.spec.End == nil {
		d.spec.End = d.end()
	}
	_, halted := d.halt(false)
	last := lastCells(d)
	for i := range d.spec.Cells {
		c := &d.spec.Cells[i]
		c.Waiting = c.Waiting || halted != nil || d.spec.End != nil
		had := last[idOf(c)]
		if had != nil {
			c.Batch = had.Batch
		}
		if d.wave.Progress != nil && (had == nil || c.Granted.Updated > had.Granted.Updated) {
			c.Batch = d.wave.Progress.Number
		}
	}
	return nil
}

// end returns the end of a job that ends now, nil for one that goes on.
func (d *draft) end() *topology.JobEnd {
	end := &topology.JobEnd{Time: metav1.NewTime(d.facts.Now.Truncate(time.Second))}
	if member, failure := d.halt(true); failure != nil {
		const longest = 1000 // characters: a sentence and its remedy fit
		message := []rune(failure.Message)
		if len(message) > longest {
			message = append(message[:longest], []rune(" …")...)
		}
		end.Failed = true
		end.Message = fmt.Sprintf("the job failed in member %s: %s: %s", member, failure.Reason, string(message))
		return end
	}
	if d.workload.Job.Endless || d.workload.Paused || d.workload.Replicas == 0 || d.last == nil {
		return nil
	}
	if wave := d.wave.Progress; d.goesInParts() && (wave == nil || wave.Number <= wave.Of) {
		return nil
	}
	if _, halted := d.halt(false); halted != nil {
		return nil
	}
	for i := range d.facts.Members {
		if m := &d.facts.Members[i]; m.Selected && !d.isThrough(m) {
			return nil
		}
	}
	return end
}

// isThrough reports whether the pods of all nodes of a member have ended, and its checks hold, as it says now.
func (d *draft) isThrough(m *Member) bool {
	report, ok := d.reports[m.Name]
	use := report.Use[""]
	return ok && m.Ready && !m.Silent && report.Sequence >= d.last.RevisionSequence &&
		use.Available == use.Desired && use.Updated == use.Desired && use.UpdatedAvailable == use.Desired
}

// jobNotes say why a job stopped.
func jobNotes(d *draft) []Note {
	job := d.workload.Job
	if job == nil {
		return nil
	}
	if end := d.spec.End; end != nil {
		if end.Failed {
			return []Note{{Reason: JobFailed, Stalled: true, Message: end.Message +
				"; no further node is touched: repair the cause, and apply a job of another name"}}
		}
		return nil
	}
	member, halt := d.halt(false)
	if halt != nil {
		return []Note{{Reason: JobHalted, Stalled: true, Message: fmt.Sprintf(
			"the job halted in member %s: %s: %s; no further node is touched in any member; go on with flotilla rollout "+
				"resume bcj/%s -n %s", member, halt.Reason, strings.TrimSuffix(halt.Message, "."), d.workload.Key.Name,
			d.workload.Key.Namespace)}}
	}
	if job.Batches != nil && inParts(&d.facts.Rollout) {
		return []Note{{Reason: Placed, Message: "the policy's rollout holds in place of size and soak of " +
			"spec.flotilla.batches"}}
	}
	return nil
}
