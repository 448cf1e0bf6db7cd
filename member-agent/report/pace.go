package report

import "time"

const (
	// every is the least time between two reports of one Work: a slow start-up of many pods costs one write per second.
	every = time.Second
	// firstWait is how long the first report of a new order waits for the member's controller to see the object and to make
	// or remove pods: mostly that takes some tens of milliseconds, on a busy member a quarter of a second (its controller
	// holds a status as long for its own pods to be seen), and then one report says it all.
	firstWait = 300 * time.Millisecond
)

// moment is what the time of a report depends on.
type moment struct {
	now time.Time
	// sent is when the last report of this Work left, zero if none did.
	sent time.Time
	// fresh: no report has answered this order yet. Its first outcome was at since.
	fresh bool
	since time.Time
	// settled: the member's controller has seen the object as ordered, and there are as many pods as ordered.
	settled bool
}

// pause returns how long a report has to wait; 0 means that it leaves now.
func pause(m moment) time.Duration {
	wait := time.Duration(0)
	if !m.sent.IsZero() {
		wait = m.sent.Add(every).Sub(m.now)
	}
	if m.fresh && !m.settled {
		wait = max(wait, m.since.Add(firstWait).Sub(m.now))
	}
	return max(0, wait)
}
