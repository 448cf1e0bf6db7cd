package workloadspread

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/spread"
)

// Reasons of the condition Schedulable of a subset.
const (
	// ReasonPodsUnschedulable: pods waited for a node for too long; new pods go to other subsets.
	ReasonPodsUnschedulable = "PodsUnschedulable"
	// ReasonNoPodUnschedulable: new pods are sent to the subset.
	ReasonNoPodUnschedulable = "NoPodUnschedulable"
)

// planAdaptive closes the subsets, the last one excepted, in which pods wait in vain, opens those whose time is over,
// and names the pods that are to make room for others elsewhere.
func (p *plan) planAdaptive(o *observed, bySubset map[string][]*corev1.Pod) {
	critical, ok := spread.Critical(o.ws)
	if !ok {
		return
	}
	p.schedulable = make([]*metav1.Condition, len(o.rule.Subsets))
	for i, s := range o.rule.Subsets[:len(o.rule.Subsets)-1] {
		var stuck []*corev1.Pod
		for _, pod := range bySubset[s.Name] {
			is, after := spread.Stuck(pod, critical, o.now)
			if is {
				stuck = append(stuck, pod)
			}
			p.wake = podstate.Sooner(p.wake, after)
		}
		slices.SortFunc(stuck, byAge)
		have := schedulableOf(o.ws, s.Name)
		p.schedulable[i] = schedulable(have, stuck, critical, o.now)
		if left := reopens(p.schedulable[i], o.now); left > 0 {
			p.wake = podstate.Sooner(p.wake, left)
		}
		if !s.Open && p.schedulable[i].Status == metav1.ConditionFalse {
			p.remove = append(p.remove, stuck...)
		}
	}
}

// schedulableOf returns the condition that a subset has, nil if it has none.
func schedulableOf(ws *v1beta1.WorkloadSpread, subset string) *metav1.Condition {
	i := slices.IndexFunc(ws.Status.SubsetStatuses, func(s v1beta1.WorkloadSpreadSubsetStatus) bool {
		return s.Name == subset
	})
	if i < 0 {
		return nil
	}
	return meta.FindStatusCondition(ws.Status.SubsetStatuses[i].Conditions, v1beta1.WorkloadSpreadSubsetSchedulable)
}

// reopens returns how long a subset with this condition stays closed, 0 or less if its time is over or it is not
// closed.
func reopens(c *metav1.Condition, now time.Time) time.Duration {
	if c == nil || c.Status != metav1.ConditionFalse {
		return 0
	}
	return c.LastTransitionTime.Add(spread.ReopenAfter).Sub(now)
}

// schedulable returns the condition that a subset is to have. A closed one stays as it is until its time is over; then
// the time begins anew if pods wait in it again.
func schedulable(have *metav1.Condition, stuck []*corev1.Pod, critical time.Duration, now time.Time) *metav1.Condition {
	switch {
	case reopens(have, now) > 0:
		return have.DeepCopy()
	case len(stuck) > 0:
		return &metav1.Condition{
			Type: v1beta1.WorkloadSpreadSubsetSchedulable, Status: metav1.ConditionFalse, Reason: ReasonPodsUnschedulable,
			Message:            closedBecause(stuck, critical),
			LastTransitionTime: metav1.NewTime(now),
		}
	case have != nil && have.Status == metav1.ConditionTrue:
		return have.DeepCopy()
	}
	return &metav1.Condition{
		Type: v1beta1.WorkloadSpreadSubsetSchedulable, Status: metav1.ConditionTrue, Reason: ReasonNoPodUnschedulable,
		Message: "new pods are sent here while there is room", LastTransitionTime: metav1.NewTime(now),
	}
}

// closedBecause tells which pods waited, and what the scheduler says.
func closedBecause(stuck []*corev1.Pod, critical time.Duration) string {
	first := stuck[0]
	text := fmt.Sprintf("%s waited for a node for more than %s, and new ones go elsewhere for %s", names(stuck),
		critical, spread.ReopenAfter)
	if c := podstate.Condition(first, corev1.PodScheduled); c != nil && c.Message != "" {
		text += "; the scheduler says: " + c.Message
	}
	return text
}

// names tells some pods in words.
func names(pods []*corev1.Pod) string {
	if len(pods) == 1 {
		return "pod " + pods[0].Name
	}
	return fmt.Sprintf("pod %s and %d more", pods[0].Name, len(pods)-1)
}
