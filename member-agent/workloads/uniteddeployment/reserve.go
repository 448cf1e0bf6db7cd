package uniteddeployment

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1 "k8s.io/api/apps/v1"

	kruise "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/counts"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/spread"
)

// LabelReservedPod is on a pod that waits, or once waited, while others run in its place; autoscalers do not count those
// with the value true. As published.
const LabelReservedPod = "apps.kruise.io/united-deployment-reserved-pod"

// The values of LabelReservedPod.
const (
	reservedValue = "true"
	releasedValue = "false"
)

// mark is a pod that gets LabelReservedPod with this value.
type mark struct {
	pod   *corev1.Pod
	value string
}

// reservation says which pods of a subset are reserved.
type reservation struct {
	pods  int32         // that are reserved once the marks are made
	marks []mark        // to be made
	next  time.Duration // until another pod is reserved or released; 0 if none waits
}

// reserve decides which pods of a child are reserved. A pod becomes it when it is stuck, or when it has no node yet and its
// subset is closed. It stays so until it has been ready for as long as the strategy says. known are our own marks, which
// the cache may not show yet.
func reserve(pods []*corev1.Pod, closed bool, known map[types.UID]string, s *schedule, now time.Time) reservation {
	var r reservation
	var waiting []*corev1.Pod
	for _, pod := range pods {
		value, ok := known[pod.UID]
		if !ok {
			value = pod.Labels[LabelReservedPod]
		}
		if value == reservedValue {
			if after, ready := readyFor(pod, s.closed, now); ready && after <= 0 {
				r.marks = append(r.marks, mark{pod, releasedValue})
				continue
			} else if ready {
				r.next = counts.Sooner(r.next, after)
			}
			r.pods++
			continue
		}
		stuck, after := spread.Stuck(pod, s.critical, now)
		r.next = counts.Sooner(r.next, after)
		switch {
		case stuck:
			r.marks = append(r.marks, mark{pod, reservedValue})
			r.pods++
		case counts.Unschedulable(pod):
			waiting = append(waiting, pod)
		}
	}
	if closed || r.pods > 0 {
		for _, pod := range waiting {
			r.marks = append(r.marks, mark{pod, reservedValue})
			r.pods++
		}
	}
	return r
}

// release takes the mark off pods that were reserved by a strategy that is not in force any more.
func release(pods []*corev1.Pod, known map[types.UID]string) []mark {
	var marks []mark
	for _, pod := range pods {
		if pod.Labels[LabelReservedPod] == reservedValue && known[pod.UID] != releasedValue {
			marks = append(marks, mark{pod, releasedValue})
		}
	}
	return marks
}

// readyFor tells whether the pod is ready, and how much is missing until it has been for so long.
func readyFor(pod *corev1.Pod, long time.Duration, now time.Time) (missing time.Duration, ready bool) {
	if !counts.Ready(pod) {
		return 0, false
	}
	since := counts.Condition(pod, corev1.PodReady).LastTransitionTime
	return since.Add(long).Sub(now), true
}

// Pods that are reserved are not available. They are not to use up what may be unavailable in a rollout: the number for the
// other pods is resolved, and the reserved ones are added.

func allowReservedInCloneSet(spec *kruise.CloneSetSpec, replicas, reserved int32) {
	rolling := spec.UpdateStrategy.RollingUpdate
	if reserved == 0 || rolling == nil {
		return
	}
	limits, err := budget.Resolve(budget.Strategy{MaxUnavailable: rolling.MaxUnavailable, MaxSurge: rolling.MaxSurge}, max(0, replicas-reserved))
	if err == nil { // else the CloneSet says what is wrong
		rolling.MaxUnavailable = new(intstr.FromInt32(limits.MaxUnavailable + reserved))
	}
}

func allowReservedInDeployment(spec *appsv1.DeploymentSpec, replicas, reserved int32) {
	if reserved == 0 || spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return
	}
	if spec.Strategy.RollingUpdate == nil {
		spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{}
	}
	rolling := spec.Strategy.RollingUpdate
	share := intstr.FromString("25%") // the default of the API
	if rolling.MaxUnavailable != nil {
		share = *rolling.MaxUnavailable
	}
	allowed, err := budget.Scaled(share, max(0, replicas-reserved), budget.Down)
	if err == nil { // else the API server says what is wrong
		rolling.MaxUnavailable = new(intstr.FromInt32(allowed + reserved))
	}
}
