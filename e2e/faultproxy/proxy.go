package faultproxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// Options are what a proxy does beside passing on.
type Options struct {
	Seed uint64
	// Chances are those of single requests while faults are on.
	Chances  []Chance
	Observer Observer
}

// Observer sees what passes. Its functions may be nil, and are called from many goroutines.
type Observer struct {
	// Request is called when a request has come; what it returns, when the request has been answered or dropped.
	Request func(r *http.Request, body []byte, fault Fault) (done func())
	// Answer is called with what the API server answered to a request other than a watch, before the client has it.
	Answer func(r *http.Request, code int, body []byte)
	// Event is called with a line of a watch in JSON, after the client has it.
	Event func(r *http.Request, line []byte)
}

// Proxy passes the requests of one program on to one API server.
type Proxy struct {
	// Name is for messages.
	Name     string
	options  Options
	reverse  httputil.ReverseProxy
	server   *http.Server
	listener net.Listener

	mu      sync.Mutex
	draw    *rand.Rand
	conns   map[net.Conn]bool
	watches map[*openWatch]bool
	made    map[Fault]int
	cut, on bool
	lag     time.Duration
	// refused and out are until when watches or all requests are refused.
	refused, out time.Time
}

// openWatch is a watch that the API server serves.
type openWatch struct {
	path string
	end  context.CancelFunc
}

// New returns a proxy to the API server of config, which serves on loopback until Close and makes no faults yet.
func New(ctx context.Context, name string, config *rest.Config, options Options) (*Proxy, error) {
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect %s: %w", name, err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, fmt.Errorf("read the address for %s: %w", name, err)
	}
	p := &Proxy{
		Name: name, options: options, draw: rand.New(rand.NewPCG(options.Seed, 1)),
		conns: map[net.Conn]bool{}, watches: map[*openWatch]bool{}, made: map[Fault]int{},
	}
	p.reverse = httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			if options.Observer.Answer != nil {
				r.Out.Header.Del("Accept-Encoding") // the observer reads answers
			}
		},
		ErrorLog: log.New(io.Discard, "", 0), // connections break all the time here
		// An API server that is away closes the connection, and does not answer.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	if p.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("listen for %s: %w", name, err)
	}
	p.server = &http.Server{Handler: p, ReadHeaderTimeout: 10 * time.Second, ConnState: p.track}
	go func() { _ = p.server.Serve(p.listener) }() // it ends with Close
	return p, nil
}

// URL is the address for the client.
func (p *Proxy) URL() string { return "http://" + p.listener.Addr().String() }

// Close ends all connections.
func (p *Proxy) Close() error { return p.server.Close() }

func (p *Proxy) track(conn net.Conn, state http.ConnState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch state {
	case http.StateNew:
		p.conns[conn] = true
	case http.StateClosed, http.StateHijacked:
		delete(p.conns, conn)
	case http.StateActive, http.StateIdle:
	}
}

// SetCut ends every connection and lets none through, until it is taken back.
func (p *Proxy) SetCut(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut
	if !cut {
		return
	}
	for conn := range p.conns {
		_ = conn.Close() // it is being cut
	}
}

// SetLag delays what watches deliver.
func (p *Proxy) SetLag(lag time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lag = lag
}

// SetFaulty turns the faults of single requests on or off. Off ends outages and refused watches, too.
func (p *Proxy) SetFaulty(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.on = on
	if !on {
		p.refused, p.out = time.Time{}, time.Time{}
	}
}

// CutWatches ends every watch, and refuses new ones for a time.
func (p *Proxy) CutWatches(refuse time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused = time.Now().Add(refuse)
	p.made[WatchCut] += len(p.watches)
	for w := range p.watches {
		w.end()
	}
}

// BeginOutage ends every watch and refuses everything for a time.
func (p *Proxy) BeginOutage(length time.Duration) {
	p.CutWatches(0)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out = time.Now().Add(length)
	p.made[Outage]++
}

