package pods

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/e2e/apiserver"
)

// endedPod is a pod that has ended.
func endedPod() corev1.Pod {
	p := pod("api-1", corev1.PodSucceeded, "main")
	p.Spec.RestartPolicy = corev1.RestartPolicyNever
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main",
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}}
	return p
}

func tailOf(m *member, out io.Writer) *tail {
	log := logsOf()
	log.follow = true
	p := m.pods[0]
	return &tail{source: source{member: m.reach(), pod: &p, container: "main"}, log: log, out: &lines{out: out},
		clock: fastClock{}}
}

// TestTailOfAnEndedContainer holds that the lines before the last ones, which are not wanted, are not printed when the
// log is read again.
func TestTailOfAnEndedContainer(t *testing.T) {
	start, j := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), newJournal()
	for i := range 5 {
		j.write(start.Add(time.Duration(i)*time.Millisecond), fmt.Sprint("line ", i))
	}
	j.end()
	m := &member{t: t, pods: []corev1.Pod{endedPod()}}
	m.log = func(w http.ResponseWriter, r *http.Request, _ string) { j.serve(w, r) }
	for n, want := range map[int64]string{1: "line 4\n", 2: "line 3\nline 4\n", 0: ""} {
		out := &buffer{}
		tail := tailOf(m, out)
		tail.log.tailed, tail.log.tail = true, n
		if how, err := tail.run(t.Context()); err != nil || how == "" || out.String() != want {
			t.Errorf("--tail %d: %q, %s, %v, want %q", n, out, how, err, want)
		}
	}
}

// TestAQuietLogStaysOpen holds that a log without lines is not cut by the time that a member has to answer.
func TestAQuietLogStaysOpen(t *testing.T) {
	m, j := &member{t: t, pods: []corev1.Pod{endedPod()}}, newJournal()
	opened := make(chan struct{}, 100)
	m.log = func(w http.ResponseWriter, r *http.Request, _ string) {
		opened <- struct{}{}
		j.serve(w, r)
	}
	out := &buffer{}
	tail := tailOf(m, out)
	tail.member.patience = 50 * time.Millisecond
	ended := make(chan error, 1)
	go func() { _, err := tail.run(t.Context()); ended <- err }()
	<-opened
	select {
	case <-opened:
		t.Error("it was opened again")
	case <-time.After(4 * tail.member.patience):
	}
	j.write(time.Now(), "line")
	j.end()
	if err := <-ended; err != nil || out.String() != "line\n" {
		t.Errorf("%q, %v", out, err)
	}
}

// TestALogThatBeginsLate holds that all lines of a container are printed that had not started.
func TestALogThatBeginsLate(t *testing.T) {
	start, j, asked := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), newJournal(), 0
	for i := range 5 {
		j.write(start.Add(time.Duration(i)*time.Second), fmt.Sprint("line ", i))
	}
	j.end()
	m := &member{t: t, pods: []corev1.Pod{endedPod()}}
	m.log = func(w http.ResponseWriter, r *http.Request, _ string) {
		if asked++; asked == 1 {
			m.refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest)
			return
		}
		j.serve(w, r)
	}
	out := &buffer{}
	tail := tailOf(m, out)
	tail.log.tailed, tail.log.tail = true, 1
	m.change(func([]corev1.Pod) []corev1.Pod { return []corev1.Pod{pod("api-1", corev1.PodRunning, "main")} })
	ended := make(chan error, 1)
	go func() { _, err := tail.run(t.Context()); ended <- err }()
	apiserver.Eventually(t, 10*time.Second, "all lines", func() string {
		if strings.Count(out.String(), "line ") == 5 {
			return ""
		}
		return "so far: " + out.String()
	})
	m.change(func([]corev1.Pod) []corev1.Pod { return []corev1.Pod{endedPod()} })
	m.change(func(pods []corev1.Pod) []corev1.Pod { pods[0].UID = tail.pod.UID; return pods })
	if err := <-ended; err != nil || strings.Count(out.String(), "line ") != 5 {
		t.Errorf("%v: %s", err, out)
	}
}

// TestALineThatNeverEnds holds that the last line of a container is printed when its log begins again.
func TestALineThatNeverEnds(t *testing.T) {
	streams := []string{"2026-01-02T03:04:05.1Z one\n2026-01-02T03:04:05.2Z panic",
		"2026-01-02T03:04:05.2Z pan", "2026-01-02T03:04:06Z two\n2026-01-02T03:04:07Z th",
		"2026-01-02T03:04:06Z two\n2026-01-02T03:04:07Z three\n"}
	out := &buffer{}
	tail := &tail{log: logsOf(), out: &lines{out: out}}
	for _, text := range streams {
		tail.at.resume()
		if err := tail.read(strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	if want := "one\npanic\ntwo\nthree\n"; out.String() != want {
		t.Errorf("%q, want %q", out, want)
	}
}

// TestTheNextPodOfTheName holds that a tail does not print what the next pod of its name writes.
func TestTheNextPodOfTheName(t *testing.T) {
	j := newJournal()
	j.write(time.Now(), "of the next pod")
	m := &member{t: t, pods: []corev1.Pod{pod("api-1", corev1.PodRunning, "main")}}
	m.log = func(w http.ResponseWriter, r *http.Request, _ string) { j.serve(w, r) }
	out := &buffer{}
	tail := tailOf(m, out)
	m.pods[0].UID = "next"
	if how, err := tail.run(t.Context()); err != nil || how != deleted || out.String() != "" {
		t.Errorf("%q, %s, %v", out, how, err)
	}
}

// TestForgetKeepsAnOpenLog holds that a log is not followed twice when its pod is seen again.
func TestForgetKeepsAnOpenLog(t *testing.T) {
	m, j := &member{t: t, pods: []corev1.Pod{pod("api-1", corev1.PodRunning, "main")}}, newJournal()
	m.log = func(w http.ResponseWriter, r *http.Request, _ string) { j.serve(w, r) }
	log := logsOf()
	log.follow = true
	a := &followed{log: log, out: &lines{out: io.Discard}, notes: &notes{out: io.Discard}, stop: func(error) {},
		known: map[string]bool{}, following: map[string]bool{}}
	s := source{member: m.reach(), pod: &m.pods[0], container: "main"}
	a.add(t.Context(), s)
	a.forget(s.member, s.pod)
	a.add(t.Context(), s)
	if a.open != 1 {
		t.Errorf("%d are open", a.open)
	}
	j.end()
}
