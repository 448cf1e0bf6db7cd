package pods

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/flotilla-dev/flotilla/e2e/apiserver"
)

func uid1(text string) types.UID { return types.UID(text) }

func configOf(host string) *rest.Config { return &rest.Config{Host: host, QPS: -1} }

func logsOf() *logOptions {
	return &logOptions{most: mostStreams, prefixed: true, color: "never", clock: clock.RealClock{}}
}

// TestLogs holds that lines of several pods stay whole and say whose they are, in the order of members and pods, and
// that one pod whose log cannot be read does not keep those of the others back.
func TestLogs(t *testing.T) {
	east := &member{t: t, pods: []corev1.Pod{pod("api-1", corev1.PodRunning, "main"),
		pod("api-broken", corev1.PodRunning, "main"), pod("api-3", corev1.PodRunning, "main", "proxy")}}
	west := &member{t: t, pods: []corev1.Pod{pod("api-4", corev1.PodRunning, "main")}}
	talk, out := &buffer{}, &bytes.Buffer{}
	f := &fleet{notes: &notes{out: talk},
		members: []*reached{east.reachAs("east", cloneSet()), west.reachAs("west", cloneSet())}}
	log := logsOf()
	log.tailed, log.tail, log.since = true, 2, 1500*time.Millisecond
	if err := log.run(t.Context(), f, targetFor(t, "clone/api"), 0, out); err != nil {
		t.Fatal(err)
	}
	want := "east/api-1 first of api-1\neast/api-1 last of api-1\neast/api-3/main first of api-3\n" +
		"east/api-3/main last of api-3\nwest/api-4 first of api-4\nwest/api-4 last of api-4\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if want := "read the log of api-broken/main in member east"; !strings.Contains(talk.String(), want) {
		t.Errorf("says %s, want %s", talk, want)
	}
	asked := "/api/v1/namespaces/shop/pods/api-1/log?container=main&sinceSeconds=1&tailLines=2"
	if !slices.Contains(east.requests(), asked) {
		t.Errorf("asks %s, want %s", east.requests(), asked)
	}
	// All containers.
	out.Reset()
	log = logsOf()
	log.all = true
	if err := log.run(t.Context(), f, targetFor(t, "clone/api"), 0, out); err != nil ||
		!strings.Contains(out.String(), "east/api-3/proxy last of api-3\n") {
		t.Errorf("%v: %s", err, out)
	}
	// The log of one pod is as it is.
	out.Reset()
	if err := logsOf().run(t.Context(), f, targetFor(t, "pod/api-4"), 0, out); err != nil ||
		out.String() != "first of api-4\nlast of api-4" {
		t.Errorf("%q, %v", out, err)
	}
	// Nothing could be read.
	f.members = f.members[:1]
	err := logsOf().run(t.Context(), f, targetFor(t, "pod/api-broken"), 0, out)
	if err == nil || !strings.Contains(err.Error(), "read the log of api-broken/main in member east") {
		t.Errorf("says %v", err)
	}
}

func TestPrefixesAndColours(t *testing.T) {
	p := pod("api-1", corev1.PodRunning, "main")
	if got := prefixOf("east", &p, "main", true, true); !strings.HasPrefix(got, "\x1b[3") ||
		!strings.HasSuffix(got, "meast/api-1/main\x1b[0m ") {
		t.Errorf("%q", got)
	}
	for when, want := range map[string]bool{"auto": false, "never": false, "always": true} {
		if got, err := coloured(when, &bytes.Buffer{}); got != want || err != nil {
			t.Errorf("%s: %v, %v", when, got, err)
		}
	}
	if _, err := coloured("blue", nil); err == nil {
		t.Error("blue is taken")
	}
}

// TestLongLines holds that a line is whole up to its limit, and that one that is longer is several lines.
func TestLongLines(t *testing.T) {
	for _, n := range []int{10, readAhead - 1, readAhead, 5*readAhead + 3, longestLine / 2} {
		text := strings.Repeat("x", n)
		reader := newLineReader(strings.NewReader(text + "\nnext\n"))
		line, begins, err := reader.next()
		if err != nil || !begins || string(line) != text+"\n" {
			t.Errorf("%d characters: %d, %v, %v", n, len(line), begins, err)
		}
		if line, begins, err = reader.next(); err != nil || !begins || string(line) != "next\n" {
			t.Errorf("%d characters: next is %.10s, %v, %v", n, line, begins, err)
		}
	}
	reader, pieces, total := newLineReader(strings.NewReader(strings.Repeat("x", 3*longestLine)+"\n")), 0, 0
	for {
		line, begins, err := reader.next()
		if len(line) > longestLine+readAhead || len(line) > 0 && begins != (pieces == 0) {
			t.Fatalf("piece %d has %d characters, begins %v", pieces, len(line), begins)
		}
		total += len(line)
		if errors.Is(err, io.EOF) {
			break
		}
		pieces++
	}
	if total != 3*longestLine+1 {
		t.Errorf("%d characters", total)
	}
}

