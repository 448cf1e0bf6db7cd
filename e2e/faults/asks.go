package main

import (
	"sync"
	"time"
)

// asks remember when the child asked for what makes a pod unavailable. The client asks again by itself after a 429, so
// what is carried out may have been decided seconds before.
type asks struct {
	mu   sync.Mutex
	pods map[string][]ask
}

type ask struct {
	at time.Time
	// again: it was answered in a way after which the client repeats it.
	again bool
}

func newAsks() *asks { return &asks{pods: map[string][]ask{}} }

func (a *asks) add(pod string, at time.Time, again bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pods[pod] = append(a.pods[pod], ask{at, again})
}

// first returns when the child first asked for what was carried out at the time; without a record it is that time.
func (a *asks) first(pod string, carriedOut time.Time) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := a.pods[pod]
	last := len(list) - 1
	for last >= 0 && list[last].at.After(carriedOut) {
		last--
	}
	if last < 0 {
		return carriedOut
	}
	for last > 0 && list[last-1].again {
		last--
	}
	return list[last].at
}