// Made returns the number of faults by kind.
func (p *Proxy) Made() map[Fault]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.made)
}

// Watched returns the paths that the client watches now.
func (p *Proxy) Watched() map[string]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	paths := map[string]bool{}
	for w := range p.watches {
		paths[w.path] = true
	}
	return paths
}

// choose draws what happens to a request.
func (p *Proxy) choose(method string, watch bool) (fault Fault, delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	switch {
	case p.cut:
		fault = RequestWhileCut
	case now.Before(p.out):
		fault = RequestInOutage
	case watch && now.Before(p.refused):
		fault = WatchRefused
	case p.on && !watch:
		fault, delay = p.pick(method), time.Duration(p.draw.Int64N(int64(slowest)))
	}
	if fault != None {
		p.made[fault]++
	}
	return fault, delay
}

func (p *Proxy) pick(method string) Fault {
	n := p.draw.IntN(1000)
	for _, c := range p.options.Chances {
		if n -= c.PerMille; n < 0 {
			if c.Fault.possible(method) {
				return c.Fault
			}
			return None
		}
	}
	return None
}

// ServeHTTP passes a request on, or makes a fault of it.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	watch := r.URL.Query().Get("watch") == "true" || r.URL.Query().Get("watch") == "1"
	fault, delay := p.choose(r.Method, watch)
	if observe := p.options.Observer.Request; observe != nil {
		defer observe(r, body, fault)()
	}
	if code, reason := fault.refusal(); code != 0 {
		refuse(w, code, reason)
		return
	}
	// A request whose sender ended before it is passed on is dropped.
	if fault == RequestWhileCut || fault == RequestInOutage || fault == SlowRequest && !pause(r.Context(), delay) {
		panic(http.ErrAbortHandler)
	}
	if watch {
		p.passWatch(w, r)
		return
	}
	reverse := p.reverse
	reverse.ModifyResponse = func(answer *http.Response) error { return p.passAnswer(r, answer, fault, delay) }
	reverse.ServeHTTP(w, r)
}

// passAnswer observes an answer, loses it or delays it.
func (p *Proxy) passAnswer(r *http.Request, answer *http.Response, fault Fault, delay time.Duration) error {
	observe := p.options.Observer.Answer
	if observe == nil && fault != LostAnswer && fault != SlowAnswer {
		return nil
	}
	data, err := io.ReadAll(answer.Body)
	_ = answer.Body.Close() // it has been read
	if err != nil {
		return err
	}
	answer.Body = io.NopCloser(bytes.NewReader(data))
	if observe != nil {
		observe(r, answer.StatusCode, data)
	}
	if fault == LostAnswer || fault == SlowAnswer && !pause(r.Context(), delay) {
		return errLost
	}
	return nil
}

var errLost = errors.New("the answer is lost on purpose")

// passWatch passes a watch on until either side, or a fault, ends it.
func (p *Proxy) passWatch(w http.ResponseWriter, r *http.Request) {
	ctx, end := context.WithCancel(r.Context())
	defer end()
	one := &openWatch{path: r.URL.Path, end: end}
	defer p.setOpen(one, false)
	reverse := p.reverse
	reverse.ModifyResponse = func(answer *http.Response) error {
		if answer.StatusCode == http.StatusOK {
			p.setOpen(one, true)
		}
		return nil
	}
	out := w
	if observe := p.options.Observer.Event; observe != nil {
		out = &lineWriter{ResponseWriter: w, line: func(line []byte) { observe(r, line) }}
	}
	late := &lateWriter{ResponseWriter: out, proxy: p}
	defer late.end()
	reverse.ServeHTTP(late, r.WithContext(ctx))
}

func (p *Proxy) setOpen(w *openWatch, open bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if open {
		p.watches[w] = true
	} else {
		delete(p.watches, w)
	}
}

// pause waits, and returns false when the context ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return ctx.Err() == nil
	}
}
