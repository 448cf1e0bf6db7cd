package order

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
)

// Rule returns the rank of a pod: the lower, the earlier; equal where the rule does not care. It is asked once for each
// pod and sorting, and must not change the pod.
type Rule func(pod *corev1.Pod) int64

// Sort sorts pods by the rules, the first rule first, and at last by name.
func Sort(pods []*corev1.Pod, rules ...Rule) {
	arrange(pods, permutation(pods, columns(pods, rules)))
}

func arrange(pods []*corev1.Pod, places []item) {
	given := slices.Clone(pods)
	for i := range places {
		pods[i] = given[places[i].index]
	}
}

// columns returns what each rule says of each pod.
func columns(pods []*corev1.Pod, rules []Rule) [][]int64 {
	all := make([]int64, len(pods)*len(rules))
	out := make([][]int64, len(rules))
	for i, rule := range rules {
		out[i] = all[i*len(pods) : (i+1)*len(pods)]
		for j, pod := range pods {
			out[i][j] = rule(pod)
		}
	}
	return out
}

// item is the index of a pod with its key: the greater bits first, and what does not fit in the first word in rest.
type item struct {
	key   uint64
	rest  []uint64
	index int
}

// permutation returns the indexes of the pods in the order of the columns, and at last of the names.
func permutation(pods []*corev1.Pod, columns [][]int64) []item {
	words := pack(len(pods), columns)
	items := make([]item, len(pods))
	width := len(words) / max(1, len(pods))
	for i := range items {
		key := words[i*width : (i+1)*width]
		items[i] = item{key: key[0], rest: key[1:], index: i}
	}
	slices.SortFunc(items, func(a, b item) int {
		if c := cmp.Compare(a.key, b.key); c != 0 {
			return c
		}
		if c := slices.Compare(a.rest, b.rest); c != 0 {
			return c
		}
		return strings.Compare(pods[a.index].Name, pods[b.index].Name)
	})
	return items
}

// pack returns the key of each of n pods, one after another. A column takes as many bits as its values differ in, so
// the ranks of nearly all workloads fit in one or two words, and comparing two pods is comparing these.
func pack(n int, columns [][]int64) []uint64 {
	if n == 0 {
		return nil
	}
	least, size := make([]int64, len(columns)), make([]int, len(columns))
	width, used := 1, 0
	for i, column := range columns {
		least[i] = slices.Min(column)
		// Also right if the difference does not fit in an int64.
		size[i] = bits.Len64(uint64(slices.Max(column)) - uint64(least[i]))
		if used += size[i]; used > 64 {
			width, used = width+1, size[i]
		}
	}
	words := make([]uint64, n*width)
	word, used := 0, 0
	for i, column := range columns {
		if size[i] == 0 {
			continue
		}
		if used += size[i]; used > 64 {
			word, used = word+1, size[i]
		}
		for j, rank := range column {
			at := &words[j*width+word]
			*at = *at<<size[i] | (uint64(rank) - uint64(least[i]))
		}
	}
	return words
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

func notReady(pod *corev1.Pod) int64 { return falseFirst(podstate.Ready(pod)) }

// readySince puts the pod first that became ready last. Pods that are not ready are equal.
func readySince(pod *corev1.Pod) int64 {
	if !podstate.Ready(pod) {
		return 0
	}
	return -podstate.Condition(pod, corev1.PodReady).LastTransitionTime.Unix()
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
