package placement

import (
	"fmt"
	"slices"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/topology/waves"
)

// holdToWaves gives the cells of pools the ceilings that the waves of the policy set, and returns how far those are.
func holdToWaves(f *Facts, spec *topology.WorkloadPlacementSpec, pools []pool, newRevision bool) waves.Decision {
	if f.Rollout.Strategy != topology.RolloutWaves || f.Workload.Unordered {
		return waves.Decision{}
	}
	facts := waves.Facts{
		Rollout: &f.Rollout, Revision: spec.Revision, Begins: newRevision && f.Last != nil && f.Last.Revision != "",
		Allowed: map[string]int32{}, Paused: f.Workload.Paused, Word: f.Word, Now: f.Now,
		Check: func(c topology.WaveCheck) string { return checkWave(c.Expression, f.Object) },
	}
	if f.Last != nil {
		facts.Last = f.Last.Wave
	}
	members := map[string]*Member{}
	for i := range f.Members {
		members[f.Members[i].Name] = &f.Members[i]
	}
	for _, p := range pools {
		facts.Allowed[p.subset] = p.global.Update
		for i := range p.cells {
			at := waves.Place{Subset: p.subset, Cluster: p.cells[i].Key, Replicas: p.cells[i].Replicas, Lost: true}
			if m := members[at.Cluster]; m != nil {
				at.Labels, at.Lost, at.Zones = m.Labels, m.Silent || m.Lost, zonesAt(spec.Cells, p.subset, m)
			}
			if p.cells[i].Report != nil {
				at.Updated = f.Reports[at.Cluster].Use[p.subset].UpdatedAvailable
			}
			facts.Places = append(facts.Places, at)
		}
	}
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
	case d.Stop:
		return append([]Note{{Reason: WaveFailed, Stalled: true, Message: fmt.Sprintf(
			"%s; no pod of %s is updated any more: have the wave tried again with flotilla rollout retry, go on after it with flotilla rollout approve, or take the change back by applying the template of before with rollout.strategy: Proportional",
			d.Waits, f.Workload.Key.Sentence())}}, notes...)
	case f.Rollout.Strategy == topology.RolloutWaves && f.Workload.Unordered:
		return append(notes, Note{Reason: Placed, Message: "the policy's rollout.waves hold for CloneSets alone: members update the Deployments and StatefulSets of a UnitedDeployment alongside each other; use cloneSetTemplate"})
	}
	return notes
}
