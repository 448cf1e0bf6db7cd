package write_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/write"
)

func TestSlowStartCallsEachOnce(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 7, 500} {
		var mu sync.Mutex
		var got []int
		done, err := write.SlowStart(t.Context(), write.Steps{N: n, Limit: 32}, func(i int) error {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, i)
			return nil
		})
		slices.Sort(got)
		if err != nil || done != n || len(got) != n {
			t.Fatalf("%d of %d calls, %v", len(got), n, err)
		}
		for i, v := range got {
			if i != v {
				t.Fatalf("call %d is missing", i)
			}
		}
	}
}

func TestSlowStartWidens(t *testing.T) {
	var running, most atomic.Int64
	// Every call of a step waits until the step is full; a step that were narrower would never end.
	var mu sync.Mutex
	waiting, step := 0, 1
	cond := sync.NewCond(&mu)
	_, err := write.SlowStart(t.Context(), write.Steps{N: 15, Limit: 8}, func(int) error {
		running.Add(1)
		defer running.Add(-1)
		most.Store(max(most.Load(), running.Load()))
		mu.Lock()
		defer mu.Unlock()
		if waiting++; waiting == step {
			waiting, step = 0, step*2
			cond.Broadcast()
			return nil
		}
		mine := step
		for mine == step {
			cond.Wait()
		}
		return nil
	})
	if err != nil || most.Load() > 8 || step != 16 {
		t.Errorf("error %v, %d at a time, next step %d", err, most.Load(), step)
	}
}

func TestSlowStartStopsAtTheFirstFailure(t *testing.T) {
	refused := errors.New("quota")
	calls := 0
	done, err := write.SlowStart(t.Context(), write.Steps{N: 500, Limit: 32}, func(int) error { calls++; return refused })
	if calls != 1 || done != 0 || !errors.Is(err, refused) {
		t.Errorf("%d calls, %d done, %v", calls, done, err)
	}
	var some atomic.Int64
	done, err = write.SlowStart(t.Context(), write.Steps{N: 500, Limit: 32}, func(i int) error {
		some.Add(1)
		if i == 3 {
			return refused
		}
		return nil
	})
	if some.Load() > 7 || err == nil || done >= int(some.Load()) {
		t.Errorf("%d calls, %d done, %v", some.Load(), done, err)
	}
}

func TestSlowStartEndsWhenAsked(t *testing.T) {
	calls := 0
	done, err := write.SlowStart(t.Context(), write.Steps{N: 500, Limit: 1, Stop: func() bool { return calls >= 5 }},
		func(int) error { calls++; return nil })
	if done != 5 || err != nil {
		t.Errorf("stopped after %d, %v", done, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if done, err := write.SlowStart(ctx, write.Steps{N: 5, Limit: 4}, func(int) error { return nil }); done != 0 ||
		err == nil {
		t.Errorf("%d done in an ended context, %v", done, err)
	}
}

func TestSlowStartBeginsWhereTheLastEnded(t *testing.T) {
	var running, most atomic.Int64
	var wg sync.WaitGroup
	wg.Add(4)
	_, err := write.SlowStart(t.Context(), write.Steps{N: 4, Start: 100, Limit: 4}, func(int) error {
		most.Store(max(most.Load(), running.Add(1)))
		wg.Done()
		wg.Wait() // all four run at the same time
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
