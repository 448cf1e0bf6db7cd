package kinds

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// checkSelector refuses a selector that does not select the pods that the template makes.
func checkSelector(key wire.Key, selector *metav1.LabelSelector, template map[string]string) *Rejection {
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return &Rejection{
			InvalidSelector,
			fmt.Sprintf("the selector of %s is not valid: %v; correct spec.selector", key.Sentence(), err),
		}
	}
	if selector == nil || s.Empty() {
		return &Rejection{
			InvalidSelector,
			fmt.Sprintf(
				"the selector of %s is empty and would select every pod; give spec.selector labels of the pod template",
				key.Sentence(),
			),
		}
	}
	if !s.Matches(labels.Set(template)) {
		return &Rejection{
			InvalidSelector,
			fmt.Sprintf("the selector %q of %s does not match the labels %q of its pod template; make them agree",
				s.String(), key.Sentence(), labels.Set(template).String()),
		}
	}
	return nil
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
				return fmt.Sprintf("%s.%s[%d] asks for %s with operator %s and no values; name them, or use Exists or DoesNotExist",
					path, part.field, i, r.Key, r.Operator)
			}
		}
	}
	return ""
}

// withoutDecided removes the requirements that the hub has decided. A zone stays, because a member may have several.
func withoutDecided(requirements []corev1.NodeSelectorRequirement) []corev1.NodeSelectorRequirement {
	return slices.DeleteFunc(requirements, func(r corev1.NodeSelectorRequirement) bool {
		return r.Key == topology.LabelCluster || r.Key == corev1.LabelTopologyRegion
	})
}

// limitPaths are the fields of a rolling update that the hub divides.
func limitPaths(under string) []string {
	return []string{under + ".partition", under + ".maxUnavailable", under + ".maxSurge", under + ".paused"}
}