// journal is the log of a container that a test writes, and the fake kubelet that serves it.
type journal struct {
	mu    sync.Mutex
	lines []string // with their times
	at    []time.Time
	more  chan struct{}
	done  bool
	// cut is after how many bytes each stream is cut, 0 for never.
	cut func() int
}

func newJournal() *journal { return &journal{more: make(chan struct{})} }

func (j *journal) write(at time.Time, text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, at.UTC().Format(time.RFC3339Nano)+" "+text+"\n")
	j.at = append(j.at, at)
	close(j.more)
	j.more = make(chan struct{})
}

func (j *journal) end() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.done = true
	close(j.more)
	j.more = make(chan struct{})
}

// serve answers as a kubelet does: the lines since a time, then what is written until the container ends.
func (j *journal) serve(w http.ResponseWriter, r *http.Request) {
	since, _ := time.Parse(time.RFC3339, r.URL.Query().Get("sinceTime"))
	left := -1
	if j.cut != nil {
		left = j.cut()
	}
	j.mu.Lock()
	tail, err := strconv.Atoi(r.URL.Query().Get("tailLines"))
	first := len(j.lines) - tail
	j.mu.Unlock()
	if err != nil {
		first = 0
	}
	for i := max(first, 0); ; {
		j.mu.Lock()
		lines, at, more, done := j.lines, j.at, j.more, j.done
		j.mu.Unlock()
		for ; i < len(lines); i++ {
			if at[i].Before(since) {
				continue
			}
			text := lines[i]
			if left >= 0 && len(text) > left {
				_, _ = io.WriteString(w, text[:left])
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler) // the connection is cut
			}
			left = max(left-len(text), min(left, 0))
			if _, err := io.WriteString(w, text); err != nil {
				return
			}
		}
		if i > 0 { // a kubelet sends no headers before the first line
			w.(http.Flusher).Flush()
		}
		if done || r.URL.Query().Get("follow") == "" {
			return
		}
		select {
		case <-more:
		case <-r.Context().Done():
			return
		}
	}
}

