package dashboard

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func secondsOf(n int) time.Duration { return time.Duration(n) * time.Second }

// open starts a server for a fleet, with short waits.
func open(t *testing.T, f *Fleet) (*server, *httptest.Server) {
	t.Helper()
	b := newBoard("hub")
	b.publish(f)
	s := newServer(t.Context(), b)
	s.pace = pace{settle: time.Millisecond, heartbeat: 20 * time.Millisecond, patience: 5 * time.Second}
	handler, err := s.handler()
	if err != nil {
		t.Fatal(err)
	}
	on := httptest.NewServer(handler)
	t.Cleanup(on.Close)
	return s, on
}

// ask asks a server with the token.
func ask(t *testing.T, s *server, url string, change func(*http.Request)) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+s.token)
	if change != nil {
		change(request)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	return response
}

// read1 is one event of a stream.
type read1 struct{ id, name, data string }

// events reads a stream: next returns the next event, and fails the test after ten seconds.
func events(t *testing.T, response *http.Response) (next func() read1) {
	t.Helper()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("the stream is refused: %s", response.Status)
	}
	found := make(chan read1, 100)
	go func() {
		defer close(found)
		var e read1
		lines := bufio.NewScanner(response.Body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			key, value, _ := strings.Cut(lines.Text(), ": ")
			switch key {
			case "id":
				e.id = value
			case "event":
				e.name = value
			case "data":
				e.data = value
			case "":
				if e.name != "" || value == "heartbeat" {
					found <- e
				}
				e = read1{}
			}
		}
	}()
	return func() read1 {
		t.Helper()
		for {
			select {
			case e, more := <-found:
				if !more {
					t.Fatal("the stream ended")
				}
				if e.name != "" {
					return e
				}
			case <-time.After(secondsOf(10)):
				t.Fatal("no event came")
			}
		}
	}
}

// TestGuards: what another page or another user of the machine sends is refused, and each answer forbids what the page
// does not need.
func TestGuards(t *testing.T) {
	s, on := open(t, fleetOf(example()))
	for _, tc := range []struct {
		name, path string
		change     func(*http.Request)
		want       int
	}{
		{"the page needs no token", "/", func(r *http.Request) { r.Header.Del("Authorization") }, http.StatusOK},
		{"the module", "/page.js", nil, http.StatusOK},
		{"the style sheet", "/page.css", nil, http.StatusOK},
		{"another path", "/etc/passwd", nil, http.StatusNotFound},
		{"another file", "/../server.go", nil, http.StatusNotFound},
		{"a stream without a token", "/events", func(r *http.Request) { r.Header.Del("Authorization") },
			http.StatusUnauthorized},
		{"a stream with a wrong token", "/events", func(r *http.Request) { r.Header.Set("Authorization", "Bearer x") },
			http.StatusUnauthorized},
		{"a token in the address", "/events?token=" + s.token, func(r *http.Request) { r.Header.Del("Authorization") },
			http.StatusUnauthorized},
		{"a name that leads here", "/", func(r *http.Request) { r.Host = "evil.example.org" },
			http.StatusMisdirectedRequest},
		{"a name that begins like ours", "/events", func(r *http.Request) { r.Host = "127.0.0.1.evil.example.org:80" },
			http.StatusMisdirectedRequest},
		{"localhost", "/", func(r *http.Request) { r.Host = "localhost:1234" }, http.StatusOK},
		{"a page of another origin", "/events", func(r *http.Request) { r.Header.Set("Origin", "https://evil.example.org") },
			http.StatusForbidden},
		{"a page of another port", "/events", func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:1") },
			http.StatusForbidden},
		{"a page without an origin", "/events", func(r *http.Request) { r.Header.Set("Origin", "null") },
			http.StatusForbidden},
		{"a change", "/events", func(r *http.Request) { r.Method = http.MethodPost }, http.StatusMethodNotAllowed},
	} {
		response := ask(t, s, on.URL+tc.path, tc.change) //nolint:bodyclose // ask closes it
		if response.StatusCode != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, response.StatusCode, tc.want)
		}
		for name, want := range map[string]string{
			"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
			"Cache-Control": "no-store", "Access-Control-Allow-Origin": "",
		} {
			if got := response.Header.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", tc.name, name, got, want)
			}
		}
	}
	if strings.Contains(policy, "unsafe") || !strings.HasPrefix(policy, "default-src 'none';") {
		t.Errorf("the policy is %q", policy)
	}
}

// TestPageHasNoInlineCode: the policy refuses inline code and styles, and the page writes names as text only.
func TestPageHasNoInlineCode(t *testing.T) {
	for _, name := range []string{"index.html", "page.js", "page.css"} {
		data, err := files.ReadFile("page/" + name)
		if err != nil {
			t.Fatal(err)
		}
		for _, refused := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(",
			"style=", "onclick", "<style", "http://", "https://", "import("} {
			if strings.Contains(string(data), refused) {
				t.Errorf("%s has %s", name, refused)
			}
		}
	}
}

