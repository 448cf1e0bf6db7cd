package contact

import (
	"sync"
	"time"
)

// News remembers when members were heard last, by the hub's clock. It is safe for concurrent use; a nil one remembers
// nothing.
type News struct {
	mu   sync.Mutex
	last map[string]time.Time
}

// NewNews returns a memory that has heard of nobody.
func NewNews() *News { return &News{last: map[string]time.Time{}} }

// Hear records that a member was heard at a time.
func (n *News) Hear(member string, at time.Time) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if at.After(n.last[member]) {
		n.last[member] = at
	}
}

// Of returns when a member was heard last, zero for never.
func (n *News) Of(member string) time.Time {
	if n == nil {
		return time.Time{}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.last[member]
}

// Forget forgets a member.
func (n *News) Forget(member string) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.last, member)
}
