package placement

import (
	"fmt"
	"slices"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/checks"
	"github.com/flotilla-dev/flotilla/topology/lending"
	"github.com/flotilla-dev/flotilla/topology/waves"
)

// holdToWaves gives the cells of pools the ceilings that the waves of the policy set, and returns how far those are.
func holdToWaves(f *Facts, spec *topology.WorkloadPlacementSpec, pools []pool, newRevision bool) waves.Decision {
	if !f.RolledBack && (f.Rollout.Strategy != topology.RolloutWaves || f.Workload.NoWaves != "") {
		return waves.Decision{}
	}
	facts := waves.Facts{
		Rollout: &f.Rollout, Revision: spec.Revision, Begins: newRevision && f.Last != nil && f.Last.Revision != "",
		Allowed: map[string]int32{}, Paused: f.Workload.Paused, Word: f.Word, Now: f.Now, Heard: f.Heard,
		RolledBack: f.RolledBack,
		Check:      func(c topology.WaveCheck) string { return checks.OfWorkload(c.Expression, f.Object) },
		Answers:    f.Answers, Runs: f.Runs, Workload: f.Workload.Key.Name,
	}
	if f.Last != nil {
		facts.Last, facts.Leaves = f.Last.Wave, f.Last.Revision
	}
	switch {
	case !newRevision:
		facts.Sequence = f.Last.RevisionSequence
	case !f.RolledBack && f.Last != nil:
		facts.Last, facts.Template = lastWave(f), leftTemplate(f)
	}
	members := map[string]*Member{}
	for i := range f.Members {
		members[f.Members[i].Name] = &f.Members[i]
	}
	for _, p := range pools {
		facts.Allowed[p.subset] = p.global.Update
		for i := range p.cells {
			at := waves.Place{Subset: p.subset, Cluster: p.cells[i].Key, Replicas: p.cells[i].Replicas, Held: p.cells[i].Held.Update, Lost: true}
			if m := members[at.Cluster]; m != nil {
				at.Labels, at.Lost, at.Unheard, at.News, at.Zones = m.Labels, m.Silent || lost(f.left[place{p.subset, m.Name}]), !m.Ready, f.News[m.Name], zonesAt(spec.Cells, p.subset, m)
			}
			if p.cells[i].Report != nil {
				at.Updated = f.Reports[at.Cluster].Use[p.subset].UpdatedAvailable
			}
			facts.Places = append(facts.Places, at)
		}
	}
	facts.Places = append(facts.Places, placesWithout(f, pools)...)
	decision := waves.Decide(facts)
	next := 0
	for _, p := range pools {
		for i := range p.cells {
			if decision.Ceilings != nil {
				p.cells[i].Ceiling = &decision.Ceilings[next]
			}
			next++
		}
	}
	return decision
}

// placesWithout are the places of members that the policy selects and where the workload has no cell: a wave of them has nothing
// to update, which is no slip of the pen.
func placesWithout(f *Facts, pools []pool) []waves.Place {
	var places []waves.Place
	for _, p := range pools {
		for i := range f.Members {
			m := &f.Members[i]
			if m.Selected && !slices.ContainsFunc(p.cells, func(c lending.Cell) bool { return c.Key == m.Name }) {
				places = append(places, waves.Place{Subset: p.subset, Cluster: m.Name, Labels: m.Labels, Zones: m.Zones})
			}
		}
	}
	return places
}

// zonesAt returns the zones that a subset's pods may lie in in a member: those that its cells name, or else all of the member.
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

// withWaveNotes adds what is to be known of waves to the notes of a decision: a wave that failed comes first, since it stops the
// update whatever else there is to tell.
func withWaveNotes(f *Facts, d *waves.Decision, notes []Note) []Note {
	switch {
	case f.RolledBack:
		return append([]Note{{Reason: WaveFailed, Stalled: true, Message: fmt.Sprintf(
			"%s; members run the template of before again: give %s another one, or have this one tried again with flotilla rollout retry",
			d.Waits, f.Workload.Key.Sentence())}}, notes...)
	case d.Stop:
		return append([]Note{{Reason: WaveFailed, Stalled: true, Message: fmt.Sprintf(
			"%s; no pod of %s is updated any more: take the change back with flotilla rollout undo, have the wave tried again with flotilla rollout retry, or go on after it with flotilla rollout approve",
			d.Waits, f.Workload.Key.Sentence())}}, notes...)
	case d.Progress != nil && d.Progress.Number <= d.Progress.Of && d.Progress.Template == nil && f.Rollout.OnFailure == topology.RolloutRollback:
		return append(notes, Note{Reason: Placed, Message: fmt.Sprintf(
			"the policy's rollout.onFailure: Rollback does not hold for this update of %s: it began before that was set, or the patches of its subsets changed with the template; a wave that fails pauses it",
			f.Workload.Key.Sentence())})
	case f.Rollout.Strategy == topology.RolloutWaves && f.Workload.NoWaves != "":
		return append(notes, Note{Reason: Placed, Message: f.Workload.NoWaves})
	}
	return notes
}
