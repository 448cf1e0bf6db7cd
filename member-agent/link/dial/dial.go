// Package dial says how the programs dial API servers.
package dial

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
)

const (
	// again is the time between two attempts to begin a watch, jittered to twice that, so that the programs of a fleet do
	// not all come at once. An attempt that finds nobody costs the server nothing.
	again  = 500 * time.Millisecond
	jitter = 1.0
)

// Watchful makes watches of the configuration come back within a second or so after an outage of the API server: the
// request for a watch that cannot be dialled is made again until it can. Without this the informers pause longer after
// each attempt, up to a minute, and for that long a server that is back is answered by caches of before. Other
// requests, and answers of a server that is there, are left alone. It returns the configuration.
func Watchful(c *rest.Config) *rest.Config {
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return &watchful{next: next} })
	return c
}

type watchful struct{ next http.RoundTripper }

// RoundTrip sends the request; a watch until it could be dialled or its context ends.
func (w *watchful) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := w.next.RoundTrip(request)
	if request.Method != http.MethodGet || !isWatch(request) {
		return response, err
	}
	for err != nil && notDialled(err) {
		if !pause(request.Context()) {
			return nil, err
		}
		response, err = w.next.RoundTrip(request)
	}
	return response, err
}

// WrappedRoundTripper lets the client library reach the transport below, as it does to close connections.
func (w *watchful) WrappedRoundTripper() http.RoundTripper { return w.next }

func isWatch(request *http.Request) bool {
	value := request.URL.Query().Get("watch")
	return value == "true" || value == "1"
}

func notDialled(err error) bool {
	var operation *net.OpError
	return errors.As(err, &operation) && operation.Op == "dial"
}

// pause waits, and returns false when the context ended first.
func pause(ctx context.Context) bool {
	timer := time.NewTimer(wait.Jitter(again, jitter))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
