package write

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

// InFlight is how many requests of one pass run side by side at most. 16 keep an idle server of two cores busy; a
// loaded one answers in hundreds of milliseconds, and then the share of the work that it does for us grows with what it
// holds of ours. The native controllers have up to 256 in flight.
const InFlight = 128

// Steps says how many items there are and how they run.
type Steps struct {
	// N is the number of items.
	N int
	// Start is how many run side by side at first; 0 means 1. Give the number that the last pass reached.
	Start int
	// Limit is how many run side by side at most.
	Limit int
	// Stop, if set, is asked before each item: true begins no more. That is no error.
	Stop func() bool
}

// SlowStart calls do for 0 … N-1: one, then two, four, eight … side by side, up to the limit. After a step with an
// error, or when ctx ends, no more are begun. It returns how many calls succeeded, and their errors joined.
func SlowStart(ctx context.Context, s Steps, do func(i int) error) (int, error) {
	var done atomic.Int64
	var errs []error
	stop := func() bool { return ctx.Err() != nil || (s.Stop != nil && s.Stop()) }
	for next, width := 0, min(max(1, s.Start), s.Limit); next < s.N && len(errs) == 0; width = min(width*2, s.Limit) {
		if err := ctx.Err(); err != nil {
			errs = append(errs, err)
			break
		}
		if stop() {
			break
		}
		size := min(width, s.N-next)
		if width == s.Limit {
			size = s.N - next
		}
		errs = append(errs, step(stop, next, size, min(width, size), do, &done)...)
		next += size
	}
	return int(done.Load()), errors.Join(errs...)
}

// step calls do for size numbers from first on, width side by side, and begins none after an error or when stop says
// so.
func step(stop func() bool, first, size, width int, do func(i int) error, done *atomic.Int64) []error {
	if size == 1 {
		if err := do(first); err != nil {
			return []error{err}
		}
		done.Add(1)
		return nil
	}
	var (
		next   atomic.Int64
		failed atomic.Bool
		mu     sync.Mutex
		errs   []error
		wg     sync.WaitGroup
	)
	for range width {
		wg.Go(func() {
			for !failed.Load() && !stop() {
				i := int(next.Add(1)) - 1
				if i >= size {
					return
				}
				if err := do(first + i); err != nil {
					failed.Store(true)
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	return errs
}
