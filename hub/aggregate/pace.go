package aggregate

import (
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/flotilla-dev/flotilla/hub/wire"
)

const (
	// settle is how long the status of work in progress waits after a new order: agents answer within 300 ms of having it,
	// and pods that start at once are Ready soon after. Later would look late to a person.
	settle = 500 * time.Millisecond
	// interval is the least time between two writes of one status: two a second are as live as a person can read.
	interval = 500 * time.Millisecond
	// gatherDelay is how long work in progress waits for the reports of other members: they were ordered together, so they
	// report together.
	gatherDelay = 250 * time.Millisecond
	// quietTime is how long nothing was written before a change counts as the first one after rest, which is written at
	// once. It is longer than the second that agents leave between two reports.
	quietTime = 2 * time.Second
	// finalInterval is the least time between a write and the one that says that all is done: what waits for an update
	// waits for that one. It is longer than what members that end together are apart as a rule.
	finalInterval = 100 * time.Millisecond
)

// pace decides when a changed status is written.
type pace struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	byKey map[wire.Key]*beat
}

// beat is what is remembered of one workload.
type beat struct {
	order   int64     // the newest order that was seen
	since   time.Time // since when
	changed time.Time // when the change that waits was seen; zero when none waits
	wrote   time.Time
	ended   int64 // the order that a written status said to be done
}

func newPace(clk clock.PassiveClock) *pace { return &pace{clock: clk, byKey: map[wire.Key]*beat{}} }

// wait returns how long a changed status has to wait, 0 to write it now. order is the sequence of the placement, done
// tells that nothing is in progress: then there is nothing to wait for but the interval, and less where the order was
// not done before.
func (p *pace) wait(key wire.Key, order int64, done bool) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	b := p.byKey[key]
	if b == nil {
		b = &beat{order: order, since: now}
		p.byKey[key] = b
	}
	if b.order != order {
		b.order, b.since = order, now
	}
	if b.changed.IsZero() {
		b.changed = now
	}
	next := b.wrote.Add(interval)
	switch {
	case done && b.ended != order:
		next = b.wrote.Add(finalInterval)
	case !done && order > 0:
		next = latest(next, b.since.Add(settle))
		if b.changed.Sub(b.wrote) < quietTime {
			next = latest(next, b.changed.Add(gatherDelay))
		}
	}
	return max(next.Sub(now), 0)
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (p *pace) written(key wire.Key, done bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b := p.byKey[key]; b != nil {
		b.wrote, b.changed = p.clock.Now(), time.Time{}
		if done {
			b.ended = b.order
		}
	}
}

func (p *pace) forget(key wire.Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.byKey, key)
}
