package report

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/apply"
)

const (
	// every is the least time between two reports of one Work: a slow start-up of many pods costs one write per second.
	every = time.Second
	// firstWait is how long the first report of a new order waits for the member's controller to see the object and to
	// make or remove pods: mostly that takes some tens of milliseconds, on a busy member a quarter of a second (its
	// controller holds a status as long for its own pods to be seen), and then one report says it all.
	firstWait = 300 * time.Millisecond
	// soon is the least time between two reports where the hub waits for the second one: short beside what an order takes
	// to be written, delivered and applied, and long enough that what comes at once leaves as one.
	soon = 100 * time.Millisecond
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
	// awaited: the report says what the hub waits for before it orders anew, which it says once for each order.
	awaited bool
}

// pause returns how long a report has to wait; 0 means that it leaves now.
func pause(m moment) time.Duration {
	wait := time.Duration(0)
	if !m.sent.IsZero() {
		least := every
		if m.awaited {
			least = soon
		}
		wait = m.sent.Add(least).Sub(m.now)
	}
	if m.fresh && !m.settled {
		wait = max(wait, m.since.Add(firstWait).Sub(m.now))
	}
	return max(0, wait)
}

// awaits reports whether the hub waits for what next says and last did not: that an order is followed, since what that
// lowered is granted to others then, or that all is done that the order asked for, since others get what is not used
// any more. Whether that was said of the order before, finished tells: a pod that comes and goes is no news that
// anybody waits for.
func awaits(last, next work.WorkStatus, finished int64) bool {
	if last.Report == nil || next.Report == nil {
		return false
	}
	return next.Report.Sequence > last.Report.Sequence || next.Report.Sequence > finished && healthy(next) &&
		!healthy(last)
}

// healthy reports whether all is done that the order of a report asked for.
func healthy(s work.WorkStatus) bool {
	return len(s.ManifestStatuses) > 0 && s.ManifestStatuses[0].Health == work.ResourceHealthy
}

// settled reports whether the object is as the order asks, and all of its pods are.
func (k Kinds) settled(live *unstructured.Unstructured, outcome apply.Outcome, status work.WorkStatus) bool {
	return live != nil && apply.CarriedOut(live) >= outcome.Sequence && k.Observed(live) && complete(status.Report)
}
