package faultproxy

import (
	"bytes"
	"net/http"
	"sync"
	"time"
)

// lateWriter writes what a watch delivers after the lag of its proxy.
type lateWriter struct {
	http.ResponseWriter
	proxy *Proxy

	mu      sync.Mutex
	held    []byte
	waiting bool
	ended   bool
}

// Unwrap lets the server flush.
func (l *lateWriter) Unwrap() http.ResponseWriter { return l.ResponseWriter }

// Write keeps data back while the proxy has a lag, and what comes after it too.
func (l *lateWriter) Write(data []byte) (int, error) {
	l.proxy.mu.Lock()
	lag := l.proxy.lag
	l.proxy.mu.Unlock()
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
		_ = http.NewResponseController(l.ResponseWriter).Flush() // the client may be gone
	}
}

// end is called before the server takes the writer back.
func (l *lateWriter) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
}

// lineWriter calls a function with each complete line that was written.
type lineWriter struct {
	http.ResponseWriter
	line    func([]byte)
	partial []byte
}

// Unwrap lets the server flush.
func (l *lineWriter) Unwrap() http.ResponseWriter { return l.ResponseWriter }

// Write passes the data on first.
func (l *lineWriter) Write(data []byte) (int, error) {
	n, err := l.ResponseWriter.Write(data)
	if err != nil {
		return n, err
	}
	l.partial = append(l.partial, data...)
	for {
		line, rest, found := bytes.Cut(l.partial, []byte("\n"))
		if !found {
			return n, nil
		}
		l.line(line)
		l.partial = rest
	}
}
