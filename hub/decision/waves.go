package decision

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/topology/checks"
	"github.com/flotilla-dev/flotilla/topology/lending"
	"github.com/flotilla-dev/flotilla/topology/waves"
)

// holdToWaves gives the cells of pools the ceilings that the waves of the policy set, and returns how far those are.
func holdToWaves(d *draft, spec *topology.WorkloadPlacementSpec, pools []pool, newRevision bool) waves.Decision {
	job := d.workload.Job
	switch {
	case job != nil && !d.goesInParts():
		return waves.Decision{}
	case job != nil && (d.last == nil || d.last.Wave == nil) && d.unreported() != "":
		waits := waves.Decision{Limits: map[string]int32{"": 0}, Waits: d.unreported()}
		limitPools(pools, &waits)
		return waits
	case job == nil && !d.facts.RolledBack && (!inParts(&d.facts.Rollout) || d.workload.NoWaves != ""):
		return waves.Decision{}
	}
	facts := waves.Facts{
		Rollout: &d.facts.Rollout, Revision: spec.Revision, Begins: newRevision && d.last != nil && d.last.Revision != "",
		Allowed: map[string]int32{}, Paused: d.workload.Paused, Word: d.facts.Word, Now: d.facts.Now, Heard: d.facts.Heard,
		RolledBack: d.facts.RolledBack,
		Check: func(c topology.WaveCheck) string {
			return checks.OfWorkload(c.Expression, d.facts.Object, d.podsIn)
		},
		Answers: d.facts.Answers, Runs: d.facts.Runs, Workload: d.workload.Key.Name,
	}
	if d.last != nil {
		facts.Last, facts.Leaves = d.last.Wave, d.last.Revision
	}
	switch {
	case !newRevision:
		facts.Sequence = d.last.RevisionSequence
	case !d.facts.RolledBack && d.last != nil:
		facts.Last, facts.Template = lastWave(d), leftTemplate(d)
	}
	if job != nil {
		d.addJob(&facts)
	}
	for _, p := range pools {
		facts.Allowed[p.subset] = p.global.Updated
	}
	facts.Places = append(wavePlaces(d, spec, pools), placesWithout(d, pools)...)
	decision := waves.Decide(facts)
	limitPools(pools, &decision)
	return decision
}

// podsIn returns how many pods members reported in a state of a probe, over all members but those that are silent or
// lost: what they reported may be no more.
func (d *draft) podsIn(state string) int64 {
	gone := map[string]bool{}
	for at, code := range d.left {
		if lost(code) {
			gone[at.cluster] = true
		}
	}
	var n int64
	for i := range d.facts.Members {
		m := &d.facts.Members[i]
		if m.Silent || gone[m.Name] {
			continue
		}
		for _, s := range d.reports[m.Name].States {
			if s.State == state {
				n += int64(s.Pods)
			}
		}
	}
	return n
}

// limitPools gives the pools the limits, and their cells the ceilings, of a decision.
func limitPools(pools []pool, decision *waves.Decision) {
	for i := range pools {
		if limit, ok := decision.Limits[pools[i].subset]; ok {
			pools[i].global.Updated = min(pools[i].global.Updated, limit)
		}
	}
	next := 0
	for _, p := range pools {
		for i := range p.cells {
			if decision.Ceilings != nil {
				p.cells[i].Ceiling = &decision.Ceilings[next]
			}
			next++
		}
	}
}

// wavePlaces are the cells of the pools, in their order.
func wavePlaces(d *draft, spec *topology.WorkloadPlacementSpec, pools []pool) []waves.Place {
	members := map[string]*Member{}
	for i := range d.facts.Members {
		members[d.facts.Members[i].Name] = &d.facts.Members[i]
	}
	var places []waves.Place
	for _, p := range pools {
		for i := range p.cells {
			at := waves.Place{
				Subset:   p.subset,
				Cluster:  p.cells[i].Key,
				Replicas: p.cells[i].Replicas,
				Reserved: p.cells[i].Reserved.Updated,
				Touched:  p.cells[i].Reserved.Updated,
				Lost:     true,
				Last:     d.isLate(spec, p.cells[i].Key),
			}
			if m := members[at.Cluster]; m != nil {
				at.Labels, at.Zones = m.Labels, zonesAt(spec.Cells, p.subset, m)
				at.Lost = m.Silent || lost(d.left[place{p.subset, m.Name}])
				at.Unheard, at.News = !m.Ready, d.facts.News[m.Name]
			}
			if p.cells[i].Report != nil {
				use := d.reports[at.Cluster].Use[p.subset]
				at.Updated, at.Replicas, at.Touched = use.UpdatedAvailable, updatable(at.Replicas, &use), use.Updated
			}
			places = append(places, at)
		}
	}
	return places
}

