package waves

import (
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// Stage is a wave or step of an update, with the pods that it adds to those of the stages before it.
type Stage struct {
	// Wave has its name, soak, approval and checks. The last stage has no name: it has the pods that no wave selects, which
	// are updated when all waves are over.
	Wave topology.Wave
	// Pods is how many pods the stage adds, Places those of them in each place. A step has no places: any pods count.
	Pods   int32
	Places []StagePlace
}

// StagePlace is how many pods of a place a stage adds.
type StagePlace struct {
	Subset, Cluster string
	Pods            int32
}

// Stages returns the waves or steps of an update over some places, in their order; nil for a rollout without them. The
// numbers are those of an update that begins now.
func Stages(rollout *topology.Rollout, places []Place) []Stage {
	f := Facts{Rollout: rollout, Begins: true}
	steps := f.hasSteps()
	if steps {
		f.Rollout = stepsAsWaves(rollout, places)
	}
	if !f.hasWaves() {
		return nil
	}
	var all []Stage
	before := make([]int32, len(places))
	for i := range f.Rollout.Waves {
		reached := ceilings(f.Rollout.Waves[:i+1], places)
		all = append(all, stage(f.Rollout.Waves[i], before, reached, places, steps))
		before = reached
	}
	rest := make([]int32, len(places))
	for i := range places {
		rest[i] = max(places[i].Replicas, before[i])
	}
	if last := stage(topology.Wave{}, before, rest, places, steps); last.Pods > 0 {
		all = append(all, last)
	}
	return all
}

// stage returns what a wave adds to the pods that were reached before it.
func stage(wave topology.Wave, before, reached []int32, places []Place, steps bool) Stage {
	s := Stage{Wave: wave}
	for i := range places {
		n := reached[i] - before[i]
		if n <= 0 {
			continue
		}
		s.Pods += n
		if !steps {
			s.Places = append(s.Places, StagePlace{places[i].Subset, places[i].Cluster, n})
		}
	}
	return s
}
