package uniteddeployment

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

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

// reserve decides which pods of a child that is to have replicas of them are reserved. A pod becomes it when it is stuck, or
// when it has no node yet and its subset is closed; as many as the child has too many, as during a surge, are left out. It
// stays so until it has been ready for as long as the strategy says. known are our own marks, which the cache may not show
// yet.
func reserve(pods []*corev1.Pod, replicas int32, closed bool, known map[types.UID]string, s *schedule, now time.Time) reservation {
	var r reservation
	var stuck, waiting []*corev1.Pod
	room := int(replicas) - len(pods)
	for _, pod := range pods {
		value, ok := known[pod.UID]
		if !ok {
			value = pod.Labels[LabelReservedPod]
		}
		is, after := spread.Stuck(pod, s.critical, now)
		switch {
		case value == reservedValue:
			missing, ready := readyFor(pod, s.closed, now)
			if ready && missing <= 0 {
				r.marks = append(r.marks, mark{pod, releasedValue})
				continue
			}
			r.next = counts.Sooner(r.next, missing)
			r.pods++
		case is:
			stuck = append(stuck, pod)
		case counts.Unschedulable(pod):
			waiting = append(waiting, pod)
			r.next = counts.Sooner(r.next, after)
		}
	}
	if closed || r.pods > 0 || len(stuck) > 0 {
		stuck = append(stuck, waiting...)
	}
	for _, pod := range stuck[:max(0, len(stuck)+min(0, room))] {
		r.marks = append(r.marks, mark{pod, reservedValue})
		r.pods++
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

// allowReserved returns how many pods of a child may be unavailable in a rollout while some are reserved, which are not
// available either: what value says of the other pods, a percentage rounded up so that a rollout goes on, and the reserved
// ones. It returns value where none is reserved, or where it cannot be read: then the child's controller says so.
func allowReserved(value *intstr.IntOrString, share string, replicas, reserved int32) *intstr.IntOrString {
	if reserved == 0 {
		return value
	}
	if value == nil {
		value = new(intstr.FromString(share))
	}
	allowed, err := budget.Scaled(*value, max(0, replicas-reserved), budget.Up)
	if err != nil {
		return value
	}
	return new(intstr.FromInt32(allowed + reserved))
}

func allowReservedInCloneSet(spec *kruise.CloneSetSpec, replicas, reserved int32) {
	if rolling := spec.UpdateStrategy.RollingUpdate; rolling != nil {
		rolling.MaxUnavailable = allowReserved(rolling.MaxUnavailable, "20%", replicas, reserved)
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
	rolling.MaxUnavailable = allowReserved(rolling.MaxUnavailable, "25%", replicas, reserved)
}
