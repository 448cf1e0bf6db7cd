package kinds

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/flotilla-dev/flotilla/hub/wire"
)

// checkSelector refuses a selector that does not select the pods that the template makes.
func checkSelector(key wire.Key, selector *metav1.LabelSelector, template map[string]string) *Rejection {
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return &Rejection{InvalidSelector, fmt.Sprintf("the selector of %s is not valid: %v; correct spec.selector", key.Sentence(), err)}
	}
	if selector == nil || s.Empty() {
		return &Rejection{InvalidSelector, fmt.Sprintf("the selector of %s is empty and would select every pod; give spec.selector labels of the pod template", key.Sentence())}
	}
	if !s.Matches(labels.Set(template)) {
		return &Rejection{InvalidSelector, fmt.Sprintf("the selector %q of %s does not match the labels %q of its pod template; make them agree",
			s.String(), key.Sentence(), labels.Set(template).String())}
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