// TestFollowResumesAfterACut holds that a stream that is cut again and again, also within lines, has each line once, in
// order, and that the end of the pod is noted.
func TestFollowResumesAfterACut(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	j, cuts := newJournal(), 0
	j.cut = func() int {
		if cuts++; cuts > 30 {
			return -1
		}
		return 150 + 97*cuts
	}
	m := &member{t: t, pods: []corev1.Pod{pod("api-1", corev1.PodRunning, "main")}}
	m.pods[0].Spec.RestartPolicy = corev1.RestartPolicyNever
	m.log = func(w http.ResponseWriter, r *http.Request, _ string) { j.serve(w, r) }
	var want strings.Builder
	for i := range 200 {
		j.write(start.Add(time.Duration(i/3)*170*time.Millisecond), fmt.Sprintf("line %d", i))
		fmt.Fprintf(&want, "east/api-1 line %d\n", i)
	}
	j.end()
	m.pods[0].Status.Phase = corev1.PodSucceeded
	m.pods[0].Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main",
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 0}}}}
	r := m.reach()
	out, log := &bytes.Buffer{}, logsOf()
	log.follow = true
	tail := &tail{source: source{member: r, pod: &m.pods[0], container: "main", prefix: "east/api-1 "}, log: log,
		out: &lines{out: out}, clock: fastClock{}}
	how, err := tail.run(t.Context())
	if err != nil || how != "has ended with exit code 0" {
		t.Errorf("%q, %v", how, err)
	}
	if diff := cmp.Diff(want.String(), out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// fastClock does not wait.
type fastClock struct{ clock.RealClock }

func (f fastClock) After(time.Duration) <-chan time.Time { return f.RealClock.After(time.Millisecond) }

// TestFollow holds that pods that appear join, that what they write comes whole, that deleted ones are noted, and that
// the verb ends with its context.
func TestFollow(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	journals := map[string]*journal{"api-1": newJournal(), "api-2": newJournal(), "api-3": newJournal()}
	m := &member{t: t, pods: []corev1.Pod{pod("api-1", corev1.PodRunning, "main"),
		pod("api-2", corev1.PodRunning, "main")}}
	m.log = func(w http.ResponseWriter, r *http.Request, name string) { journals[name].serve(w, r) }
	r := m.reach(cloneSet())
	out, talk := &buffer{}, &buffer{}
	f := &fleet{notes: &notes{out: talk}, members: []*reached{r}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	log := logsOf()
	log.follow, log.tailed, log.tail = true, true, 5
	go func() { ended <- log.run(ctx, f, targetFor(t, "clone/api"), 0, out) }()
	says := func(what string, b *buffer, want string) {
		t.Helper()
		apiserver.Eventually(t, 10*time.Second, what, func() string {
			if strings.Contains(b.String(), want) {
				return ""
			}
			return "so far: " + b.String()
		})
	}
	journals["api-1"].write(start, "one")
	says("the first line", out, "east/api-1 one\n")
	journals["api-2"].write(start, "two")
	says("the other pod's", out, "east/api-2 two\n")
	m.change(func(pods []corev1.Pod) []corev1.Pod {
		journals["api-3"].write(start, "before it was seen")
		return append(slices.Clone(pods), pod("api-3", corev1.PodRunning, "main"))
	})
	says("a pod that appears", out, "east/api-3 before it was seen\n")
	if !slices.ContainsFunc(m.requests(), func(a string) bool {
		return strings.Contains(a, "api-3/log") && !strings.Contains(a, "tailLines")
	}) {
		t.Errorf("of a new pod not all lines are asked for: %v", m.requests())
	}
	m.change(func(pods []corev1.Pod) []corev1.Pod { return pods[1:] })
	journals["api-1"].write(start.Add(time.Second), "last")
	journals["api-1"].end()
	says("the last line", out, "east/api-1 last\n")
	says("a pod that is deleted", talk, "east/api-1 was deleted\n")
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("it goes on")
	}
}

// TestFollowALimitedNumber holds that logs beyond the limit are named, and join when others end.
func TestFollowALimitedNumber(t *testing.T) {
	j := newJournal()
	j.write(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), "line")
	j.end()
	m := &member{t: t}
	for i := range 5 {
		p := pod(fmt.Sprintf("api-%d", i), corev1.PodSucceeded, "main")
		m.pods = append(m.pods, p)
	}
	m.log = func(w http.ResponseWriter, r *http.Request, _ string) { j.serve(w, r) }
	out, talk := &buffer{}, &buffer{}
	f := &fleet{notes: &notes{out: talk}, members: []*reached{m.reach(cloneSet())}}
	log := logsOf()
	log.follow, log.most = true, 2
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _ = log.run(ctx, f, targetFor(t, "clone/api"), 0, out) }()
	apiserver.Eventually(t, 10*time.Second, "all logs", func() string {
		if strings.Count(out.String(), " line\n") == 5 {
			return ""
		}
		return "so far: " + out.String()
	})
	if want := "There are 5 logs, and 3 are left out, because --max-streams is 2"; !strings.Contains(talk.String(), want) {
		t.Errorf("says %s, want %s", talk, want)
	}
}

// failingWriter takes nothing.
type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("the pipe is closed") }

func TestFollowEndsWithItsWriter(t *testing.T) {
	j := newJournal()
	j.write(time.Now(), "line")
	m := &member{t: t, pods: []corev1.Pod{pod("api-1", corev1.PodRunning, "main")}}
	m.log = func(w http.ResponseWriter, r *http.Request, _ string) { j.serve(w, r) }
	log := logsOf()
	log.follow = true
	f := &fleet{notes: &notes{out: io.Discard}, members: []*reached{m.reach(cloneSet())}}
	err := log.run(t.Context(), f, targetFor(t, "clone/api"), 0, failingWriter{})
	if err == nil || !strings.Contains(err.Error(), "write the log: the pipe is closed") {
		t.Errorf("says %v", err)
	}
}

// TestAMemberThatRefusesItsLogs holds that there is one sentence for all its pods.
func TestAMemberThatRefusesItsLogs(t *testing.T) {
	want := "you may not read logs of pods in namespace shop in member east: ask for that right there, for the user of " +
		"the context east"
	for _, follow := range []bool{false, true} {
		m := &member{t: t, pods: []corev1.Pod{pod("api-1", corev1.PodRunning, "main"),
			pod("api-2", corev1.PodRunning, "main")}}
		m.log = func(w http.ResponseWriter, _ *http.Request, _ string) {
			m.refuse(w, http.StatusForbidden, "Forbidden")
		}
		talk := &buffer{}
		f := &fleet{notes: &notes{out: talk}, members: []*reached{m.reach(cloneSet())}}
		log := logsOf()
		log.follow = follow
		if !follow {
			expectSentence(t, log.run(t.Context(), f, targetFor(t, "clone/api"), 0, io.Discard), want)
			continue
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- log.run(ctx, f, targetFor(t, "clone/api"), 0, io.Discard) }()
		apiserver.Eventually(t, 10*time.Second, "the sentence", func() string {
			if strings.Contains(talk.String(), want) {
				return ""
			}
			return "so far: " + talk.String()
		})
		cancel()
		if err := <-ended; err != nil || strings.Count(talk.String(), want) != 1 {
			t.Errorf("%v: %s", err, talk)
		}
	}
}
