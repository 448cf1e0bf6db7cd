package policy

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// Unreadable names the first selector of members of a policy that cannot be read, and what is wrong with it; empty if
// there is none. Those of overrides are checked with the overrides.
func Unreadable(spec *topology.FederationPolicySpec) string {
	if text := wrongSelector("spec.clusters.selector", spec.Clusters.Selector); text != "" {
		return text
	}
	for i := range spec.Rollout.Waves {
		if text := wrongSelector(fmt.Sprintf("spec.rollout.waves[%d].clusters.selector", i),
			spec.Rollout.Waves[i].Clusters.Selector); text != "" {
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
	return Unreadable(spec)
}

func wrongSelector(path string, selector *metav1.LabelSelector) string {
	if _, err := metav1.LabelSelectorAsSelector(selector); err != nil {
		return fmt.Sprintf("%s cannot be read: %v", path, err)
	}
	return ""
}
