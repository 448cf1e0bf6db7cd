package order

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/counts"
)

// Rule returns the rank of a pod: the lower, the earlier; equal where the rule does not care. It is asked once for each
// pod and sorting, and must not change the pod.
type Rule func(pod *corev1.Pod) int64

// ranked is a pod with the ranks that the rules gave it.
type ranked struct {
	pod   *corev1.Pod
	ranks []int64
}

// Sort sorts pods by the rules, the first rule first, and at last by name.
func Sort(pods []*corev1.Pod, rules ...Rule) {
	items := make([]ranked, len(pods))
	ranks := make([]int64, 0, len(pods)*len(rules))
	for i, pod := range pods {
		start := len(ranks)
		for _, rule := range rules {
			ranks = append(ranks, rule(pod))
		}
		items[i] = ranked{pod: pod, ranks: ranks[start:]}
	}
	slices.SortFunc(items, func(a, b ranked) int {
		if c := slices.Compare(a.ranks, b.ranks); c != 0 {
			return c
		}
		return strings.Compare(a.pod.Name, b.pod.Name)
	})
	for i := range items {
		pods[i] = items[i].pod
	}
}

func falseFirst(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

func unassigned(pod *corev1.Pod) int64 { return falseFirst(pod.Spec.NodeName != "") }

func phase(pod *corev1.Pod) int64 {
	switch pod.Status.Phase {
	case corev1.PodPending, "":
		return 0
	case corev1.PodUnknown:
		return 1
	}
	return 2
}

func notReady(pod *corev1.Pod) int64 { return falseFirst(counts.Ready(pod)) }

// readySince puts the pod first that became ready last. Pods that are not ready are equal.
func readySince(pod *corev1.Pod) int64 {
	if !counts.Ready(pod) {
		return 0
	}
	return -counts.Condition(pod, corev1.PodReady).LastTransitionTime.Unix()
}

// restarts puts the pod first of which one container has restarted most often.
func restarts(pod *corev1.Pod) int64 {
	var most int32
	for i := range pod.Status.ContainerStatuses {
		most = max(most, pod.Status.ContainerStatuses[i].RestartCount)
	}
	return -int64(most)
}

func newer(pod *corev1.Pod) int64 { return -pod.CreationTimestamp.Unix() }
