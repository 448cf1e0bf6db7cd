package link

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

func TestMayDisrupt(t *testing.T) {
	start := time.Unix(1000, 0)
	clk := testclock.NewFakeClock(start)
	l := &Link{config: Config{Clock: clk}, sessions: sessions{changed: make(chan struct{}, 1)}}
	object := types.NamespacedName{Namespace: "shop", Name: "web"}
	ask := func(what string, sequence int64, want bool) {
		t.Helper()
		if got := l.MayDisrupt(apps.CloneSetKind.GroupKind(), object, sequence); got != want {
			t.Errorf("%s: order %d may disrupt: %t, want %t", what, sequence, got, want)
		}
	}
	ask("the hub was never heard", 5, false)
	l.sessions.touched(start)
	ask("no session", 5, false)
	l.sessions.session.phase = open
	l.sessions.ordered = map[string]int64{"CloneSet/shop/web": 5, "CloneSet/shop/other": 9}
	ask("the order of the hub's answer", 5, true)
	ask("a newer one", 6, true)
	ask("an older one, whose permission may be lent to others", 4, false)
	clk.SetTime(start.Add(contactExpires))
	ask("40 s without contact", 5, true)
	clk.SetTime(start.Add(contactExpires + time.Millisecond))
	ask("more than that", 5, false)

	// Nobody looked at the session before the hub was heard again: it is a new one all the same.
	l.sessions.touched(clk.Now())
	ask("heard again, and not answered", 5, false)
	if l.sessions.session.phase != closed {
		t.Errorf("the session is in phase %d, want closed", l.sessions.session.phase)
	}
}

// TestMayDisruptFindsTheOrderOfEveryKind holds that orders are found by the group, too: two groups have StatefulSets.
func TestMayDisruptFindsTheOrderOfEveryKind(t *testing.T) {
	start := time.Unix(1000, 0)
	l := &Link{config: Config{Clock: testclock.NewFakeClock(start)}, sessions: sessions{changed: make(chan struct{}, 1)}}
	l.sessions.touched(start)
	l.sessions.session.phase = open
	object := types.NamespacedName{Namespace: "shop", Name: "web"}
	for _, kind := range []schema.GroupVersionKind{apps.CloneSetKind, apps.StatefulSetKind, apps.UnitedDeploymentKind} {
		key := topology.WorkloadKey(kind.GroupKind(), object.Namespace, object.Name)
		l.sessions.ordered = map[string]int64{key: 5}
		if l.MayDisrupt(kind.GroupKind(), object, 4) || !l.MayDisrupt(kind.GroupKind(), object, 5) {
			t.Errorf("%s: the order is not found", kind)
		}
	}
}

func TestElapsedGoesByTheClockThatSawMore(t *testing.T) {
	now := time.Now()
	wall := now.Round(0)
	for _, tc := range []struct {
		name     string
		from, to time.Time
		want     time.Duration
	}{
		{"both alike", now, now.Add(time.Second), time.Second},
		{"no monotonic clock", wall, wall.Add(time.Minute), time.Minute},
		{"the wall clock was set forward", now, wall.Add(time.Hour), time.Hour},
		{"never", time.Time{}, now, 1<<63 - 1},
	} {
		if got := elapsed(tc.from, tc.to); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}
