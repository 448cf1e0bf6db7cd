package cloneset

import (
	"flag"
	"testing"
	"testing/synctest"
)

var (
	simSeed  = flag.Uint64("seed", 0, "run only this seed of the simulation, and tell its story")
	simSeeds = flag.Uint64("seeds", 1000, "run so many seeds of the simulation")
)

// TestSimulated runs the controller in worlds where everything goes wrong that can, and holds it to its limits, and to an
// end. A failure names its seed: go test -run 'TestSimulated$' -seed N tells the story again.
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
