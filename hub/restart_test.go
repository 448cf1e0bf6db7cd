package hub_test

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// held keeps the hub's reads of one resource waiting.
type held struct {
	mu       sync.Mutex
	resource string
	waiting  int
	release  chan struct{}
}

// hold keeps reads of a resource waiting until the function that it returns is called.
func (h *held) hold(resource string) func() {
	h.mu.Lock()
	defer h.mu.Unlock()
	release := make(chan struct{})
	h.resource, h.waiting, h.release = resource, 0, release
	return sync.OnceFunc(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.resource = ""
		close(release)
	})
}

func (h *held) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waiting
}

func (h *held) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		h.mu.Lock()
		wait := h.resource != "" && r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/"+h.resource)
		release := h.release
		if wait {
			h.waiting++
		}
		h.mu.Unlock()
		if wait {
			select {
			case <-release:
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
		}
		return next.RoundTrip(r)
	})
}

// TestRestartedHubKnowsAllBeforeItWrites starts a hub again whose API server is slow to tell of one kind: what it does
// not know of yet, it neither makes nor removes.
func TestRestartedHubKnowsAllBeforeItWrites(t *testing.T) {
	t.Parallel() // most of its time is waiting
	f := newFleet(t, threeMembers)
	f.policy("all")
	f.configMap("settings", "one")
	cs := f.cloneSet("web", 6)
	f.patchObject(cs, `{"spec":{"template":{"spec":{"volumes":[{"name":"settings","configMap":{"name":"settings"}}]}}}}`)
	f.in("ConfigMap", "settings", "east south west")
	f.cloneSetIs("web", "Ready", ready)
	f.rest()
	for _, slow := range []string{"works", "workloadplacements", "memberclusters"} {
		f.stopHub()
		release := f.held.hold(slow)
		t.Cleanup(release)
		f.startHub()
		f.eventually("the hub asks for "+slow, func() error {
			if f.held.count() == 0 {
				return errors.New("it does not")
			}
			return nil
		})
		early, _ := f.about(f.quiet())
		release()
		late, _ := f.about(f.quiet())
		if len(early)+len(late) > 0 {
			t.Errorf("%s come late: the hub wrote %v, then %v", slow, early, late)
		}
	}
}
