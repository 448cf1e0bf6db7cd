package admission

import (
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// requirementsOf returns what the selector requires of the labels of a namespace, in a canonical order.
func requirementsOf(selector *metav1.LabelSelector) []metav1.LabelSelectorRequirement {
	if selector == nil {
		return nil
	}
	var requirements []metav1.LabelSelectorRequirement
	for _, key := range slices.Sorted(maps.Keys(selector.MatchLabels)) {
		requirements = append(requirements, metav1.LabelSelectorRequirement{
			Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{selector.MatchLabels[key]},
		})
	}
	for _, requirement := range selector.MatchExpressions {
		requirement.Values = slices.Compact(slices.Sorted(slices.Values(requirement.Values)))
		requirements = append(requirements, requirement)
	}
	slices.SortFunc(requirements, func(a, b metav1.LabelSelectorRequirement) int {
		return strings.Compare(textOf([]metav1.LabelSelectorRequirement{a}), textOf([]metav1.LabelSelectorRequirement{b}))
	})
	return requirements
}

// textOf returns a text that only equal requirements have.
func textOf(requirements []metav1.LabelSelectorRequirement) string {
	var text strings.Builder
	for _, requirement := range requirements {
		text.WriteString(
			requirement.Key + " " + string(requirement.Operator) + " " + strings.Join(requirement.Values, ",") + ";",
		)
	}
	return text.String()
}

func containsRequirement(requirements []metav1.LabelSelectorRequirement, one metav1.LabelSelectorRequirement) bool {
	return slices.ContainsFunc(requirements, func(r metav1.LabelSelectorRequirement) bool {
		return r.Key == one.Key && r.Operator == one.Operator && slices.Equal(r.Values, one.Values)
	})
}

// within returns the entry for those of its namespaces that also satisfy the requirements.
func (e entry) within(requirements ...metav1.LabelSelectorRequirement) entry {
	e.selector = slices.Clone(e.selector)
	for _, requirement := range requirements {
		if !containsRequirement(e.selector, requirement) {
			e.selector = append(e.selector, requirement)
		}
	}
	return e
}

// complementOf returns the requirement that exactly the other namespaces satisfy.
func complementOf(requirement metav1.LabelSelectorRequirement) metav1.LabelSelectorRequirement {
	switch requirement.Operator {
	case metav1.LabelSelectorOpIn:
		requirement.Operator = metav1.LabelSelectorOpNotIn
	case metav1.LabelSelectorOpNotIn:
		requirement.Operator = metav1.LabelSelectorOpIn
	case metav1.LabelSelectorOpExists:
		requirement.Operator = metav1.LabelSelectorOpDoesNotExist
	case metav1.LabelSelectorOpDoesNotExist:
		requirement.Operator = metav1.LabelSelectorOpExists
	}
	return requirement
}

// disjoint reports whether no namespace satisfies both. It finds what two requirements for one label exclude.
func disjoint(some []metav1.LabelSelectorRequirement, others ...metav1.LabelSelectorRequirement) bool {
	return slices.ContainsFunc(some, func(a metav1.LabelSelectorRequirement) bool {
		return slices.ContainsFunc(others, func(b metav1.LabelSelectorRequirement) bool {
			return a.Key == b.Key && (excludes(a, b) || excludes(b, a))
		})
	})
}

// excludes reports whether no label that satisfies a satisfies b; it knows one order of the operators.
func excludes(a, b metav1.LabelSelectorRequirement) bool {
	in := func(requirement metav1.LabelSelectorRequirement) func(string) bool {
		return func(value string) bool { return slices.Contains(requirement.Values, value) }
	}
	switch {
	case b.Operator == metav1.LabelSelectorOpDoesNotExist:
		return a.Operator == metav1.LabelSelectorOpIn || a.Operator == metav1.LabelSelectorOpExists
	case a.Operator == metav1.LabelSelectorOpIn && b.Operator == metav1.LabelSelectorOpIn:
		return !slices.ContainsFunc(a.Values, in(b))
	case a.Operator == metav1.LabelSelectorOpIn && b.Operator == metav1.LabelSelectorOpNotIn:
		return !slices.ContainsFunc(a.Values, func(value string) bool { return !in(b)(value) })
	}
	return false
}
