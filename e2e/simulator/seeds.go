package simulator

import (
	"runtime/debug"
	"testing"
	"testing/synctest"
)

const (
	// shownFailures is after how many seeds that fail the others are not run.
	shownFailures = 5
	// gcPercent collects garbage seldom: a simulated world lives for some milliseconds.
	gcPercent = 800
)

// EachSeed runs worlds with the seeds from 1 to count, or with the seed only if that is not 0. run returns why the
// world failed, nil if it did not, and what happened if tell asks for it. The first world that fails runs again, to
// tell.
func EachSeed(t *testing.T, count int, only uint64, run func(t *testing.T, seed uint64, tell bool) (string, error)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
		failed := 0
		for seed := uint64(1); seed <= uint64(count); seed++ {
			if only != 0 && seed != only {
				continue
			}
			if _, err := run(t, seed, false); err != nil {
				happened, _ := run(t, seed, true)
				if failed++; failed == 1 {
					t.Log(happened)
				}
				if t.Errorf("seed %d: %v", seed, err); failed == shownFailures {
					return
				}
			}
		}
	})
}
