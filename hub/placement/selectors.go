package placement

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// unreadable names the first selector of members of a policy that cannot be read, and what is wrong with it; empty if there is none.
// Those of overrides are checked with the overrides.
func unreadable(spec *topology.FederationPolicySpec) string {
	if text := wrongSelector("spec.clusters.selector", spec.Clusters.Selector); text != "" {
		return text
	}
	for i := range spec.Rollout.Waves {
		if text := wrongSelector(fmt.Sprintf("spec.rollout.waves[%d].clusters.selector", i), spec.Rollout.Waves[i].Clusters.Selector); text != "" {
			return text
		}
	}
	return ""
}

// unreadableAny is unreadable, for the selectors of workloads too.
func unreadableAny(spec *topology.FederationPolicySpec) string {
	for i := range spec.Workloads {
		if text := wrongSelector(fmt.Sprintf("spec.workloads[%d].selector", i), spec.Workloads[i].Selector); text != "" {
			return text
		}
	}
	return unreadable(spec)
}

func wrongSelector(path string, selector *metav1.LabelSelector) string {
	if _, err := metav1.LabelSelectorAsSelector(selector); err != nil {
		return fmt.Sprintf("%s cannot be read: %v", path, err)
	}
	return ""
}

// wrongTerm says which requirement on nodes can never be met, since it lacks its values; empty if there is none.
func wrongTerm(path string, term *corev1.NodeSelectorTerm) string {
	for _, part := range []struct {
		field string
		list  []corev1.NodeSelectorRequirement
	}{{"matchExpressions", term.MatchExpressions}, {"matchFields", term.MatchFields}} {
		for i := range part.list {
			r := &part.list[i]
			if (r.Operator == corev1.NodeSelectorOpIn || r.Operator == corev1.NodeSelectorOpNotIn) && len(r.Values) == 0 {
				return fmt.Sprintf("%s.%s[%d] asks for %s with operator %s and no values; name them, or use Exists or DoesNotExist", path, part.field, i, r.Key, r.Operator)
			}
		}
	}
	return ""
}
