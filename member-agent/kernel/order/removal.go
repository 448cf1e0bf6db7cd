package order

import (
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
)

// Removal orders pods that may be removed.
type Removal struct {
	// MinReadySeconds and Now tell which pods are available.
	MinReadySeconds int32
	Now             time.Time
	// Cost returns the deletion cost of a pod; nil is DeletionCost.
	Cost func(pod *corev1.Pod) int64
	// Density tells which places have too many pods; nil if that does not matter.
	Density *Density
}

// Sort sorts pods, the one to remove first in front.
func (r Removal) Sort(pods []*corev1.Pod) {
	cost := r.Cost
	if cost == nil {
		cost = DeletionCost
	}
	before := columns(pods, []Rule{unassigned, phase, r.unavailable, notReady, cost})
	after := columns(pods, []Rule{readySince, restarts, newer})
	all := slices.Concat(before, after)
	if r.Density != nil {
		// A place gets emptier with each pod that goes. So the order without crowds says which pod of a place would go
		// first, and each counts only those that would still be there.
		all = slices.Concat(before, [][]int64{r.Density.ranks(pods, permutation(pods, all))}, after)
	}
	arrange(pods, permutation(pods, all))
}

func (r Removal) unavailable(pod *corev1.Pod) int64 {
	available, _ := podstate.Available(pod, r.MinReadySeconds, r.Now)
	return falseFirst(available)
}

// DeletionCost returns the deletion cost that the annotation of the pod says; a value that is no number counts as 0, as
// it does in Kubernetes.
func DeletionCost(pod *corev1.Pod) int64 {
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
