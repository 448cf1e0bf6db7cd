package order

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// Strategy is what a user may say about the order of an update.
type Strategy struct {
	Priority *v1beta1.UpdatePriorityStrategy
	Scatter  []v1beta1.UpdateScatterTerm
}

// ForUpdate returns the pods in the order in which they are to be updated by this strategy. done are the pods of the
// workload that have the revision already: the order of the rest goes on where they stopped, so that it is the same in
// one pass or in many. The slices that are given stay as they are. It errs, with the field in the message, if a
// selector cannot be used.
func ForUpdate(pods, done []*corev1.Pod, s Strategy) ([]*corev1.Pod, error) {
	rules, err := Priority(s.Priority)
	if err != nil {
		return nil, err
	}
	sorted := append(make([]*corev1.Pod, 0, len(pods)), pods...)
	Sort(sorted, slices.Concat([]Rule{preparing}, rules, leastHealthy())...)
	begun := 0
	for begun < len(sorted) && preparing(sorted[begun]) == 0 {
		begun++
	}
	if len(s.Scatter) == 0 || begun == len(sorted) {
		return sorted, nil
	}
	// What is being prepared has had its turn, like what is done.
	taken := append(append(make([]*corev1.Pod, 0, len(done)+begun), done...), sorted[:begun]...)
	return append(sorted[:begun:begun], Scatter(sorted[begun:], taken, s.Scatter)...), nil
}

// Update returns the rules of updating pods without a strategy: those first that are being prepared for it, then the
// least healthy, so that what is broken already is mended first.
func Update() []Rule { return slices.Concat([]Rule{preparing}, leastHealthy()) }

func leastHealthy() []Rule {
	return []Rule{unassigned, phase, notReady, readySince, restarts, newer}
}

// preparing puts pods first of which somebody has been told that they are updated, or replaced, next: whoever serves
// their hook has begun with it.
func preparing(pod *corev1.Pod) int64 {
	state := v1beta1.LifecycleState(pod.Labels[v1beta1.LabelLifecycleState])
	return falseFirst(state != v1beta1.LifecyclePreparingUpdate && state != v1beta1.LifecyclePreparingDelete)
}

// Priority returns the rules of a priorityStrategy; none if it is nil or empty. It errs if a selector cannot be used.
// If both fields are set, which the API refuses, weightPriority counts.
func Priority(strategy *v1beta1.UpdatePriorityStrategy) ([]Rule, error) {
	switch {
	case strategy == nil:
		return nil, nil
	case len(strategy.WeightPriority) > 0:
		rule, err := byWeight(strategy.WeightPriority)
		if err != nil {
			return nil, err
		}
		return []Rule{rule}, nil
	}
	rules := make([]Rule, 0, len(strategy.OrderPriority))
	for _, term := range strategy.OrderPriority {
		rules = append(rules, byValue(term.OrderedKey))
	}
	return rules, nil
}

// byWeight puts the pod first for which the weights of the terms that select it have the greatest sum.
func byWeight(terms []v1beta1.UpdatePriorityWeightTerm) (Rule, error) {
	selectors := make([]labels.Selector, len(terms))
	for i := range terms {
		selector, err := metav1.LabelSelectorAsSelector(&terms[i].MatchSelector)
		if err != nil {
			return nil, fmt.Errorf("priorityStrategy.weightPriority[%d].matchSelector cannot be used: %w", i, err)
		}
		selectors[i] = selector
	}
	return func(pod *corev1.Pod) int64 {
		var sum int64
		for i, selector := range selectors {
			if selector.Matches(labels.Set(pod.Labels)) {
				sum += int64(terms[i].Weight)
			}
		}
		return -sum
	}, nil
}

// byValue puts the pod first whose label has the greatest number. Pods without the label come last.
func byValue(key string) Rule {
	return func(pod *corev1.Pod) int64 {
		value, ok := pod.Labels[key]
		if !ok {
			return math.MaxInt64
		}
		return -number(value)
	}
}

// number returns the number that a label's value ends with: 10 for "sts-10", and 0 if it ends with none. What is too
// great for 63 bits counts as the greatest number that is not.
func number(value string) int64 {
	digits := value[len(strings.TrimRight(value, "0123456789")):]
	if digits == "" {
		return 0
	}
	// Of digits alone nothing but the range can be wrong, and then the greatest number comes back.
	n, _ := strconv.ParseInt(digits, 10, 64)
	return n
}
