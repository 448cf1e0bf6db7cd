package podstate

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// Condition returns a pod's condition of that type, or nil. It points into the pod.
func Condition(pod *corev1.Pod, conditionType corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == conditionType {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// Active reports whether the pod has neither ended nor been asked to terminate.
func Active(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && !Ended(pod)
}

// Ended reports whether all containers of the pod have ended for good.
func Ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// LivesAtLeast is for how long a pod is not replaced, however soon it ends: pods that a node refuses again and again
// would otherwise be created as fast as the API server can.
const LivesAtLeast = 10 * time.Second

// EndedSoon returns how long the replacement of a pod that has ended still waits.
func EndedSoon(pod *corev1.Pod, now time.Time) time.Duration {
	age := now.Sub(pod.CreationTimestamp.Time)
	if age < 0 { // the clocks differ: the age is not known
		return 0
	}
	return max(0, LivesAtLeast-age)
}

// Ready reports whether the pod is running and Ready.
func Ready(pod *corev1.Pod) bool {
	if pod.Status.Phase != corev1.PodRunning {
		return false
	}
	ready := Condition(pod, corev1.PodReady)
	if ready == nil || ready.Status != corev1.ConditionTrue {
		return false
	}
	// The kubelet takes Ready back a moment after our gate shuts; the gate is the truth in between.
	gate := Condition(pod, v1beta1.InPlaceUpdateReady)
	return gate == nil || gate.Status == corev1.ConditionTrue
}

// Unschedulable reports whether the scheduler has found no node for the pod. A pod that it has not looked at yet is
// not.
func Unschedulable(pod *corev1.Pod) bool {
	if pod.Spec.NodeName != "" || Ended(pod) {
		return false
	}
	scheduled := Condition(pod, corev1.PodScheduled)
	return scheduled != nil && scheduled.Status == corev1.ConditionFalse &&
		scheduled.Reason == corev1.PodReasonUnschedulable
}

// Available reports whether the pod is available at now. If only the passing of time is missing, wait says how long;
// otherwise it is 0.
func Available(pod *corev1.Pod, minReadySeconds int32, now time.Time) (available bool, wait time.Duration) {
	if !Ready(pod) || markedUnavailable(pod) {
		return false, 0
	}
	if minReadySeconds <= 0 {
		return true, 0
	}
	since := Condition(pod, corev1.PodReady).LastTransitionTime.Time
	if wait = since.Add(time.Duration(minReadySeconds) * time.Second).Sub(now); wait > 0 {
		return false, wait
	}
	return true, 0
}

func markedUnavailable(pod *corev1.Pod) bool {
	for key := range pod.Labels {
		if strings.HasPrefix(key, v1beta1.UnavailableLabelPrefix) {
			return true
		}
	}
	return false
}

// Counters are the numbers of a workload's status.
type Counters struct {
	Replicas, Ready, Available              int32
	Updated, UpdatedReady, UpdatedAvailable int32
}

// Add counts one active pod.
func (c *Counters) Add(updated, ready, available bool) {
	c.Replicas++
	c.Ready += one(ready)
	c.Available += one(available)
	if updated {
		c.Updated++
		c.UpdatedReady += one(ready)
		c.UpdatedAvailable += one(available)
	}
}

func one(yes bool) int32 {
	if yes {
		return 1
	}
	return 0
}

// Sooner returns the smaller of two waits, where 0 means none. The hub has one of its own in package decision: it does
// not import this package.
func Sooner(a, b time.Duration) time.Duration {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}

// statusLag is how old the condition Ready of a pod can be: the node of the pod may have stopped, which the node
// controller notices after up to 50 s, and later if it stopped as well. The clocks of nodes differ by less.
const statusLag = 2 * time.Minute

// RanThroughout reports whether one of the pods has been Ready since before a time, so that its node cannot have been
// off in between.
func RanThroughout(pods []*corev1.Pod, since, now time.Time) bool {
	return now.Sub(since) > statusLag && slices.ContainsFunc(pods, func(pod *corev1.Pod) bool {
		return Ready(pod) && Condition(pod, corev1.PodReady).LastTransitionTime.Time.Before(since.Add(-statusLag))
	})
}
