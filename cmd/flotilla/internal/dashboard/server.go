package dashboard

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"embed"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path"
	"strings"
	"time"
)

//go:embed page
var files embed.FS

// policy is the Content-Security-Policy: the page runs its own module and style sheet, and asks its own server only.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

// mostClients is how many streams are open at a time.
const mostClients = 16

// server serves the page and the streams of one user.
type server struct {
	token   string
	board   *board
	sent    *sent
	pace    pace
	clients chan struct{}
	// ended is closed when streams are to end.
	ended <-chan struct{}
}

// newServer returns a server for pages that show the token that it made. Streams end with the context.
func newServer(ctx context.Context, b *board) *server {
	return &server{
		token: rand.Text(), board: b, clients: make(chan struct{}, mostClients), ended: ctx.Done(),
		sent: &sent{views: map[string]sentView{}, epoch: rand.Text()[:8]},
		pace: pace{settle: 300 * time.Millisecond, heartbeat: 15 * time.Second, patience: 10 * time.Second},
	}
}

// handler returns what answers requests. It errs if the embedded files cannot be read.
func (s *server) handler() (http.Handler, error) {
	mux := http.NewServeMux()
	for _, file := range []struct{ pattern, name, kind string }{
		{"GET /{$}", "index.html", "text/html; charset=utf-8"},
		{"GET /page.js", "page.js", "text/javascript; charset=utf-8"},
		{"GET /page.css", "page.css", "text/css; charset=utf-8"},
		{"GET /icon.svg", "icon.svg", "image/svg+xml"},
	} {
		serve, err := static(file.name, file.kind)
		if err != nil {
			return nil, err
		}
		mux.Handle(file.pattern, serve)
	}
	mux.HandleFunc("GET /events", s.events)
	return guarded(mux), nil
}

// static returns what serves an embedded file, compressed for those who read that.
func static(name, kind string) (http.Handler, error) {
	data, err := files.ReadFile(path.Join("page", name))
	if err != nil {
		return nil, fmt.Errorf("read %s of the page: %w", name, err)
	}
	var small bytes.Buffer
	zip, err := gzip.NewWriterLevel(&small, gzip.BestCompression)
	if err != nil {
		return nil, fmt.Errorf("compress %s of the page: %w", name, err)
	}
	if _, err := zip.Write(data); err != nil {
		return nil, fmt.Errorf("compress %s of the page: %w", name, err)
	}
	if err := zip.Close(); err != nil {
		return nil, fmt.Errorf("compress %s of the page: %w", name, err)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", kind)
		body := data
		if readsGzip(r) {
			w.Header().Set("Content-Encoding", "gzip")
			body = small.Bytes()
		}
		_, _ = w.Write(body) // a client that is gone reads no error
	}), nil
}

func readsGzip(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
}

// guarded refuses requests that another site made a browser send: by a name that leads here, or from another origin.
func guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", policy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Cache-Control", "no-store")
		header.Set("Vary", "Accept-Encoding")
		if !local(r.Host) {
			http.Error(w, "Open the page by 127.0.0.1 or localhost: another name is refused.",
				http.StatusMisdirectedRequest)
			return
		}
		if origin := r.Header.Get("Origin"); origin != "" && origin != "http://"+r.Host {
			http.Error(w, "Pages of other origins are refused.", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// local reports whether the Host of a request is this machine by its address or its own name. A page of another site
// can have its name lead to 127.0.0.1, but it cannot send another Host than its own. The port is left open for those
// who forward one.
func local(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	return name == "127.0.0.1" || strings.EqualFold(name, "localhost")
}

// events serves a stream.
func (s *server) events(w http.ResponseWriter, r *http.Request) {
	given, is := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !is || subtle.ConstantTimeCompare([]byte(given), []byte(s.token)) != 1 {
		http.Error(w, "This page has no valid token: open the address that flotilla dashboard printed.",
			http.StatusUnauthorized)
		return
	}
	select {
	case s.clients <- struct{}{}:
		defer func() { <-s.clients }()
	default:
		http.Error(w, fmt.Sprintf("%d pages are open already: close one.", mostClients), http.StatusServiceUnavailable)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	go func() {
		select {
		case <-s.ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	out := &stream{
		out: w, control: http.NewResponseController(w), sent: s.sent, pace: s.pace, query: readQuery(r.URL.Query()),
	}
	if readsGzip(r) {
		w.Header().Set("Content-Encoding", "gzip")
		out.zip = gzip.NewWriter(w)
		out.out = out.zip
	}
	out.run(r.WithContext(ctx), s.board, r.Header.Get("Last-Event-ID"))
}

// serve answers on a listener until the context ends. It returns nil then.
func (s *server) serve(ctx context.Context, on net.Listener) error {
	handler, err := s.handler()
	if err != nil {
		return err
	}
	const patience, largest = 10 * time.Second, 16 << 10
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: patience, IdleTimeout: time.Minute, MaxHeaderBytes: largest,
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(on) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve the page: %w", err)
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := server.Shutdown(ending); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("end the page: %w", err)
	}
	return nil
}