// inParts reports whether updates go in waves or steps.
func inParts(r *topology.Rollout) bool {
	return r.Strategy == topology.RolloutWaves || len(r.Steps) > 0
}

// placesWithout are the places of members that the policy selects and where the workload has no cell: a wave of them
// has nothing to update, which is no slip of the pen.
func placesWithout(d *draft, pools []pool) []waves.Place {
	var places []waves.Place
	for _, p := range pools {
		for i := range d.facts.Members {
			m := &d.facts.Members[i]
			if m.Selected && !slices.ContainsFunc(p.cells, func(c lending.Cell) bool { return c.Key == m.Name }) {
				places = append(places, waves.Place{Subset: p.subset, Cluster: m.Name, Labels: m.Labels, Zones: m.Zones})
			}
		}
	}
	return places
}

// zonesAt returns the zones that a subset's pods may lie in in a member: those that its cells name, or else all of the
// member.
func zonesAt(cells []topology.Cell, subset string, m *Member) []string {
	var zones []string
	for i := range cells {
		if c := &cells[i]; c.Subset == subset && c.Cluster == m.Name {
			if c.Zone == "" {
				return m.Zones
			}
			zones = append(zones, c.Zone)
		}
	}
	slices.Sort(zones)
	return slices.Compact(zones)
}

// withWaveNotes adds what is to be known of waves to the notes of a decision: a wave that failed comes first, since it
// stops the update whatever else there is to tell.
func withWaveNotes(d *draft, wave *waves.Decision, notes []Note) []Note {
	switch {
	case d.facts.RolledBack:
		return append([]Note{{Reason: WaveFailed, Stalled: true, Message: fmt.Sprintf(
			"%s; members run the template of before again: give %s another one, or have this one tried again with flotilla "+
				"rollout retry",
			wave.Waits,
			d.workload.Key.Sentence(),
		)}}, notes...)
	case wave.Stop:
		return append([]Note{{Reason: WaveFailed, Stalled: true, Message: fmt.Sprintf(
			"%s; no pod of %s is updated any more: take the change back with flotilla rollout undo, have the wave tried again "+
				"with flotilla rollout retry, or go on after it with flotilla rollout approve",
			wave.Waits,
			d.workload.Key.Sentence(),
		)}}, notes...)
	case wave.Progress != nil && wave.Progress.Number <= wave.Progress.Of && wave.Progress.Template == nil &&
		d.facts.Rollout.OnFailure == topology.RolloutRollback:
		return append(notes, Note{Reason: Placed, Message: fmt.Sprintf(
			"the policy's rollout.onFailure: Rollback does not hold for this update of %s: it began before that was set, or "+
				"the patches of its subsets changed with the template; a wave that fails pauses it",
			d.workload.Key.Sentence(),
		)})
	case inParts(&d.facts.Rollout) && d.workload.NoWaves != "":
		return append(notes, Note{Reason: Placed, Message: d.workload.NoWaves})
	}
	return notes
}

// maxBefore is the largest template of before that is kept, in bytes: members get it as an annotation, and an API
// server takes 256 KiB of all annotations of an object. The other half is the user's.
const maxBefore = 128 * 1024

// previousTemplateOf returns the template of the pods that the current update does not reach yet, nil if it may reach
// all. A member that joins meanwhile has never had it, and would make all of its pods of the newest. replicas are those
// of each subset.
//
// Where the update before this one did not reach all either, most pods have what that one was to replace.
func previousTemplateOf(
	d *draft,
	spec *topology.WorkloadPlacementSpec,
	replicas map[string]int32,
	wave *waves.Decision,
	newRevision bool,
) *topology.RevisionTemplate {
	if d.last == nil || wave.Ceilings == nil && wave.Limits == nil && reachesAll(d, spec, replicas) {
		return nil
	}
	before := d.last.PreviousTemplate
	if newRevision && before == nil && d.last.Revision != "" && d.last.Template != nil {
		before = &topology.RevisionTemplate{Revision: d.last.Revision, Template: *d.last.Template}
	}
	if before == nil || before.Revision == spec.Revision || len(before.Template.Raw) > maxBefore ||
		d.facts.Kind.Template != nil &&
			!d.facts.Kind.Template.StillApplies(d.facts.Object, before.Template.Raw, before.Revision) {
		return nil
	}
	return before
}

