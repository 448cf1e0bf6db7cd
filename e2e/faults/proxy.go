package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// openWatch is a watch of the child.
type openWatch struct {
	path string
	cut  context.CancelFunc
}

// fault is a kind of bad answer.
type fault string

// The faults.
const (
	noFault      fault = ""
	conflict     fault = "409 conflict"
	tooMany      fault = "429 with Retry-After"
	internal     fault = "500"
	unavailable  fault = "503"
	lost         fault = "answer lost after the write"
	slow         fault = "slow answer"
	slowRequest  fault = "slow request"
	watchCut     fault = "watch cut"
	watchRefused fault = "watch refused"
	outage       fault = "outage"
	outageAnswer fault = "request in an outage"
)

// slowest is the longest that the proxy holds a request or an answer back.
const slowest = 1500 * time.Millisecond

// chances of the faults of one request, in a thousand. Writes get the rest of them unharmed, about four of five.
const (
	chanceConflict    = 40
	chanceTooMany     = 15
	chanceInternal    = 35
	chanceUnavailable = 30
	chanceLost        = 50
	chanceSlow        = 30
)

// proxy stands between the child and the API server.
type proxy struct {
	server    *url.URL
	transport http.RoundTripper
	delivered *deliveries
	asked     *asks

	mu      sync.Mutex
	draw    *rand.Rand
	on      bool
	faults  map[fault]int
	watches map[int]openWatch
	next    int
	// refused and out are until when watches or all requests are refused.
	refused, out time.Time
	underway     int
	writes       int
	last         time.Time // of a write
	lastWrite    string
	// idle is the longest pause before a write since the faults ended.
	idle time.Duration
	// busy is closed when a write begins, and replaced.
	busy chan struct{}
}

// newProxy returns a proxy to the API server of config that makes no faults yet.
func newProxy(config *rest.Config, seed uint64, delivered *deliveries) (*proxy, error) {
	server, err := url.Parse(config.Host)
	if err != nil {
		return nil, fmt.Errorf("address of the API server: %w", err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	return &proxy{
		server: server, transport: transport, delivered: delivered, asked: newAsks(), draw: rand.New(rand.NewPCG(seed, 1)),
		faults: map[fault]int{}, watches: map[int]openWatch{}, busy: make(chan struct{}),
	}, nil
}

// serve listens on loopback until ctx ends and returns the address for the child.
func (p *proxy) serve(ctx context.Context) (string, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("listen for the child: %w", err)
	}
	server := &http.Server{Handler: p, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() { _ = server.Serve(listener) }()
	return "http://" + listener.Addr().String(), nil
}

// faulty turns the faults on or off. Off ends those that last, too.
func (p *proxy) faulty(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.on = on
	p.refused, p.out = time.Time{}, time.Time{}
	p.last, p.idle = time.Now(), 0
}

// cutWatches ends every watch, and refuses new ones for a while.
func (p *proxy) cutWatches(refuse time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused = time.Now().Add(refuse)
	p.faults[watchCut] += len(p.watches)
	for _, w := range p.watches {
		w.cut()
	}
}

// goOut ends every watch and refuses everything for a while.
func (p *proxy) goOut(length time.Duration) {
	p.cutWatches(0)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out = time.Now().Add(length)
	p.faults[outage]++
}

// made returns the number of faults by kind.
func (p *proxy) made() map[fault]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.faults)
}

// wrote returns how many writes were carried out, when the last one was, and which.
func (p *proxy) wrote() (int, time.Time, string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.writes, p.last, p.lastWrite
}

// paused returns the longest pause before a write since the faults ended: while a queue backs off, nothing is written.
func (p *proxy) paused() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.idle
}

// writing returns when a write of the child is under way, or ctx ends.
func (p *proxy) writing(ctx context.Context) {
	p.mu.Lock()
	busy, underway := p.busy, p.underway
	p.mu.Unlock()
	if underway > 0 {
		return
	}
	select {
	case <-busy:
	case <-ctx.Done():
	}
}

// choose draws what happens to a request.
func (p *proxy) choose(r *http.Request, watch bool) (fault, time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	kind, delay := noFault, time.Duration(0)
	switch {
	case !p.on:
	case now.Before(p.out):
		kind = outageAnswer
	case watch && now.Before(p.refused):
		kind = watchRefused
	case !watch:
		kind = p.pick(r.Method)
		delay = time.Duration(p.draw.Int64N(int64(slowest)))
	}
	if kind != noFault {
		p.faults[kind]++
	}
	return kind, delay
}

func (p *proxy) pick(method string) fault {
	write := method != http.MethodGet
	n := p.draw.IntN(1000)
	for _, c := range []struct {
		kind   fault
		chance int
		may    bool
	}{
		// A create of a name of its own cannot conflict.
		{conflict, chanceConflict, write && method != http.MethodPost},
		{tooMany, chanceTooMany, true},
		{internal, chanceInternal, true},
		{unavailable, chanceUnavailable, true},
		{lost, chanceLost, write},
		{slow, chanceSlow, true},
		{slowRequest, chanceSlow, true},
	} {
		if n -= c.chance; n < 0 {
			if c.may {
				return c.kind
			}
			return noFault
		}
	}
	return noFault
}

