package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// gate stands between a program of ours and an API server, with the credentials of the program. It can be cut, answer
// badly and hold watches back.
type gate struct {
	// name is "<program> to <cluster>".
	name     string
	server   *http.Server
	listener net.Listener
	proxy    *httputil.ReverseProxy

	mu    sync.Mutex
	draw  *rand.Rand
	conns map[net.Conn]bool
	cut   bool
	bad   bool
	lag   time.Duration
	// faults counts bad answers.
	faults int
}

// openGate makes the kubeconfig at path lead through a gate, which serves until close.
func openGate(ctx context.Context, name, path string, seed uint64) (*gate, error) {
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig for %s: %w", name, err)
	}
	through, err := clientcmd.NewDefaultClientConfig(*config, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig for %s: %w", name, err)
	}
	transport, err := rest.TransportFor(through)
	if err != nil {
		return nil, fmt.Errorf("connect %s: %w", name, err)
	}
	target, err := url.Parse(through.Host)
	if err != nil {
		return nil, fmt.Errorf("read the address for %s: %w", name, err)
	}
	g := &gate{name: name, conns: map[net.Conn]bool{}, draw: rand.New(rand.NewPCG(seed, 2))}
	g.proxy = &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1,
		Rewrite:  func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ErrorLog: log.New(io.Discard, "", 0), // connections break all the time here
		// An API server that is away closes the connection, and does not answer.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	if g.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("listen for %s: %w", name, err)
	}
	g.server = &http.Server{Handler: g, ReadHeaderTimeout: 10 * time.Second, ConnState: g.seen, ErrorLog: nil}
	go func() { _ = g.server.Serve(g.listener) }() // it ends with close
	cluster := config.Clusters[config.Contexts[config.CurrentContext].Cluster]
	cluster.Server, cluster.CertificateAuthorityData = "http://"+g.listener.Addr().String(), nil
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return nil, errors.Join(fmt.Errorf("write the kubeconfig for %s: %w", name, err), g.server.Close())
	}
	return g, nil
}

func (g *gate) close() error { return g.server.Close() }

func (g *gate) seen(conn net.Conn, state http.ConnState) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch state {
	case http.StateNew:
		g.conns[conn] = true
	case http.StateClosed, http.StateHijacked:
		delete(g.conns, conn)
	case http.StateActive, http.StateIdle:
	}
}

// setCut ends every connection and lets none through, until it is taken back.
func (g *gate) setCut(cut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cut = cut
	for conn := range g.conns {
		if cut {
			_ = conn.Close() // it is being cut
		}
	}
}

// setBad makes about one of eight requests other than watches fail, until it is taken back.
func (g *gate) setBad(bad bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.bad = bad
}

// setLag holds what watches tell back for the time.
func (g *gate) setLag(lag time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lag = lag
}

// ServeHTTP passes a request on, or not.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	watches := r.URL.Query().Get("watch") == "true" || r.URL.Query().Get("watch") == "1"
	g.mu.Lock()
	cut, code := g.cut, 0
	if g.bad && !watches {
		switch n := g.draw.IntN(100); {
		case n < 5:
			code = http.StatusTooManyRequests
		case n < 9:
			code = http.StatusInternalServerError
		case n < 13:
			code = http.StatusServiceUnavailable
		}
	}
	if code != 0 {
		g.faults++
	}
	g.mu.Unlock()
	switch {
	case cut:
		panic(http.ErrAbortHandler)
	case code != 0:
		if code == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "1")
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"chaos","reason":"","code":%d}`, code)
	case watches:
		late := &lateWriter{ResponseWriter: w, gate: g}
		defer late.end()
		g.proxy.ServeHTTP(late, r)
	default:
		g.proxy.ServeHTTP(w, r)
	}
}

// lateWriter writes what a watch tells after the lag of its gate.
type lateWriter struct {
	http.ResponseWriter
	gate *gate

	mu      sync.Mutex
	held    []byte
	waiting bool
	ended   bool
}

// Unwrap lets the server flush.
func (l *lateWriter) Unwrap() http.ResponseWriter { return l.ResponseWriter }

// Write holds data back while the gate has a lag, and what comes after it too.
func (l *lateWriter) Write(data []byte) (int, error) {
	l.gate.mu.Lock()
	lag := l.gate.lag
	l.gate.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if lag == 0 && !l.waiting {
		return l.ResponseWriter.Write(data)
	}
	l.held = append(l.held, data...)
	if !l.waiting {
		l.waiting = true
		time.AfterFunc(lag, l.release)
	}
	return len(data), nil
}

func (l *lateWriter) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = false
	if l.ended {
		return
	}
	held := l.held
	l.held = nil
	if _, err := l.ResponseWriter.Write(held); err == nil {
		_ = http.NewResponseController(l.ResponseWriter).Flush() // the proxy has gone on
	}
}

// end is called before the server takes the writer back.
func (l *lateWriter) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
}
