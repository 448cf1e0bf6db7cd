package decision

import (
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/topology/waves"
)

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
