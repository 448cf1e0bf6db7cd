package checks

import (
	"context"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/topology/waves"
)

// desk is an Asker whose answers and pauses a test gives.
type desk struct {
	*Asker
	asked   chan string        // the URL of each question
	answers chan string        // why each does not hold
	pauses  chan time.Duration // that come between
	next    chan time.Time     // ends a pause
}

func newDesk(t *testing.T) *desk {
	d := &desk{asked: make(chan string), answers: make(chan string), pauses: make(chan time.Duration, 10),
		next: make(chan time.Time)}
	d.Asker = newAsker(clocktesting.NewFakePassiveClock(time.Unix(100, 0)),
		func(pause time.Duration) <-chan time.Time {
			d.pauses <- pause
			return d.next
		},
		func(ctx context.Context, q *topology.WaveHTTP) (string, string) {
			select {
			case d.asked <- q.URL:
			case <-ctx.Done():
				return "nobody listens", ""
			}
			select {
			case unmet := <-d.answers:
				return unmet, "answered"
			case <-ctx.Done():
				return "nobody listens", ""
			}
		})
	d.base = t.Context()
	return d
}

// TestAsker: a question is asked again and again, failures in a row are counted, and it ends when it is wanted no more.
func TestAsker(t *testing.T) {
	d := newDesk(t)
	key := wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: "shop", Name: "web"}
	ask := func(url string) waves.Ask {
		return waves.Ask{ID: "a", HTTP: &topology.WaveHTTP{URL: url, Interval: "7s"}}
	}
	d.Want(key, []waves.Ask{ask("one")})
	for i, step := range []struct {
		unmet    string
		failures int32
	}{{"down", 1}, {"down", 2}, {"", 0}, {"down", 1}} {
		if got := <-d.asked; got != "one" {
			t.Fatalf("asked %s", got)
		}
		d.Want(key, []waves.Ask{ask("one")}) // the same again changes nothing
		d.answers <- step.unmet
		if woken := <-d.events; woken.Object != key {
			t.Fatalf("woke %v", woken.Object)
		}
		if got := d.Answers(key)["a"]; got.Unmet != step.unmet || got.Failures != step.failures ||
			!got.At.Equal(time.Unix(100, 0)) {
			t.Errorf("step %d: %+v", i, got)
		}
		if pause := <-d.pauses; pause != 7*time.Second {
			t.Errorf("it pauses for %s", pause)
		}
		d.next <- time.Time{}
	}
	<-d.asked
	d.Want(key, []waves.Ask{ask("two")})
	if got := <-d.asked; got != "two" {
		t.Fatalf("a question that changed is asked as %s", got)
	}
	if got := d.Answers(key); len(got) != 0 {
		t.Errorf("the answer to another question counts: %v", got)
	}
	d.Want(key, nil)
	if got := d.Answers(key); len(got) != 0 || len(d.asks) != 0 {
		t.Errorf("what nobody wants is kept: %v", got)
	}
}

// TestAskerBeforeStart: nothing is asked, and nothing breaks.
func TestAskerBeforeStart(t *testing.T) {
	a := NewAsker(clocktesting.NewFakePassiveClock(time.Unix(100, 0)), false)
	a.Want(wire.Key{}, []waves.Ask{{ID: "a", HTTP: &topology.WaveHTTP{URL: "http://nowhere"}}})
	var none *Asker
	none.Want(wire.Key{}, nil)
	if len(a.Answers(wire.Key{})) != 0 || len(none.Answers(wire.Key{})) != 0 || a.NeedLeaderElection() {
		t.Error("there are answers")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Start(ctx); err != nil {
		t.Error(err)
	}
}
