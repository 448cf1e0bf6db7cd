package spread

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
)

// ReopenAfter is how long a closed subset stays closed, as published; then new pods try it again.
const ReopenAfter = 300 * time.Second

// Critical returns how long a pod may be unschedulable in a subset, the last one excepted, before it is replaced; ok is
// false for a WorkloadSpread whose pods wait forever.
func Critical(ws *v1beta1.WorkloadSpread) (critical time.Duration, ok bool) {
	strategy := ws.Spec.ScheduleStrategy
	if strategy.Type != v1beta1.AdaptiveWorkloadSpreadScheduleStrategyType || strategy.Adaptive == nil {
		return 0, false
	}
	seconds := strategy.Adaptive.RescheduleCriticalSeconds
	if seconds == nil || *seconds <= 0 {
		return 0, false
	}
	return time.Duration(*seconds) * time.Second, true
}

// Stuck reports whether the pod has waited longer than critical for a node that the scheduler does not find: it is
// Pending, has no node, is not being deleted, its condition PodScheduled is False for the reason Unschedulable, and it
// was created more than critical ago. If only the passing of time is missing, after says how long; otherwise it is 0.
func Stuck(pod *corev1.Pod, critical time.Duration, now time.Time) (stuck bool, after time.Duration) {
	if !podstate.Active(pod) || !podstate.Unschedulable(pod) {
		return false, 0
	}
	if after = pod.CreationTimestamp.Add(critical).Sub(now); after > 0 {
		return false, after
	}
	return true, 0
}
