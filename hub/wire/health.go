package wire

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/topology/failover"
)

// HealthOf returns the health of the members that take part, as far as the hub has told it in their conditions. A
// member that was never heard of takes no part yet.
func HealthOf(members []topology.MemberCluster) []failover.Member {
	var out []failover.Member
	for i := range members {
		m := &members[i]
		ready := meta.FindStatusCondition(m.Status.Conditions, topology.MemberReady)
		if m.DeletionTimestamp != nil || !meta.IsStatusConditionTrue(m.Status.Conditions, topology.MemberAccepted) ||
			ready == nil || ready.Status != metav1.ConditionTrue && ready.Reason != topology.ReasonLeaseExpired &&
			ready.Reason != topology.ReasonNotReadyInKarmada {
			continue
		}
		health := failover.Member{
			Name:     m.Name,
			NotReady: ready.Status != metav1.ConditionTrue,
			Since:    ready.LastTransitionTime.Time,
		}
		if health.NotReady {
			if held := meta.FindStatusCondition(m.Status.Conditions, topology.MemberFailoverHeld); held != nil {
				health.Held = held.Status == metav1.ConditionTrue
				if !health.Held {
					health.Released = held.LastTransitionTime.Time
				}
			}
			health.Confirmed = m.Spec.Fence != nil && m.Spec.Fence.LostSince.Time.Equal(health.Since)
		}
		out = append(out, health)
	}
	return out
}
