package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/e2e/faultproxy"
)

// chances of the faults of one request. Writes get the rest of them unharmed, about four of five.
func chances() []faultproxy.Chance {
	return []faultproxy.Chance{
		{Fault: faultproxy.Conflict, PerMille: 40},
		{Fault: faultproxy.TooMany, PerMille: 15},
		{Fault: faultproxy.Internal, PerMille: 35},
		{Fault: faultproxy.Unavailable, PerMille: 30},
		{Fault: faultproxy.LostAnswer, PerMille: 50},
		{Fault: faultproxy.SlowAnswer, PerMille: 30},
		{Fault: faultproxy.SlowRequest, PerMille: 30},
	}
}

// traffic is what passed between the child and the API server.
type traffic struct {
	delivered *deliveries
	asked     *asks

	mu        sync.Mutex
	underway  int
	writes    int
	last      time.Time // of a write
	lastWrite string
	// idle is the longest pause before a write since the faults ended.
	idle time.Duration
	// busy is closed when a write begins, and replaced.
	busy chan struct{}
	// complete are the watches whose first events, which come in no order of versions, have all been delivered.
	complete map[*http.Request]bool
}

func newTraffic() *traffic {
	return &traffic{delivered: &deliveries{}, asked: newAsks(), busy: make(chan struct{}),
		complete: map[*http.Request]bool{}}
}

// observer lets a proxy report to the traffic.
func (t *traffic) observer() faultproxy.Observer {
	return faultproxy.Observer{Request: t.request, Answer: t.answer, Event: t.event}
}

// restart begins to measure pauses anew.
func (t *traffic) restart() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last, t.idle = time.Now(), 0
}

// wrote returns how many writes were carried out, when the last one was, and which.
func (t *traffic) wrote() (int, time.Time, string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.writes, t.last, t.lastWrite
}

// paused returns the longest pause before a write since the faults ended: while a queue backs off, nothing is written.
func (t *traffic) paused() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.idle
}

// writing returns when a write of the child is under way, or ctx ends.
func (t *traffic) writing(ctx context.Context) {
	t.mu.Lock()
	busy, underway := t.busy, t.underway
	t.mu.Unlock()
	if underway > 0 {
		return
	}
	select {
	case <-busy:
	case <-ctx.Done():
	}
}

func (t *traffic) request(r *http.Request, body []byte, fault faultproxy.Fault) (done func()) {
	if pod := disrupts(r, body); pod != "" {
		t.asked.add(pod, time.Now(), fault == faultproxy.TooMany)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.Method == http.MethodGet {
		return func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			delete(t.complete, r)
		}
	}
	t.underway++
	close(t.busy)
	t.busy = make(chan struct{})
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.underway--
	}
}

// disrupts returns the pod that the request may make unavailable, or "".
func disrupts(r *http.Request, body []byte) string {
	_, rest, isPod := strings.Cut(r.URL.Path, "/pods/")
	pod, _, _ := strings.Cut(rest, "/")
	// A gate that is shut gets the status False. An update of the spec follows it.
	if isPod && (r.Method == http.MethodDelete || (r.Method == http.MethodPatch &&
		bytes.Contains(body, []byte(`"False"`)))) {
		return pod
	}
	return ""
}

func isPods(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/pods") }

// seen is the part of an answer or of an event of a watch that counts here.
type seen struct {
	Metadata struct {
		ResourceVersion string            `json:"resourceVersion"`
		Annotations     map[string]string `json:"annotations"`
	} `json:"metadata"`
}

// answer records a write, or that the child gets a list of pods.
func (t *traffic) answer(r *http.Request, code int, data []byte) {
	if r.Method != http.MethodGet {
		// Events tell of what has been done; their recorder keeps them while requests fail, and sends them in its own time.
		if code < http.StatusBadRequest && !strings.Contains(r.URL.Path, "/events") {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.writes++
			t.idle = max(t.idle, time.Since(t.last))
			t.last, t.lastWrite = time.Now(), r.Method+" "+r.URL.Path
		}
		return
	}
	var list seen
	if isPods(r) && code == http.StatusOK && json.Unmarshal(data, &list) == nil {
		t.deliver(list)
	}
}

func (t *traffic) deliver(s seen) {
	if version, err := strconv.ParseUint(s.Metadata.ResourceVersion, 10, 64); err == nil {
		t.delivered.add(version, time.Now())
	}
}

// event records what a watch of pods delivered. The events of a list by watch come in no order of versions; its end is
// marked.
func (t *traffic) event(r *http.Request, line []byte) {
	var event struct {
		Object seen `json:"object"`
	}
	if !isPods(r) || json.Unmarshal(line, &event) != nil {
		return
	}
	t.mu.Lock()
	complete := t.complete[r] || r.URL.Query().Get("sendInitialEvents") != "true" ||
		event.Object.Metadata.Annotations[metav1.InitialEventsAnnotationKey] == "true"
	t.complete[r] = complete
	t.mu.Unlock()
	if complete {
		t.deliver(event.Object)
	}
}

// pause waits, and returns false if ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
