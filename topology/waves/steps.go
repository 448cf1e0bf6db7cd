package waves

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// A step is a wave over all places that is named by its partition. It bounds how many pods of a subset are updated in
// all places together (Decision.Limits), and leaves to others which ones they are: of StatefulSets those of the highest
// ordinals.

// hasSteps reports whether the update goes in steps.
func (f *Facts) hasSteps() bool {
	return f.Rollout.Strategy != topology.RolloutWaves && len(f.Rollout.Steps) > 0
}

// stepsAsWaves returns the rollout with its steps as waves, whose sizes are what the partitions leave of the places.
func stepsAsWaves(r *topology.Rollout, places []Place) *topology.Rollout {
	var all int64
	for i := range places {
		all += int64(max(places[i].Replicas, 0))
	}
	out := *r
	out.Strategy, out.Waves, out.Steps = topology.RolloutWaves, nil, nil
	for i := range r.Steps {
		s := &r.Steps[i]
		if slices.ContainsFunc(out.Waves, func(w topology.Wave) bool { return w.Name == s.Partition.String() }) {
			continue // the name tells steps apart
		}
		wave := topology.Wave{
			Name: s.Partition.String(), Soak: s.Soak, Timeout: s.Timeout, Checks: s.Checks, Approval: s.Approval,
			Size: new(intstr.FromInt32(int32(all - keeps(&s.Partition, all)))),
		}
		if wave.Approval == "" && s.Soak == "" && len(s.Checks) == 0 {
			wave.Approval = topology.ApprovalRequired
		}
		out.Waves = append(out.Waves, wave)
	}
	return &out
}

// keeps returns how many of all pods keep the previous template at a partition, by the rule of the kinds: a percentage
// rounds up, and below 100 % it leaves one pod to update. The schema refuses what cannot be read.
func keeps(partition *intstr.IntOrString, all int64) int64 {
	if partition.Type == intstr.Int {
		return min(max(int64(partition.IntVal), 0), all)
	}
	percent, err := strconv.ParseInt(strings.TrimSuffix(partition.StrVal, "%"), 10, 64)
	switch {
	case err != nil || percent < 0:
		return 0
	case percent >= 100:
		return all
	}
	return max(min((all*percent+99)/100, all-1), 0)
}

// limits returns how many pods of each subset may be updated: what the step says, and no fewer than may be already.
func limits(places []Place, ceiling []int32) map[string]int32 {
	wanted, had := map[string]int32{}, map[string]int32{}
	for i := range places {
		p := &places[i]
		wanted[p.Subset] += ceiling[i]
		had[p.Subset] += max(min(p.Reserved, p.Replicas), 0)
	}
	for subset := range wanted {
		wanted[subset] = max(wanted[subset], had[subset])
	}
	return wanted
}

// settledTogether reports whether as many pods of each subset are updated and available as the step asks for, in
// whichever of its places that are not lost.
func (w *walk) settledTogether(ceiling []int32) bool {
	missing := map[string]int32{}
	for i := range w.Places {
		if p := &w.Places[i]; !p.Lost {
			missing[p.Subset] += ceiling[i] - min(p.Updated, p.Replicas)
		}
	}
	for _, n := range missing {
		if n > 0 {
			return false
		}
	}
	return true
}

// reaches reports whether the wave under way has pods to update in a place: by its ceiling, or of a step, by what was
// granted.
func (w *walk) reaches(wave *topology.Wave, ceiling []int32, i int) bool {
	if w.p.Steps {
		return w.Places[i].Reserved > 0
	}
	return ceiling[i] > 0 && selects(wave, &w.Places[i])
}
