package main

import (
	"sort"
	"sync"
	"time"
)

// deliveries remember how much of the pods' history the child had got, and when.
type deliveries struct {
	mu   sync.Mutex
	list []delivery
}

// delivery says that from at on the child knew everything up to version; 0 begins a new child, which knows nothing.
type delivery struct {
	at      time.Time
	version uint64
}

// add notes that the child has got everything up to the version.
func (d *deliveries) add(version uint64, at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := len(d.list); n == 0 || d.list[n-1].version < version {
		d.list = append(d.list, delivery{at, version})
	}
}

// reset notes that the child was killed.
func (d *deliveries) reset(at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.list = append(d.list, delivery{at, 0})
}

// informed tells whether the child that ran at by had got the version by then.
func (d *deliveries) informed(version uint64, by time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	// Versions only grow until the next reset, so the last entry is the most that was known.
	after := sort.Search(len(d.list), func(i int) bool { return d.list[i].at.After(by) })
	return after > 0 && d.list[after-1].version >= version
}
