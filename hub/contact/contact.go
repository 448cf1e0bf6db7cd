package contact

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// every is the time between two questions to the API server, timeout ends one.
	every, timeout = 5 * time.Second, 4 * time.Second
	// gap is how long the last answer may be ago: longer, and the hub was cut off, or stood still. With the 10 s between
	// two renewals of a Lease it is less than the 40 s after which a member is NotReady.
	gap = 20 * time.Second
)

// errRestored ends the hub. What it has cached is of a time that the API server does not know any more, and its
// watches, which begin after that time, tell nothing until the API server has come as far again. Started anew it lists
// all.
var errRestored = errors.New(
	"the API server stores an older state than before, as after a restore from a backup; the hub ends, to begin anew " +
		"with what stands there now",
)

// Contact asks the API server for a small list every few seconds, past the cache. It is safe for concurrent use.
type Contact struct {
	reader client.Reader
	clock  clock.PassiveClock
	// version is that of the API server's storage at the last answer.
	version string

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

// Start asks until ctx ends, or until the API server was put back to an older state: then its error ends the hub.
func (c *Contact) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if restored := c.ask(ctx); restored {
			cancel(errRestored)
		}
	}, every)
	if cause := context.Cause(ctx); errors.Is(cause, errRestored) {
		return cause
	}
	return nil
}

// ask asks once, and tells whether the API server was put back to an older state. Any answer of the server will do,
// also that it is busy or that this may not be read: what counts is that it was heard. One that says that it cannot
// answer is none.
func (c *Contact) ask(ctx context.Context) (restored bool) {
	asked, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	list := &corev1.NamespaceList{}
	err := c.reader.List(asked, list, client.Limit(1)) // its version is that of all that is stored
	var status apierrors.APIStatus
	if err != nil && (!errors.As(err, &status) || status.Status().Code >= http.StatusInternalServerError) {
		return false
	}
	if err == nil {
		back, err := resourceversion.CompareResourceVersion(list.ResourceVersion, c.version)
		restored, c.version = err == nil && back < 0, list.ResourceVersion
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	if now.Sub(c.last) > gap {
		c.since = now
	}
	c.last = now
	return restored
}
