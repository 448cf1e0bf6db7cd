package servertime_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/go-logr/logr"
	testclock "k8s.io/utils/clock/testing"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/servertime"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// world is a machine and an API server with a clock each; time passes for both.
type world struct {
	t       *testing.T
	machine *testclock.FakeClock
	server  time.Time
	clock   *servertime.Clock
	// slow is how long the server takes to answer.
	slow time.Duration
}

func newWorld(t *testing.T, machineAhead time.Duration) *world {
	machine := testclock.NewFakeClock(noon.Add(machineAhead))
	return &world{t: t, machine: machine, server: noon, clock: servertime.New(machine, logr.Discard())}
}

func (w *world) pass(d time.Duration) {
	w.machine.Step(d)
	w.server = w.server.Add(d)
}

// RoundTrip answers half of the time after the request was sent.
func (w *world) RoundTrip(*http.Request) (*http.Response, error) {
	w.pass(w.slow / 2)
	response := &http.Response{Header: http.Header{"Date": {w.server.UTC().Format(http.TimeFormat)}}, Body: http.NoBody}
	w.pass(w.slow / 2)
	return response, nil
}

func (w *world) ask() {
	w.t.Helper()
	request, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, "http://server/", http.NoBody)
	if err != nil {
		w.t.Fatal(err)
	}
	response, err := w.clock.Wrap(w).RoundTrip(request)
	if err != nil {
		w.t.Fatal(err)
	}
	response.Body.Close()
}

// TestNeverAheadOfTheServer asks at many moments of a second, with machines that are off by any time.
func TestNeverAheadOfTheServer(t *testing.T) {
	for _, off := range []time.Duration{-time.Hour, -3 * time.Minute, -5 * time.Second, 5 * time.Second, 3 * time.Minute,
		24 * time.Hour} {
		for _, slow := range []time.Duration{0, 300 * time.Millisecond, 4 * time.Second} {
			for part := range 10 {
				w := newWorld(t, off)
				w.pass(time.Duration(part) * 100 * time.Millisecond)
				w.slow = slow
				w.ask()
				w.pass(6 * time.Second)
				w.ask()
				if behind := w.server.Sub(w.clock.Now()); behind < 0 && (off.Abs() > slow+4*time.Second) ||
					behind > slow+5*time.Second {
					t.Errorf("a machine %s ahead, an answer after %s: the clock is %s behind the server", off, slow, behind)
				}
				w.pass(time.Minute)
				w.slow = 0
				w.ask()
				if apart := w.server.Sub(w.clock.Now()).Abs(); apart > 3*time.Second {
					t.Errorf("a machine %s ahead: after a quick answer the clock is still %s from the server", off, apart)
				}
			}
		}
	}
}

func TestAMachineThatIsRightIsLeftAlone(t *testing.T) {
	for _, off := range []time.Duration{-2 * time.Second, 0, 900 * time.Millisecond, 2 * time.Second} {
		w := newWorld(t, off)
		for range 100 {
			w.pass(370 * time.Millisecond)
			w.ask()
			if got := w.clock.Now(); !got.Equal(w.machine.Now()) {
				t.Fatalf("a machine %s ahead: the clock is %s from the machine's", off, got.Sub(w.machine.Now()))
			}
		}
	}
}

// TestAMachineThatWasSuspended: time went by for the server only.
func TestAMachineThatWasSuspended(t *testing.T) {
	w := newWorld(t, 0)
	w.ask()
	w.server = w.server.Add(8 * time.Hour)
	w.ask()
	if behind := w.server.Sub(w.clock.Now()); behind < time.Hour {
		t.Errorf("the clock believes one answer: it is %s behind the server", behind)
	}
	w.pass(6 * time.Second)
	w.ask()
	if behind := w.server.Sub(w.clock.Now()); behind < 0 || behind > time.Second {
		t.Errorf("the clock is %s behind the server", behind)
	}
}

// TestTheFirstAnswerSetsTheClock: an agent that begins on a machine a minute behind would take pods that are available
// for pods that are not, and let more of them go than the limits say.
func TestTheFirstAnswerSetsTheClock(t *testing.T) {
	for _, off := range []time.Duration{-time.Minute, time.Minute} {
		w := newWorld(t, off)
		w.ask()
		if behind := w.server.Sub(w.clock.Now()); behind < 0 || behind > time.Second {
			t.Errorf("a machine %s ahead: after the first answer the clock is %s behind the server", off, behind)
		}
	}
}

// TestOfSeveralServersTheSlowestCounts: one server is 20 s before the other, and they answer in turn.
func TestOfSeveralServersTheSlowestCounts(t *testing.T) {
	w := newWorld(t, time.Hour)
	const apart = 20 * time.Second
	for range 100 {
		w.pass(300 * time.Millisecond)
		w.ask()
		w.server = w.server.Add(apart)
		w.ask()
		w.server = w.server.Add(-apart)
		if behind := w.server.Sub(w.clock.Now()); behind < 0 || behind > 3*time.Second {
			t.Fatalf("the clock is %s behind the slower server", behind)
		}
	}
}

// TestSettingTheMachinesClockChangesNothing: a real clock goes on by its monotonic reading.
func TestSettingTheMachinesClockChangesNothing(t *testing.T) {
	machine := &set{FakeClock: testclock.NewFakeClock(noon)}
	c := servertime.New(machine, logr.Discard())
	before := c.Now()
	machine.off = 3 * time.Minute
	machine.Step(time.Second)
	if got := c.Since(before); got != time.Second {
		t.Errorf("%s went by, want 1 s", got)
	}
}

// set is a machine whose wall time was set: Since goes by the monotonic reading.
type set struct {
	*testclock.FakeClock
	off time.Duration
}

func (s *set) Now() time.Time { return s.FakeClock.Now().Add(s.off) }

func TestAnswersWithoutATimeSayNothing(t *testing.T) {
	w := newWorld(t, time.Hour)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://server/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := w.clock.Wrap(mute{}).RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if got := w.clock.Now(); !got.Equal(w.machine.Now()) {
		t.Errorf("the clock is %s from the machine's", got.Sub(w.machine.Now()))
	}
}

type mute struct{}

func (mute) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{Header: http.Header{"Date": {"yesterday"}}, Body: http.NoBody}, nil
}
