package agent

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// TestComparison holds that clocks are told to be apart once several renewals say so, that renewals that come late say
// nothing, and that what was told is not told again for a second more or less.
func TestComparison(t *testing.T) {
	const s, m = time.Second, time.Minute
	for _, tt := range []struct {
		name  string
		ahead []time.Duration
		told  []time.Duration
	}{
		{"they agree", []time.Duration{0, -s, 2 * s, -5 * s}, []time.Duration{0, 0, 0, 0}},
		{"ahead", []time.Duration{7 * m, 7*m - s, 7*m + s, 7*m - 5*s}, []time.Duration{0, 7 * m, 7 * m, 7 * m}},
		{"behind", []time.Duration{-7*m - 10*s, -7 * m, -8*m - 40*s, -7*m - s}, []time.Duration{0, -7 * m, -7 * m, -7 * m}},
		{"one that comes late", []time.Duration{-s, -2 * m, -s, -3 * m, -s}, []time.Duration{0, 0, 0, 0, 0}},
		{"set right", []time.Duration{7 * m, 7 * m, 0, 0}, []time.Duration{0, 7 * m, 7 * m, 0}},
		{"set right from behind", []time.Duration{-7 * m, -7 * m, 0}, []time.Duration{0, -7 * m, 0}},
		{"near the limit", []time.Duration{59 * s, 59 * s, 61 * s, 45 * s, 45 * s, 29 * s, 29 * s},
			[]time.Duration{0, 0, 61 * s, 61 * s, 45 * s, 45 * s, 0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var c comparison
			for i, ahead := range tt.ahead {
				if c.hear(ahead); c.told != tt.told[i] {
					t.Errorf("after renewal %d, %s ahead: told %s, want %s", i, ahead, c.told, tt.told[i])
				}
			}
		})
	}
}

// TestClocksApart holds that an agent whose clock is minutes off is Ready all the same, that the member says so with
// the remedy, also after the hub was restarted, and that it says when the clocks agree again.
func TestClocksApart(t *testing.T) {
	for _, off := range []time.Duration{11 * time.Minute, -11 * time.Minute} {
		t.Run(off.String(), func(t *testing.T) {
			w := newWorld(t)
			renew := func(off time.Duration, times int) {
				for range times {
					w.clock.Step(10 * time.Second)
					w.renew(w.clock.Now().Add(off).Unix())
					if _, err := w.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "east"}}); err != nil {
						t.Fatal(err)
					}
				}
			}
			told := func() *metav1.Condition {
				return meta.FindStatusCondition(w.get().Status.Conditions, topology.MemberClockInSync)
			}
			renew(0, 5)
			if c := told(); c != nil {
				t.Fatalf("before any difference: %+v", c)
			}
			renew(off, 9)
			c := told()
			if c == nil || c.Status != metav1.ConditionFalse || c.Reason != topology.ReasonClocksApart ||
				!strings.Contains(c.Message, "11m0s "+map[bool]string{true: "ahead of", false: "behind"}[off > 0]) ||
				!strings.Contains(c.Message, "NTP") {
				t.Fatalf("apart by %s: %+v", off, c)
			}
			if !meta.IsStatusConditionTrue(w.get().Status.Conditions, topology.MemberReady) {
				t.Error("it is not Ready")
			}
			w.is(topology.ReasonLeaseFresh, false, "what is told is not told again")
			w.restart()
			for range 5 {
				renew(off, 1)
				if now := told(); now.Status != c.Status || now.Message != c.Message {
					t.Errorf("after a restart of the hub: %+v", now)
				}
			}
			renew(0, 4)
			if c := told(); c.Status != metav1.ConditionTrue || c.Reason != topology.ReasonClocksAgree {
				t.Errorf("set right: %+v", c)
			}
		})
	}
}