// reachesAll tells whether all pods may be updated, as the workload says.
func reachesAll(d *draft, spec *topology.WorkloadPlacementSpec, replicas map[string]int32) bool {
	if d.workload.Selective {
		return false
	}
	if d.workload.Open {
		var update int32
		for i := range spec.Limits {
			update += spec.Limits[i].Updated
		}
		return update >= spec.Replicas
	}
	return !slices.ContainsFunc(d.workload.Subsets, func(s kinds.Subset) bool {
		n := replicas[s.Name]
		return !s.Removed && s.Amounts(n).Updated < n
	})
}

// keepsOld reports whether pods of a member keep the previous template. A member that runs the whole object may get a
// node at any time whose pod needs that template.
func keepsOld(order []*topology.Cell) bool {
	old := map[string]int32{}
	for _, c := range order {
		if c.Reason.Code == CellPerMember || c.Reason.Code == CellLateMember {
			return true
		}
		old[c.Subset] += c.Replicas - c.Granted.Updated
	}
	return slices.ContainsFunc(slices.Collect(maps.Values(old)), func(n int32) bool { return n > 0 })
}

func previousRevision(spec *topology.WorkloadPlacementSpec) string {
	if spec.PreviousTemplate == nil {
		return ""
	}
	return spec.PreviousTemplate.Revision
}

// RolledBack tells whether a placement's orders carry the template of before, since the newest one failed.
func RolledBack(spec *topology.WorkloadPlacementSpec) bool {
	return spec.Wave != nil && spec.Wave.RolledBack != "" && spec.Revision == spec.Wave.From
}

// restore returns the workload with a previous template, nil where that no longer makes the revision.
func (d *draft) restore(template []byte, revision string) kinds.Object {
	if d.facts.Kind.Template == nil {
		return nil
	}
	return d.facts.Kind.Template.Restore(d.facts.Object, template, revision)
}

// leftTemplate is what a rollback of the update that begins now would put back: the template of the last decision. Nil
// where it cannot be put back.
func leftTemplate(d *draft) *runtime.RawExtension {
	if d.last == nil || d.last.Template == nil {
		return nil
	}
	if d.restore(d.last.Template.Raw, d.last.Revision) == nil {
		return nil
	}
	return d.last.Template
}

// lastWave is how far waves were, as an update that begins now finds it: without a template that cannot be put back
// any more.
func lastWave(d *draft) *topology.WaveProgress {
	last := d.last.Wave
	if last == nil || last.Template == nil || d.restore(last.Template.Raw, last.From) != nil {
		return last
	}
	last = last.DeepCopy()
	last.Template = nil
	return last
}

// templateOf is the template that the placement keeps. It stays as it was read while the revision does, since an API
// server may write it with its fields in another order.
func templateOf(d *draft, newRevision bool) *runtime.RawExtension {
	if !newRevision && d.last.Template != nil {
		return d.last.Template
	}
	if len(d.workload.Template) == 0 {
		return nil
	}
	return &runtime.RawExtension{Raw: d.workload.Template}
}

// Stages returns the waves or steps in which an update of a placement goes, in their order; nil where it goes in none,
// and for a job, whose batches follow its nodes.
func Stages(rollout *topology.Rollout, spec *topology.WorkloadPlacementSpec, members []Member) []waves.Stage {
	if spec.Wave == nil || spec.Wave.Limit > 0 || spec.Wave.Number > spec.Wave.Of || RolledBack(spec) {
		return nil
	}
	byName := map[string]*Member{}
	for i := range members {
		byName[members[i].Name] = &members[i]
	}
	at := map[place]int{}
	var places []waves.Place
	for i := range spec.Cells {
		c := &spec.Cells[i]
		p := place{c.Subset, c.Cluster}
		if _, known := at[p]; !known {
			at[p] = len(places)
			next := waves.Place{Subset: c.Subset, Cluster: c.Cluster}
			if m := byName[c.Cluster]; m != nil {
				next.Labels, next.Zones = m.Labels, zonesAt(spec.Cells, c.Subset, m)
			}
			places = append(places, next)
		}
		places[at[p]].Replicas += c.Replicas
	}
	return waves.Stages(rollout, places)
}
