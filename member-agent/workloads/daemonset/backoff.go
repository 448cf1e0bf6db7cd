package daemonset

import "time"

// How long a node waits for the replacement of a pod that failed: twice as long after each failure.
const (
	firstRetry = time.Second
	lastRetry  = 15 * time.Minute
)

// backoff knows how long nodes wait. Restarts of the agent forget it, as those of Kubernetes' own controller do.
type backoff map[string]wait

// wait is how long a node waits since its last failed pod was deleted.
type wait struct {
	since time.Time
	long  time.Duration
}

// left returns how long the node still waits.
func (b backoff) left(node string, now time.Time) time.Duration {
	w := b[node]
	return max(0, w.since.Add(w.long).Sub(now))
}

// failed notes that a failed pod of the node is deleted. Nodes on which no pod failed for long are forgotten.
func (b *backoff) failed(node string, now time.Time) {
	if *b == nil {
		*b = backoff{}
	}
	for name, w := range *b {
		if now.Sub(w.since) > 2*lastRetry {
			delete(*b, name)
		}
	}
	long := firstRetry
	if before, ok := (*b)[node]; ok {
		long = min(2*before.long, lastRetry)
	}
	(*b)[node] = wait{since: now, long: long}
}
