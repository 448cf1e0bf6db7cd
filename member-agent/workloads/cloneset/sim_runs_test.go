package cloneset

import (
	"flag"
	"runtime/debug"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

var (
	simSeed  = flag.Uint64("seed", 0, "run only this seed of the simulation, and tell its story")
	simSeeds = flag.Uint64("seeds", 400, "run so many seeds of the simulation")
)

// TestSimulated runs the controller in worlds where everything goes wrong that can, and holds it to its limits, and to
// an end. A failure names its seed: go test -run 'TestSimulated$' -seed N tells the story again.
func TestSimulated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if *simSeed != 0 {
			r := runRandom(*simSeed, true)
			t.Logf("%s\n%d writes, %d passes", r.story, r.writes, r.passes)
			if r.err != nil {
				t.Fatal(r.err)
			}
			return
		}
		// The runs make much garbage and keep none: with a larger heap they take two thirds of the time.
		defer debug.SetGCPercent(debug.SetGCPercent(800))
		writes, passes, failed := 0, 0, 0
		for seed := range *simSeeds {
			r := runRandom(seed+1, false)
			writes, passes = writes+r.writes, passes+r.passes
			if r.err != nil {
				if failed++; failed <= 5 {
					t.Errorf("seed %d: %v\n(run it again with -seed %d for its story)", seed+1, r.err, seed+1)
				}
			}
		}
		t.Logf("%d runs, %d writes, %d passes, %d failed", *simSeeds, writes, passes, failed)
	})
}

// TestTheSimulationFindsStaleReads shows that a controller that forgets what it wrote is found out.
func TestTheSimulationFindsStaleReads(t *testing.T) {
	found(t, func(s *simulated) { s.blind = true })
}

// TestTheSimulationFindsLies shows that a controller that acts by another spec than there is is found out.
func TestTheSimulationFindsLies(t *testing.T) {
	for name, tt := range map[string]struct {
		features
		lie func(*v1beta1.CloneSetSpec)
	}{
		"it takes more pods than it may": {features{}, func(s *v1beta1.CloneSetSpec) {
			s.UpdateStrategy.RollingUpdate.MaxUnavailable = new(intstr.FromString("100%"))
		}},
		"it updates more pods than it may": {features{},
			func(s *v1beta1.CloneSetSpec) { s.UpdateStrategy.RollingUpdate.Partition = nil }},
		"it does not wait for hooks": {features{hooks: true}, func(s *v1beta1.CloneSetSpec) { s.Lifecycle = nil }},
		"it keeps claims that nobody wants": {features{claims: true},
			func(s *v1beta1.CloneSetSpec) { s.ScaleStrategy.EnablePVCReuse = true }},
		"it does not wait for grace periods": {features{batches: true},
			func(s *v1beta1.CloneSetSpec) { s.UpdateStrategy.RollingUpdate.InPlaceUpdateStrategy = nil }},
		"it replaces pods that do not go yet": {features{hooks: true},
			func(s *v1beta1.CloneSetSpec) { s.ScaleStrategy.ExcludePreparingDelete = true }},
	} {
		t.Run(name, func(t *testing.T) { found(t, func(s *simulated) { s.features, s.lie = tt.features, tt.lie }) })
	}
}

// TestTheSimulationFindsCrowdedSubsets shows that a controller that counts wrongly is found out.
func TestTheSimulationFindsCrowdedSubsets(t *testing.T) {
	found(t, func(s *simulated) {
		s.features = features{spread: true}
		s.lieSpread = func(ws *v1beta1.WorkloadSpreadSpec) {
			for i := range ws.Subsets {
				ws.Subsets[i].MaxReplicas = nil
			}
		}
	})
}

// found runs a broken controller; within a few runs the checks must have found it often.
func found(t *testing.T, broken func(*simulated)) {
	synctest.Test(t, func(t *testing.T) {
		const runs, least = 80, 3
		violations := 0
		for seed := range uint64(runs) {
			if r := runRandom(seed+1, false, broken); r.err != nil {
				violations++
			}
		}
		if violations < least {
			t.Errorf("%d of %d runs found it, want %d or more", violations, runs, least)
		}
		t.Logf("%d of %d runs found it", violations, runs)
	})
}

// TestARunCanBeRepeated holds the simulation to its seed, and to nothing else.
func TestARunCanBeRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for seed := uint64(1); seed <= 20; seed++ {
			first, second := runRandom(seed, true), runRandom(seed, true)
			if first.story != second.story {
				t.Fatalf("seed %d tells two stories:\n%s\nand\n%s", seed, first.story, second.story)
			}
		}
	})
}
