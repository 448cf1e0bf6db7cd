package agent

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

func TestSilent(t *testing.T) {
	start := time.Unix(1000, 0)
	cases := []struct {
		name   string
		before metav1.ConditionStatus // "" for no condition
		lease  sighting
		age    time.Duration
		want   metav1.ConditionStatus
	}{
		{"it renews", "", sighting{exists: true, changed: true}, 10 * time.Second, ""},
		{"not Ready is not silent", "", sighting{exists: true, changed: true}, topology.LeaseDuration, ""},
		{"just before twice the time", "", sighting{exists: true, changed: true}, 2*topology.LeaseDuration - time.Millisecond,
			""},
		{"twice the time", "", sighting{exists: true, changed: true}, 2 * topology.LeaseDuration, metav1.ConditionTrue},
		{"also a Lease that stands still since the hub started", "", sighting{exists: true}, 2 * topology.LeaseDuration,
			metav1.ConditionTrue},
		{"known from before the hub started, and not renewed", metav1.ConditionTrue, sighting{exists: true}, 0,
			metav1.ConditionTrue},
		{"known, and the Lease is gone", metav1.ConditionTrue, sighting{}, 0, metav1.ConditionTrue},
		{"renewed", metav1.ConditionTrue, sighting{exists: true, changed: true}, 0, metav1.ConditionFalse},
		{"and silent again", metav1.ConditionFalse, sighting{exists: true, changed: true}, 2 * topology.LeaseDuration,
			metav1.ConditionTrue},
		{"no Lease was ever seen", "", sighting{}, 0, ""},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			tc.lease.since = start
			m := member("east")
			if tc.before != "" {
				m.Status.Conditions = []metav1.Condition{{Type: topology.MemberSilent, Status: tc.before}}
			}
			f := facts{member: m, hubID: "hub", lease: tc.lease, now: start.Add(tc.age)}
			_, conditions := plan(f)
			c := meta.FindStatusCondition(conditions, topology.MemberSilent)
			switch {
			case c == nil && tc.want != "":
				t.Errorf("no condition, want %s", tc.want)
			case c != nil && c.Status != tc.want:
				t.Errorf("condition %+v, want %q", c, tc.want)
			}
			if left := next(f); tc.lease.exists && tc.age < topology.LeaseDuration && left != topology.LeaseDuration-tc.age {
				t.Errorf("the next look is in %s", left)
			} else if tc.lease.exists && tc.age >= topology.LeaseDuration && left != max(2*topology.LeaseDuration-tc.age, 0) {
				t.Errorf("the next look is in %s", left)
			}
		})
	}
}
