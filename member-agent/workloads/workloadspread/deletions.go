package workloadspread

import (
	"sync"
	"time"
)

// deletesPerSecond bounds the deletions of pods that wait in vain, of all WorkloadSpreads together, and is also how
// many may come at once. Each costs a deletion, a creation and a scheduling; a hundred a second is a third of what one
// scheduler does, so that a full zone does not hold up other pods.
const deletesPerSecond = 100

// deletions hands out permissions to delete. The zero value has all of one second.
type deletions struct {
	mu   sync.Mutex
	used float64 // permissions that time has not brought back yet
	at   time.Time
}

// take returns how many of n deletions may be made now.
func (p *deletions) take(n int, now time.Time) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if passed := now.Sub(p.at); passed > 0 {
		p.used, p.at = max(0, p.used-passed.Seconds()*deletesPerSecond), now
	}
	n = min(n, int(deletesPerSecond-p.used))
	p.used += float64(n)
	return n
}