// ServeHTTP answers one request of the child.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	watch := r.URL.Query().Get("watch") == "true" || r.URL.Query().Get("watch") == "1"
	if r.Method != http.MethodGet {
		p.began()
		defer p.ended()
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	kind, delay := p.choose(r, watch)
	if pod := disrupts(r, body); pod != "" {
		p.asked.add(pod, time.Now(), kind == tooMany)
	}
	switch kind {
	case outageAnswer:
		panic(http.ErrAbortHandler) // cuts the connection
	case conflict:
		refuse(w, http.StatusConflict, metav1.StatusReasonConflict)
	case tooMany:
		w.Header().Set("Retry-After", "1")
		refuse(w, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests)
	case internal:
		refuse(w, http.StatusInternalServerError, metav1.StatusReasonInternalError)
	case unavailable, watchRefused:
		refuse(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)
	default:
		p.forward(w, r, body, watch, kind, delay)
	}
}

func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{ // the child may be dead
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: "a fault of the test",
	})
}

func (p *proxy) began() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.underway++
	close(p.busy)
	p.busy = make(chan struct{})
}

func (p *proxy) ended() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.underway--
}

// forward sends the request on, and the answer back. A request whose sender was killed before it was sent on is
// dropped.
func (p *proxy) forward(w http.ResponseWriter, r *http.Request, body []byte, watch bool, kind fault,
	delay time.Duration) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	if kind == slowRequest && !pause(ctx, delay) {
		panic(http.ErrAbortHandler)
	}
	out := r.Clone(ctx)
	out.RequestURI, out.Body, out.ContentLength = "", io.NopCloser(bytes.NewReader(body)), int64(len(body))
	out.URL.Scheme, out.URL.Host, out.Host = p.server.Scheme, p.server.Host, p.server.Host
	out.Header.Del("Accept-Encoding") // the proxy reads what it passes on
	answer, err := p.transport.RoundTrip(out)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer answer.Body.Close()
	if watch && answer.StatusCode == http.StatusOK {
		defer p.register(openWatch{r.URL.Path, cancel})()
		p.stream(w, r, answer)
		return
	}
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	p.note(r, answer.StatusCode, data)
	if kind == lost || (kind == slow && !pause(ctx, delay)) {
		panic(http.ErrAbortHandler)
	}
	head(w, answer)
	_, _ = w.Write(data) // the child may be dead
}

func head(w http.ResponseWriter, answer *http.Response) {
	maps.Copy(w.Header(), answer.Header)
	w.Header().Del("Content-Length")
	w.WriteHeader(answer.StatusCode)
}

// pause returns false if ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

func (p *proxy) register(w openWatch) (done func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.next
	p.next++
	p.watches[n] = w
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.watches, n)
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

// watched returns the paths that the child watches now.
func (p *proxy) watched() map[string]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	paths := map[string]bool{}
	for _, w := range p.watches {
		paths[w.path] = true
	}
	return paths
}

func isPods(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/pods") }

// seen is the part of an answer or of an event of a watch that the proxy reads.
type seen struct {
	Metadata struct {
		ResourceVersion string            `json:"resourceVersion"`
		Annotations     map[string]string `json:"annotations"`
	} `json:"metadata"`
}

// note records a write, or that the child got a list of pods.
func (p *proxy) note(r *http.Request, code int, data []byte) {
	if r.Method != http.MethodGet {
		// Events tell of what has been done; their recorder keeps them while requests fail, and sends them in its own time.
		if code < http.StatusBadRequest && !strings.Contains(r.URL.Path, "/events") {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.writes++
			p.idle = max(p.idle, time.Since(p.last))
			p.last, p.lastWrite = time.Now(), r.Method+" "+r.URL.Path
		}
		return
	}
	var list seen
	if isPods(r) && code == http.StatusOK && json.Unmarshal(data, &list) == nil {
		p.deliver(list)
	}
}

func (p *proxy) deliver(s seen) {
	if version, err := strconv.ParseUint(s.Metadata.ResourceVersion, 10, 64); err == nil {
		p.delivered.add(version, time.Now())
	}
}

// stream passes on a watch, event by event.
func (p *proxy) stream(w http.ResponseWriter, r *http.Request, answer *http.Response) {
	head(w, answer)
	out := http.NewResponseController(w)
	_ = out.Flush()
	// The events of a list by watch come in no order of versions; its end is marked.
	complete := r.URL.Query().Get("sendInitialEvents") != "true"
	for in := bufio.NewReader(answer.Body); ; {
		line, err := in.ReadBytes('\n')
		if err != nil {
			panic(http.ErrAbortHandler) // as a network does, without an end mark
		}
		if _, err := w.Write(line); err != nil || out.Flush() != nil {
			return
		}
		var event struct {
			Object seen `json:"object"`
		}
		if !isPods(r) || json.Unmarshal(line, &event) != nil {
			continue
		}
		if event.Object.Metadata.Annotations[metav1.InitialEventsAnnotationKey] == "true" {
			complete = true
		}
		if complete {
			p.deliver(event.Object)
		}
	}
}
