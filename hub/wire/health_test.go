package wire

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

func TestHealthTellsOfBeingHeld(t *testing.T) {
	since, released := metav1.NewTime(time.Unix(100, 0)), metav1.NewTime(time.Unix(200, 0))
	for _, tc := range []struct {
		status   metav1.ConditionStatus // of FailoverHeld, empty for none
		held     bool
		released time.Time
	}{
		{"", false, time.Time{}},
		{metav1.ConditionTrue, true, time.Time{}},
		{metav1.ConditionFalse, false, released.Time},
	} {
		m := topology.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "west"}}
		m.Status.Conditions = []metav1.Condition{
			{Type: topology.MemberAccepted, Status: metav1.ConditionTrue},
			{Type: topology.MemberReady, Status: metav1.ConditionFalse, Reason: topology.ReasonLeaseExpired,
				LastTransitionTime: since},
		}
		if tc.status != "" {
			m.Status.Conditions = append(m.Status.Conditions,
				metav1.Condition{Type: topology.MemberFailoverHeld, Status: tc.status, LastTransitionTime: released})
		}
		health := HealthOf([]topology.MemberCluster{m})
		if len(health) != 1 || health[0].Held != tc.held || !health[0].Released.Equal(tc.released) ||
			!health[0].Since.Equal(since.Time) {
			t.Errorf("%q: %+v", tc.status, health)
		}
	}
}
