package dial_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/flotilla-dev/flotilla/member-agent/link/dial"
)

// transport fails as often as there are errors, then answers.
type transport struct {
	errs  []error
	calls int
}

func (t *transport) RoundTrip(*http.Request) (*http.Response, error) {
	t.calls++
	if t.calls <= len(t.errs) {
		return nil, t.errs[t.calls-1]
	}
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

func TestWatchful(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	broken := &net.OpError{Op: "read", Err: errors.New("connection reset")}
	tests := []struct {
		name, method, path string
		errs               []error
		calls              int
		answered           bool
	}{
		{"a watch is begun again until somebody answers the dial", http.MethodGet, "/api/v1/pods?watch=true",
			[]error{refused, refused}, 3, true},
		{"a watch on a connection that broke is the caller's", http.MethodGet, "/api/v1/pods?watch=1", []error{broken}, 1,
			false},
		{"a list fails at once", http.MethodGet, "/api/v1/pods", []error{refused}, 1, false},
		{"a write fails at once", http.MethodPost, "/api/v1/pods?watch=true", []error{refused}, 1, false},
		{"an answer is an answer", http.MethodGet, "/api/v1/pods?watch=true", nil, 1, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			below := &transport{errs: tt.errs}
			above := wrapped(below)
			request, err := http.NewRequestWithContext(t.Context(), tt.method, "https://127.0.0.1"+tt.path, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			response, err := above.RoundTrip(request)
			if response != nil {
				response.Body.Close()
			}
			if (err == nil) != tt.answered || below.calls != tt.calls {
				t.Errorf("error %v after %d attempts, want answered %t after %d", err, below.calls, tt.answered, tt.calls)
			}
		})
	}
}

func TestWatchfulEndsWithItsContext(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://127.0.0.1/api/v1/pods?watch=true",
		http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := wrapped(&transport{errs: []error{refused, refused, refused}}).RoundTrip(request)
	if response != nil {
		response.Body.Close()
	}
	if !errors.Is(err, refused) {
		t.Errorf("error %v, want that of the dial", err)
	}
}

func wrapped(below http.RoundTripper) http.RoundTripper {
	return dial.Watchful(&rest.Config{}).WrapTransport(below)
}
