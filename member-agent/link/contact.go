package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// contact turns a stream of successes and failures into a few sentences: one when the hub goes, one when it is back,
// one every five minutes in between.
type contact struct {
	clock clock.PassiveClock
	log   logr.Logger

	mu    sync.Mutex
	lost  bool
	since time.Time
	said  time.Time

	refusal   string
	refusedAt time.Time
}

// repeatEvery is how often a trouble that goes on is named again: often enough for someone who looks at the last
// page of a log, rarely enough not to fill it.
const repeatEvery = 5 * time.Minute

func (c *contact) failed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	if !c.lost {
		c.lost, c.since, c.said = true, now, time.Time{}
	}
	if now.Sub(c.said) < repeatEvery {
		return
	}
	c.said = now
	c.log.Info(
		"The hub does not answer; what runs here goes on, and the agent keeps trying",
		"since",
		c.since.Format(time.RFC3339),
		"err",
		err.Error(),
	)
}

func (c *contact) worked() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost {
		c.log.Info("The hub answers again", "away", c.clock.Since(c.since).Round(time.Second).String())
	}
	c.lost = false
}

// refused tells of an answer that the agent cannot work with, each at most every five minutes.
func (c *contact) refused(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	if c.refusal == err.Error() && now.Sub(c.refusedAt) < repeatEvery {
		return
	}
	c.refusal, c.refusedAt = err.Error(), now
	c.log.Info(
		"The hub refuses what the agent needs; check that Flotilla's CustomResourceDefinitions are installed there and "+
			"what the agent's user may do; the agent keeps trying",
		"err",
		err.Error(),
	)
}

// heardOf sorts an error of a request to the hub: no answer, or an answer that is a refusal.
func (l *Link) heardOf(err error) {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		l.contact.refused(err)
		return
	}
	l.contact.failed(err)
}

// watchFailed hears of the ends of watches on the hub, though not of all: a refused connection is retried silently, and
// noticed by the Lease. Ends that belong to the life of a watch are no news.
func (l *Link) watchFailed(_ context.Context, _ *toolscache.Reflector, err error) {
	switch {
	case err == nil,
		errors.Is(err, io.EOF),
		errors.Is(err, context.Canceled),
		apierrors.IsResourceExpired(err),
		apierrors.IsGone(err):
	default:
		l.heardOf(err)
	}
}

// probe asks the hub for the own MemberCluster, to learn whether it answers while there is no Lease to renew.
func (l *Link) probe(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, leaseTimeout)
	defer cancel()
	err := l.client.Get(ctx, types.NamespacedName{Name: l.config.ClusterName}, &topology.MemberCluster{})
	switch {
	case err == nil, apierrors.IsNotFound(err):
		l.contact.worked()
	case !errors.Is(err, context.Canceled):
		l.heardOf(fmt.Errorf("read MemberCluster %s on the hub: %w", l.config.ClusterName, err))
	}
}