// TestStream: a snapshot, then what differs, based on the view before; a client that comes back gets a change if its
// view is remembered, and a snapshot if not.
func TestStream(t *testing.T) {
	in := example()
	s, on := open(t, fleetOf(in))
	next := events(t, ask(t, s, on.URL+"/events", nil)) //nolint:bodyclose // ask closes it
	first := next()
	if first.name != "snapshot" || !strings.Contains(first.data, `"w/CloneSet/shop/api"`) {
		t.Fatalf("the first event is %+v", first)
	}
	in.tree.Workloads[1].Pods.Ready = 89
	s.board.publish(fleetOf(in))
	second := next()
	var change event
	if err := json.Unmarshal([]byte(second.data), &change); err != nil {
		t.Fatal(err)
	}
	if second.name != "change" || change.Base != first.id || len(change.Set) == 0 || len(change.Set) > 3 {
		t.Errorf("the second event is %+v", second)
	}
	for name, tc := range map[string]struct{ path, id, want string }{
		"a view that is remembered":  {"/events", first.id, "change"},
		"a view that is not":         {"/events", "elsewhere-7", "snapshot"},
		"a view of another question": {"/events?ns=shop", first.id, "snapshot"},
	} {
		with := func(r *http.Request) { r.Header.Set("Last-Event-ID", tc.id) }
		again := events(t, ask(t, s, on.URL+tc.path, with))() //nolint:bodyclose // ask closes it
		if again.name != tc.want {
			t.Errorf("%s: %s", name, again.name)
		}
	}
	for range mostSent {
		s.sent.add(query{}, parts{})
	}
	if s.sent.find(first.id, query{}) != nil || len(s.sent.views) != mostSent {
		t.Errorf("%d views are remembered", len(s.sent.views))
	}
}

// TestTwoClients: each page sees what it asked for, and both see a change.
func TestTwoClients(t *testing.T) {
	in := example()
	s, on := open(t, fleetOf(in))
	shop := events(t, ask(t, s, on.URL+"/events?ns=shop", nil)) //nolint:bodyclose // ask closes it
	data := events(t, ask(t, s, on.URL+"/events?ns=data", nil)) //nolint:bodyclose // ask closes it
	const db, api = "w/StatefulSet/data/db", "w/CloneSet/shop/api"
	if e := shop(); strings.Contains(e.data, db) || !strings.Contains(e.data, api) {
		t.Errorf("the page of shop gets %s", e.data)
	}
	if e := data(); !strings.Contains(e.data, db) || strings.Contains(e.data, api) {
		t.Errorf("the page of data gets %s", e.data)
	}
	failing := *fleetOf(in)
	failing.Failing = "the hub does not answer"
	s.board.publish(&failing)
	for _, next := range []func() read1{shop, data} {
		if e := next(); e.name != "change" || !strings.Contains(e.data, "the hub does not answer") {
			t.Errorf("the change is %+v", e)
		}
	}
}

// TestMostClients: streams beyond the bound are refused, and one that ends makes room.
func TestMostClients(t *testing.T) {
	s, on := open(t, fleetOf(example()))
	var last *http.Response
	for range mostClients {
		last = ask(t, s, on.URL+"/events", nil)
		events(t, last)()
	}
	refused := ask(t, s, on.URL+"/events", nil) //nolint:bodyclose // ask closes it
	if refused.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("one more is answered with %s", refused.Status)
	}
	last.Body.Close()
	waitFor(t, "room for one more", func() bool {
		response := ask(t, s, on.URL+"/events", nil)
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
}

// waitFor polls until something holds, ten seconds at most.
func waitFor(t *testing.T, what string, holds func() bool) {
	t.Helper()
	end := time.After(secondsOf(10))
	for !holds() {
		select {
		case <-end:
			t.Fatalf("there is not: %s", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// pipes is a listener of connections that buffer nothing: a client that does not read stops the writer at once.
type pipes struct{ accepted chan net.Conn }

func (p pipes) Accept() (net.Conn, error) {
	conn, ok := <-p.accepted
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}
func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// TestSlowClient: a client that does not read is cut off, and holds up no other one.
func TestSlowClient(t *testing.T) {
	in := example()
	s, on := open(t, fleetOf(in))
	s.pace.patience = 100 * time.Millisecond
	handler, err := s.handler()
	if err != nil {
		t.Fatal(err)
	}
	listener := pipes{make(chan net.Conn, 1)}
	slow := &http.Server{Handler: handler, ReadHeaderTimeout: time.Second}
	go func() { _ = slow.Serve(listener) }()
	defer slow.Close()
	defer close(listener.accepted)
	ours, theirs := net.Pipe()
	listener.accepted <- theirs
	fmt.Fprintf(ours, "GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\n\r\n", s.token)
	waitFor(t, "a slow client", func() bool { return len(s.clients) == 1 })
	other := events(t, ask(t, s, on.URL+"/events", nil)) //nolint:bodyclose // ask closes it
	if e := other(); e.name != "snapshot" {
		t.Errorf("the other client gets %+v", e)
	}
	waitFor(t, "an end of the slow client", func() bool { return len(s.clients) == 1 })
	in.tree.Workloads[1].Pods.Ready = 1
	s.board.publish(fleetOf(in))
	if e := other(); e.name != "change" {
		t.Errorf("the other client gets %+v", e)
	}
}

// TestEnd: the end of the command ends streams at once, and the server with them.
func TestEnd(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	b := newBoard("hub")
	s := newServer(ctx, b)
	on, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.serve(ctx, on) }()
	first := events(t, ask(t, s, "http://"+on.Addr().String()+"/events", nil))() //nolint:bodyclose // ask closes it
	if e := first; !strings.Contains(e.data, `"loading":true`) {
		t.Errorf("before the hub is read the page gets %+v", e)
	}
	stop()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(secondsOf(10)):
		t.Fatal("the server does not end")
	}
}
