package disruption

import (
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/inplace"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
)

// Available reports whether the pod counts as available, apart from records: ready, with no mark as unavailable, and
// with no update in place on its way.
func Available(pod *corev1.Pod, now time.Time) bool {
	if !podstate.Active(pod) {
		return false
	}
	if available, _ := podstate.Available(pod, 0, now); !available {
		return false
	}
	progress, _ := inplace.Observe(pod, now)
	return progress == inplace.Settled || progress == inplace.Finished
}

// Ignored reports whether operations on the pod are always allowed: by its annotation, or by ignoredPodSelector.
func Ignored(spec *v1beta1.PodUnavailableBudgetSpec, pod *corev1.Pod) bool {
	if yes, err := strconv.ParseBool(pod.Annotations[v1beta1.AnnotationNoProtect]); err == nil && yes {
		return true
	}
	return spec.IgnoredPodSelector != nil && matches(spec.IgnoredPodSelector, pod)
}

// Selects reports whether spec.selector selects the pod; false for a budget that has a targetRef.
func Selects(spec *v1beta1.PodUnavailableBudgetSpec, pod *corev1.Pod) bool {
	return spec.Selector != nil && spec.TargetReference == nil && matches(spec.Selector, pod)
}

// Selector returns what Selects matches pods with.
func Selector(spec *v1beta1.PodUnavailableBudgetSpec) labels.Selector {
	if spec.TargetReference != nil {
		return labels.Nothing()
	}
	return selectorOf(spec.Selector)
}

// selectorOf returns the selector. An empty or invalid one selects nothing.
func selectorOf(selector *metav1.LabelSelector) labels.Selector {
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil || s.Empty() {
		return labels.Nothing()
	}
	return s
}

// matches reports whether the selector selects the pod. Most selectors fail by a label, which is much quicker to find
// out than to validate the selector.
func matches(selector *metav1.LabelSelector, pod *corev1.Pod) bool {
	for key, value := range selector.MatchLabels {
		if have, ok := pod.Labels[key]; !ok || have != value {
			return false
		}
	}
	return selectorOf(selector).Matches(labels.Set(pod.Labels))
}

// Protects reports whether the budget limits the operation.
func Protects(pub *v1beta1.PodUnavailableBudget, operation v1beta1.PubOperation) bool {
	operations := pub.Spec.ProtectOperations
	if len(operations) == 0 {
		for name := range strings.SplitSeq(pub.Annotations[v1beta1.AnnotationProtectOperations], ",") {
			if o := v1beta1.PubOperation(strings.TrimSpace(name)); slices.Contains(v1beta1.PubOperations(), o) {
				operations = append(operations, o)
			}
		}
	}
	if len(operations) == 0 {
		return operation != v1beta1.PubResizeOperation
	}
	return slices.Contains(operations, operation)
}

// Desired returns how many of total pods must stay available. Percentages round up. A limit that cannot be read leaves
// all of them.
func Desired(spec *v1beta1.PodUnavailableBudgetSpec, total int32) int32 {
	scaled := func(limit *intstr.IntOrString) (int32, bool) {
		n, err := budget.Scaled(*limit, total, budget.Up)
		return n, err == nil
	}
	if spec.MaxUnavailable != nil {
		if n, ok := scaled(spec.MaxUnavailable); ok {
			return max(0, total-n)
		}
	} else if spec.MinAvailable != nil {
		if n, ok := scaled(spec.MinAvailable); ok {
			return n
		}
	}
	return total
}
