package pods

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestPositionSkipsWhatWasPrinted holds that a log that is read again from a whole second has each line once, also where
// times repeat, or go back within a second.
func TestPositionSkipsWhatWasPrinted(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		var log []time.Time
		at := start
		for range 40 {
			at = at.Add(time.Duration(random.IntN(4)) * 150 * time.Millisecond)
			log = append(log, at)
		}
		if seed%3 == 0 { // two writers of one container, whose lines change places
			for i := 1; i < len(log); i++ {
				if random.IntN(3) == 0 && log[i].Truncate(time.Second).Equal(log[i-1].Truncate(time.Second)) {
					log[i], log[i-1] = log[i-1], log[i]
				}
			}
		}
		var p position
		var printed []int
		for len(printed) < len(log) {
			since := p.resume()
			stop := random.IntN(25) + 1
			for i, at := range log {
				if since != nil && at.Before(since.Time) {
					continue
				}
				if stop--; stop < 0 {
					break
				}
				if p.take(at) {
					printed = append(printed, i)
				}
			}
		}
		if want := slices.Collect(numbers(len(log))); !slices.Equal(printed, want) {
			t.Fatalf("seed %d: printed %v of %v", seed, printed, log)
		}
	}
}

func numbers(n int) func(func(int) bool) {
	return func(yield func(int) bool) {
		for i := range n {
			if !yield(i) {
				return
			}
		}
	}
}

// TestPositionAfterARotatedLog holds that lines of a new file are not taken for those that were printed.
func TestPositionAfterARotatedLog(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var p position
	for i := range 5 {
		p.take(start.Add(time.Duration(i) * time.Millisecond))
	}
	p.resume()
	if !p.take(start.Add(10 * time.Millisecond)) {
		t.Error("a newer line counts as printed")
	}
	if fmt.Sprint(p.lines, p.skip) != "6 0" {
		t.Errorf("position is %+v", p)
	}
}
