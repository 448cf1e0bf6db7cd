// Package contact tells since when the hub is in contact with its API server. A hub that was cut off knows nothing of the
// members' Leases: it has to listen again before it judges anyone.
package contact

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// every is the time between two questions to the API server, timeout ends one.
	every, timeout = 5 * time.Second, 4 * time.Second
	// gap is how long the last answer may be ago: longer, and the hub was cut off, or stood still. With the 10 s between two
	// renewals of a Lease it is less than the 40 s after which a member is NotReady.
	gap = 20 * time.Second
)

// Contact asks the API server for one small object every few seconds, past the cache. It is safe for concurrent use.
type Contact struct {
	reader client.Reader
	clock  clock.PassiveClock

	mu          sync.Mutex
	since, last time.Time
}

// New returns a contact that begins now. reader reads past the cache; clk must be monotonic.
func New(reader client.Reader, clk clock.PassiveClock) *Contact {
	now := clk.Now()
	return &Contact{reader: reader, clock: clk, since: now, last: now}
}

// Since returns since when the API server has answered without a gap; now if it does not answer.
func (c *Contact) Since() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.clock.Now(); now.Sub(c.last) > gap {
		return now
	}
	return c.since
}

// Start asks until ctx ends.
func (c *Contact) Start(ctx context.Context) error {
	wait.UntilWithContext(ctx, c.ask, every)
	return nil
}

// ask asks once. Any answer of the server will do, also that it is busy or that this may not be read: what counts is that it was
// heard. One that says that it cannot answer is none.
func (c *Contact) ask(ctx context.Context) {
	asked, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := c.reader.Get(asked, types.NamespacedName{Name: metav1.NamespaceSystem}, &corev1.Namespace{})
	var status apierrors.APIStatus
	if err != nil && (!errors.As(err, &status) || status.Status().Code >= http.StatusInternalServerError) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	if now.Sub(c.last) > gap {
		c.since = now
	}
	c.last = now
}
