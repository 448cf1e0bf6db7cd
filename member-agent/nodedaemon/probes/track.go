package probes

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
)

// longestTimeout bounds timeoutSeconds: until then a probe that gets no answer keeps a connection or a command.
const longestTimeout = time.Minute

// longestMessage bounds messages, in bytes, as published.
const longestMessage = 1024

// kind is what one probe found out.
type kind int

const (
	// nothing: the container has not started yet, or ended while it was probed.
	nothing kind = iota
	succeeds
	fails
	// unreachable: neither is known.
	unreachable
	// stopped: the container ran, and does not run now. No threshold holds for that.
	stopped
)

// outcome is what one probe found out, and what it says.
type outcome struct {
	kind    kind
	message string
}

// timing is what a probe says of time and thresholds, with defaults.
type timing struct {
	delay, period, timeout time.Duration
	succeeds, fails        int
}

func timingOf(spec *v1alpha1.ContainerProbeSpec) timing {
	seconds := func(n, otherwise int32) time.Duration {
		if n <= 0 {
			n = otherwise
		}
		return time.Duration(n) * time.Second
	}
	times := func(n, otherwise int32) int {
		if n <= 0 {
			return int(otherwise)
		}
		return int(n)
	}
	return timing{delay: seconds(spec.InitialDelaySeconds, 0), period: seconds(spec.PeriodSeconds, 10),
		timeout: min(seconds(spec.TimeoutSeconds, 1), longestTimeout), succeeds: times(spec.SuccessThreshold, 1),
		fails: times(spec.FailureThreshold, 3)}
}

// track is what is known of one probe.
type track struct {
	// container is the ID of the container that was probed last, "" for none.
	container string
	state     v1alpha1.ContainerProbeState
	last      kind
	row       int // how many outcomes of this kind came one after the other
}

// begin returns the track of a probe whose last reported state is known: a daemon that starts goes on from there.
func begin(reported v1alpha1.ContainerProbeState) track {
	if reported.State == "" {
		reported.State = v1alpha1.ProbeUnknown
	}
	return track{state: reported}
}

// on notes which container runs. Another one than before begins anew: nothing is known of it.
func (t *track) on(container string, now time.Time) {
	if before := t.container; before != container {
		t.container, t.last, t.row = container, nothing, 0
		if before != "" {
			t.set(v1alpha1.ProbeUnknown, "", now)
		}
	}
}

// take takes the next outcome.
func (t *track) take(o outcome, limits timing, now time.Time) {
	if o.kind == t.last {
		t.row++
	} else {
		t.last, t.row = o.kind, 1
	}
	switch {
	case o.kind == stopped:
		t.set(v1alpha1.ProbeFailed, o.message, now)
	case o.kind == succeeds && t.row >= limits.succeeds:
		t.set(v1alpha1.ProbeSucceeded, o.message, now)
	case o.kind == fails && t.row >= limits.fails:
		t.set(v1alpha1.ProbeFailed, o.message, now)
	case o.kind == unreachable && t.row >= limits.fails:
		t.set(v1alpha1.ProbeUnknown, o.message, now)
	}
}

// set sets the state. The times change only with what is said.
func (t *track) set(state v1alpha1.ProbeState, message string, now time.Time) {
	message = cut(message)
	if t.state.State == state && t.state.Message == message {
		return
	}
	at := metav1.NewTime(now)
	if t.state.State != state || t.state.LastTransitionTime.IsZero() {
		t.state.LastTransitionTime = at
	}
	t.state.State, t.state.Message, t.state.LastProbeTime = state, message, at
}

// cut cuts a message at the limit, between characters.
func cut(message string) string {
	message = strings.TrimSpace(strings.ToValidUTF8(message, "?"))
	if len(message) > longestMessage {
		message = strings.ToValidUTF8(message[:longestMessage], "")
	}
	return message
}
