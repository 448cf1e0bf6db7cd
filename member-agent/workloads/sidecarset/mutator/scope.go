package mutator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/admission"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/inject"
)

// scope returns which pods the API server sends: those that a SidecarSet selects.
func (m *mutator) scope(ctx context.Context) ([]admission.Scope, error) {
	sets, err := m.all(ctx) // waits for the first list
	var unknown *meta.NoKindMatchError
	if errors.As(err, &unknown) {
		return nil, nil // it is asked again when the kind is there
	}
	if err != nil {
		return nil, err
	}
	var out []admission.Scope
	for _, set := range sets {
		out = append(out, scopeOf(set))
	}
	return out, nil
}

func scopeOf(set *v1beta1.SidecarSet) admission.Scope {
	return admission.Scope{
		Name: "SidecarSet " + set.Name, FailurePolicy: failurePolicy(set),
		NamespaceSelector: set.Spec.NamespaceSelector, Condition: condition(set.Spec.Selector), Wide: outside(),
	}
}

// failurePolicy is what happens to the pods of a SidecarSet while no replica answers.
func failurePolicy(set *v1beta1.SidecarSet) admissionregistrationv1.FailurePolicyType {
	if set.Spec.Flotilla != nil && set.Spec.Flotilla.FailurePolicy == v1beta1.SidecarSetFail {
		return admissionregistrationv1.Fail
	}
	return admissionregistrationv1.Ignore
}

// outside is true in the namespaces whose pods get sidecars.
func outside() string {
	return "!(request.namespace in " + list(inject.ExemptNamespaces()) + ")"
}

// condition is the selector as an expression of CEL. It tests every field before it reads it.
func condition(selector *metav1.LabelSelector) string {
	const labels = "object.metadata.labels"
	terms := []string{outside()}
	in := func(key, values string) string {
		return fmt.Sprintf("(has(%s) && %s in %s && %s[%s] in %s)", labels, key, labels, labels, key, values)
	}
	exists := func(key string) string { return fmt.Sprintf("(has(%s) && %s in %s)", labels, key, labels) }
	for _, key := range slices.Sorted(maps.Keys(selector.MatchLabels)) {
		terms = append(terms, in(strconv.Quote(key), list([]string{selector.MatchLabels[key]})))
	}
	for _, r := range selector.MatchExpressions {
		key := strconv.Quote(r.Key)
		switch r.Operator {
		case metav1.LabelSelectorOpIn:
			terms = append(terms, in(key, list(r.Values)))
		case metav1.LabelSelectorOpNotIn:
			terms = append(terms, "!"+in(key, list(r.Values)))
		case metav1.LabelSelectorOpExists:
			terms = append(terms, exists(key))
		case metav1.LabelSelectorOpDoesNotExist:
			terms = append(terms, "!"+exists(key))
		}
	}
	return strings.Join(terms, " && ")
}

// list writes texts as a list of CEL. Names and values of labels need no more than quotes.
func list(texts []string) string {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = strconv.Quote(text)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}
