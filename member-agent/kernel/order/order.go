package order

import (
	"cmp"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/counts"
)

// Rule compares two pods: negative if a comes first, 0 if the rule does not care.
type Rule func(a, b *corev1.Pod) int

// Sort sorts pods by the rules, the first one first, and at last by name.
func Sort(pods []*corev1.Pod, rules ...Rule) {
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		for _, rule := range rules {
			if c := rule(a, b); c != 0 {
				return c
			}
		}
		return cmp.Compare(a.Name, b.Name)
	})
}

// Removal returns the rules of removing pods. crowd tells how many pods of the workload a node runs; see Crowd.
func Removal(crowd map[string]int) []Rule {
	return []Rule{unassigned, phase, notReady, deletionCost, crowded(crowd), readySince, restarts, newer}
}

// Update returns the rules of updating pods: the least healthy first, so that what is broken already is mended first.
func Update() []Rule {
	return []Rule{unassigned, phase, notReady, readySince, restarts, newer}
}

// Crowd counts the pods on each node.
func Crowd(pods []*corev1.Pod) map[string]int {
	crowd := map[string]int{}
	for _, pod := range pods {
		if pod.Spec.NodeName != "" {
			crowd[pod.Spec.NodeName]++
		}
	}
	return crowd
}

func falseFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

func unassigned(a, b *corev1.Pod) int {
	return falseFirst(a.Spec.NodeName != "", b.Spec.NodeName != "")
}

func phase(a, b *corev1.Pod) int {
	return cmp.Compare(phaseRank(a.Status.Phase), phaseRank(b.Status.Phase))
}

func phaseRank(p corev1.PodPhase) int {
	switch p {
	case corev1.PodPending, "":
		return 0
	case corev1.PodUnknown:
		return 1
	}
	return 2
}

func notReady(a, b *corev1.Pod) int { return falseFirst(counts.Ready(a), counts.Ready(b)) }

func deletionCost(a, b *corev1.Pod) int { return cmp.Compare(cost(a), cost(b)) }

// cost reads the deletion cost; a value that is no number counts as 0, as it does in Kubernetes.
func cost(pod *corev1.Pod) int64 {
	text, ok := pod.Annotations[corev1.PodDeletionCost]
	if !ok {
		return 0
	}
	value, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0
	}
	return value
}

func crowded(crowd map[string]int) Rule {
	return func(a, b *corev1.Pod) int { return cmp.Compare(crowd[b.Spec.NodeName], crowd[a.Spec.NodeName]) }
}

func readySince(a, b *corev1.Pod) int {
	if !counts.Ready(a) || !counts.Ready(b) {
		return 0
	}
	since := func(p *corev1.Pod) int64 { return counts.Condition(p, corev1.PodReady).LastTransitionTime.Unix() }
	return cmp.Compare(since(b), since(a))
}

func restarts(a, b *corev1.Pod) int { return cmp.Compare(mostRestarts(b), mostRestarts(a)) }

func mostRestarts(pod *corev1.Pod) int32 {
	var most int32
	for i := range pod.Status.ContainerStatuses {
		most = max(most, pod.Status.ContainerStatuses[i].RestartCount)
	}
	return most
}

func newer(a, b *corev1.Pod) int {
	return b.CreationTimestamp.Compare(a.CreationTimestamp.Time)
}
