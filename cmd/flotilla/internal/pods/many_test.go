package pods

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/flotilla-dev/flotilla/e2e/apiserver"
)

// threeMembers are three members with pods each, whose logs a function writes.
func threeMembers(
	t testing.TB, each int, log func(w http.ResponseWriter, r *http.Request, pod string),
) *fleet {
	f := &fleet{notes: &notes{out: io.Discard}}
	for _, name := range []string{"east", "north", "west"} {
		m := &member{t: t, log: log}
		for i := range each {
			m.pods = append(m.pods, pod(fmt.Sprintf("api-%03d", i), corev1.PodRunning, "main"))
		}
		f.members = append(f.members, m.reachAs(name, cloneSet()))
	}
	return f
}

// TestLogsOf300PodsInThreeMembers holds that all lines come, each whole, and the logs one after the other.
func TestLogsOf300PodsInThreeMembers(t *testing.T) {
	const each, perPod = 100, 200
	var open, most atomic.Int32
	f := threeMembers(t, each, func(w http.ResponseWriter, _ *http.Request, pod string) {
		now := open.Add(1)
		defer open.Add(-1)
		for most.Load() < now && !most.CompareAndSwap(most.Load(), now) {
		}
		for i := range perPod {
			fmt.Fprintf(w, "line %d of %s\n", i, pod)
		}
	})
	log, out := logsOf(), &buffer{}
	log.most = 20
	if err := log.run(t.Context(), f, targetFor(t, "clone/api"), time.Minute, out); err != nil {
		t.Fatal(err)
	}
	i := 0
	for line := range strings.Lines(out.String()) {
		member := []string{"east", "north", "west"}[i/(each*perPod)]
		pod := fmt.Sprintf("api-%03d", i/perPod%each)
		if want := fmt.Sprintf("%s/%s line %d of %s\n", member, pod, i%perPod, pod); line != want {
			t.Fatalf("line %d is %q, want %q", i, line, want)
		}
		i++
	}
	if i != 3*each*perPod || most.Load() > 20 {
		t.Errorf("%d lines, %d streams at once", i, most.Load())
	}
}

// slowWriter takes nothing until it is opened, and then little at a time.
type slowWriter struct {
	gate  chan struct{}
	begun sync.Once
	stuck chan struct{}
	to    io.Writer
}

func (s *slowWriter) Write(data []byte) (int, error) {
	s.begun.Do(func() { close(s.stuck) })
	<-s.gate
	return s.to.Write(data)
}

// TestASlowTerminalHoldsTheMembersUp holds that followed logs wait for a terminal that takes nothing, with little memory,
// and that then all lines come whole.
func TestASlowTerminalHoldsTheMembersUp(t *testing.T) {
	const each, perPod = 30, 3000
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	text := strings.Repeat("x", 200)
	var open atomic.Int32
	f := threeMembers(t, each, func(w http.ResponseWriter, r *http.Request, _ string) {
		open.Add(1)
		for i := range perPod {
			at := start.Add(time.Duration(i) * time.Millisecond)
			if _, err := fmt.Fprintf(w, "%s %d %s\n", at.Format(time.RFC3339Nano), i, text); err != nil {
				return
			}
		}
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	runtime.GC()
	var before, stuck runtime.MemStats
	runtime.ReadMemStats(&before)
	got := &buffer{}
	out := &slowWriter{gate: make(chan struct{}), stuck: make(chan struct{}), to: got}
	log := logsOf()
	log.follow = true
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- log.run(ctx, f, targetFor(t, "clone/api"), time.Minute, out) }()
	<-out.stuck
	apiserver.Eventually(t, 20*time.Second, "all logs are open", func() string {
		if n := open.Load(); n != 3*each {
			return fmt.Sprint(n)
		}
		return ""
	})
	runtime.GC()
	runtime.ReadMemStats(&stuck)
	if grown := int64(stuck.HeapAlloc) - int64(before.HeapAlloc); grown > 64<<20 {
		t.Errorf("%d MiB are kept for 90 logs", grown>>20)
	}
	close(out.gate)
	apiserver.Eventually(t, 60*time.Second, "all lines", func() string {
		if n := strings.Count(got.String(), "\n"); n != 3*each*perPod {
			return fmt.Sprint(n)
		}
		return ""
	})
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(got.String()) {
		if !strings.HasSuffix(line, " "+text+"\n") || strings.Count(line, "/api-") != 1 {
			t.Fatalf("a line is not whole: %q", line)
		}
	}
}

// TestEachLogIsAConnection holds that logs do not share one connection, in which the client would keep what a slow
// terminal does not take.
func TestEachLogIsAConnection(t *testing.T) {
	protocols := make(chan string, 2)
	m := &member{t: t, pods: []corev1.Pod{pod("api-1", corev1.PodRunning, "main")}}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protocols <- r.Proto
		m.ServeHTTP(w, r)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	r, err := newReached("east", "shop", "east", &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{
		CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})}}, memberPatience)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.core.CoreV1().Pods("shop").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	s := source{member: r, pod: &m.pods[0], container: "main"}
	stream, err := s.open(t.Context(), &corev1.PodLogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	if list, log := <-protocols, <-protocols; list != "HTTP/2.0" || log != "HTTP/1.1" {
		t.Errorf("a list by %s, a log by %s", list, log)
	}
}

// BenchmarkLogs measures how many bytes of logs are printed in a second: of one log, and of 300 in three members.
func BenchmarkLogs(b *testing.B) {
	text := strings.Repeat("x", 120) + "\n"
	for _, test := range []struct{ name, argument string }{{"one", "pod/api-000"}, {"300 pods", "clone/api"}} {
		for _, follow := range []bool{false, true} {
			name := test.name
			if follow {
				name += " followed"
			}
			b.Run(name, func(b *testing.B) { benchmarkLogs(b, test.argument, text, follow) })
		}
	}
}

func benchmarkLogs(b *testing.B, argument, text string, follow bool) {
	const total = 300_000 // lines
	perPod, members := total/300, 3
	if argument != "clone/api" {
		perPod, members = total, 1
	}
	page := strings.Repeat("2026-01-02T03:04:05.123456789Z "+text, 100)
	if !follow {
		page = strings.Repeat(text, 100)
	}
	f := &fleet{notes: &notes{out: io.Discard}}
	for i := range members {
		m := &member{t: b, log: func(w http.ResponseWriter, r *http.Request, _ string) {
			for range perPod / 100 {
				if _, err := io.WriteString(w, page); err != nil {
					return
				}
			}
			if follow {
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			}
		}}
		for i := range 100 {
			m.pods = append(m.pods, pod(fmt.Sprintf("api-%03d", i), corev1.PodRunning, "main"))
		}
		f.members = append(f.members, m.reachAs(fmt.Sprint("member-", i), cloneSet()))
	}
	asked, err := targetOf(argument, "shop")
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(total * len(text)))
	for b.Loop() {
		ctx, cancel := context.WithCancel(b.Context())
		out := &counter{of: total, done: cancel}
		log := logsOf()
		log.most, log.follow = 300, follow
		if err := log.run(ctx, f, asked, time.Minute, out); err != nil {
			b.Fatal(err)
		}
		cancel()
		if n := out.lines.Load(); n != total {
			b.Fatalf("%d lines", n)
		}
	}
}

// counter counts lines, and says when all have come.
type counter struct {
	lines atomic.Int64
	of    int64
	done  func()
}

func (c *counter) Write(data []byte) (int, error) {
	if c.lines.Add(int64(strings.Count(string(data), "\n"))) >= c.of {
		c.done()
	}
	return len(data), nil
}
