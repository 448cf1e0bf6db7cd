// Package servertime owns the question "what time is it in the member?". The times in objects, as since when a pod is
// Ready, are those of the cluster. The clock of the agent's machine can be minutes off, or be set while the agent runs,
// and then pods would count as available before their minReadySeconds are over, or long after.
//
// The rule: time begins with the machine's clock, goes on by the monotonic one, and follows the Date of the API
// server's answers where it is more than 2 s off. Then it is set so that it is never ahead of the API server. Example:
// the machine is 3 min ahead, and the API server answers with Date 12:00:07: from that answer on it is 12:00:07.
// Setting the machine's clock changes nothing. The first answer sets it, whichever way. After that it is set back at
// once, and forward when all answers of 5 s ask for it: of several API servers it follows the slowest, and pods wait
// rather than count too early. An agent that began with a clock far behind would else take pods that are available for
// pods that are not, which are free to go.
//
// It is not for leases: while a machine is suspended no answer comes, and this clock stands still.
package servertime

import (
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
)

const (
	// tolerance is how far the two may be apart: answers take time, and Date is in seconds.
	tolerance = 2 * time.Second
	// patience is how long answers must say that the clock is behind.
	patience = 5 * time.Second
	// worthTelling is the difference that is logged.
	worthTelling = 10 * time.Second
)

// Clock tells the time of an API server. Timers and tickers are those of the machine. It is safe for concurrent use.
type Clock struct {
	clock.WithTicker
	begun time.Time
	log   logr.Logger

	mu sync.RWMutex
	// synced reports whether an answer has set the clock.
	synced bool
	// shift is added to the machine's clock; loggedShift is the last one that was logged.
	shift, loggedShift time.Duration
	// behindSince is when answers began to say that the clock is behind, as time since begun by the machine; 0: the last
	// one did not.
	behindSince time.Duration
}

// New returns a clock that goes by the machine's until an answer is heard.
func New(machine clock.WithTicker, log logr.Logger) *Clock {
	return &Clock{WithTicker: machine, begun: machine.Now(), log: log}
}

// Now returns the time.
func (c *Clock) Now() time.Time {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.begun.Add(c.WithTicker.Since(c.begun) + c.shift)
}

// Since returns how long ago that was.
func (c *Clock) Since(then time.Time) time.Duration { return c.Now().Sub(then) }

// Wrap makes the clock hear the answers to requests that go through a transport.
func (c *Clock) Wrap(next http.RoundTripper) http.RoundTripper {
	return &listener{next: next, clock: c}
}

type listener struct {
	next  http.RoundTripper
	clock *Clock
}

// RoundTrip sends the request, and hears of the time in the answer.
func (l *listener) RoundTrip(request *http.Request) (*http.Response, error) {
	sent := l.clock.Now()
	response, err := l.next.RoundTrip(request)
	if err == nil {
		if date, dateErr := http.ParseTime(response.Header.Get("Date")); dateErr == nil {
			l.clock.hear(date, sent, l.clock.Now())
		}
	}
	return response, err
}

// WrappedRoundTripper lets the client library reach the transport below, as it does to close connections.
func (l *listener) WrappedRoundTripper() http.RoundTripper { return l.next }

// hear takes the Date of an answer to a request that was sent and answered at these times of this clock.
func (c *Clock) hear(date, sent, answered time.Time) {
	ahead, behind := sent.Sub(date.Add(time.Second)) > tolerance, date.Sub(answered) > tolerance
	c.mu.Lock()
	defer c.mu.Unlock()
	first := !c.synced
	c.synced = true
	if !ahead && !(first && behind) {
		ran := c.WithTicker.Since(c.begun) + 1 // 0 is never
		switch {
		case !behind:
			c.behindSince = 0
			return
		case c.behindSince == 0:
			c.behindSince = ran
			return
		case ran-c.behindSince < patience:
			return
		}
	}
	c.behindSince = 0
	c.shift += date.Sub(answered)
	if (c.shift - c.loggedShift).Abs() > worthTelling {
		c.loggedShift = c.shift
		c.log.Info(
			"The clock of this machine and that of the member's API server are apart; the ages of pods are counted by the API "+
				"server's",
			"machineAhead",
			(-c.shift).Round(time.Second).String(),
		)
	}
}
