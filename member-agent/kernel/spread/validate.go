package spread

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
)

// Validate tells what is wrong with a WorkloadSpread, with the field, the value and what to do: what no schema can see
// (selectors, tolerations and patches that the API server would refuse in every pod), and again what decides where pods
// go, for objects that were stored before their schema. The message is for a condition. That the target exists is not
// looked at.
func Validate(ws *v1beta1.WorkloadSpread) error {
	target := TargetOf(ws)
	if target.Kind == "" || target.Name == "" {
		return errors.New("targetRef names no workload: give its apiVersion, kind and name")
	}
	if filter := ws.Spec.TargetFilter; filter != nil && filter.Selector != nil {
		if _, err := metav1.LabelSelectorAsSelector(filter.Selector); err != nil {
			return fmt.Errorf("targetFilter.selector cannot be used: %w; correct it", err)
		}
	}
	if len(ws.Spec.Subsets) == 0 {
		return errors.New("subsets is empty: give at least one subset")
	}
	seen := map[string]bool{}
	for i := range ws.Spec.Subsets {
		s := &ws.Spec.Subsets[i]
		if s.Name == "" || seen[s.Name] {
			return fmt.Errorf("subsets[%d].name is %q: give each subset a name of its own", i, s.Name)
		}
		seen[s.Name] = true
		if err := validateSubset(s); err != nil {
			return fmt.Errorf("subset %s: %w", s.Name, err)
		}
	}
	return validateCaps(ws.Spec.Subsets, target)
}

// validateCaps checks the caps together.
func validateCaps(subsets []v1beta1.WorkloadSpreadSubset, target Target) error {
	var numbers, percentages []string
	for i := range subsets {
		switch limit := subsets[i].MaxReplicas; {
		case limit == nil:
		case limit.Type == intstr.Int:
			numbers = append(numbers, subsets[i].Name)
		default:
			percentages = append(percentages, subsets[i].Name)
		}
	}
	switch {
	case len(numbers) > 0 && len(percentages) > 0:
		return fmt.Errorf("maxReplicas is an integer for %s and a percentage for %s: use one or the other in all subsets",
			strings.Join(numbers, ", "), strings.Join(percentages, ", "))
	case target.Ordinal() && len(percentages) > 0:
		return fmt.Errorf(
			"maxReplicas is a percentage for %s, but the pods of a StatefulSet are spread by their ordinals: give integers",
			strings.Join(percentages, ", "),
		)
	}
	return nil
}

func validateSubset(s *v1beta1.WorkloadSpreadSubset) error {
	if s.MaxReplicas != nil {
		if _, err := budget.Scaled(*s.MaxReplicas, 1, budget.Up); err != nil {
			return fmt.Errorf("maxReplicas: %w", err)
		}
	}
	if !empty(s.RequiredNodeSelector) {
		if _, err := nodeaffinity.NewNodeSelector(&corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{*s.RequiredNodeSelector}}); err != nil {
			return fmt.Errorf("requiredNodeSelector cannot be used: %w; correct it", err)
		}
	}
	if _, err := nodeaffinity.NewPreferredSchedulingTerms(s.PreferredNodeSelector); err != nil {
		return fmt.Errorf("preferredNodeSelector cannot be used: %w; correct it", err)
	}
	for i := range s.PreferredNodeSelector {
		if weight := s.PreferredNodeSelector[i].Weight; weight < 1 || weight > 100 {
			return fmt.Errorf("preferredNodeSelector[%d].weight is %d: give 1 to 100", i, weight)
		}
	}
	for i := range s.Tolerations {
		if err := validateToleration(&s.Tolerations[i]); err != nil {
			return fmt.Errorf("tolerations[%d]%w", i, err)
		}
	}
	return validatePatch(s)
}

// validateToleration says what the API server says of a toleration in a pod.
func validateToleration(t *corev1.Toleration) error {
	if t.Key != "" {
		if wrong := validation.IsQualifiedName(t.Key); len(wrong) > 0 {
			return fmt.Errorf(".key is %q: %s", t.Key, strings.Join(wrong, "; "))
		}
	}
	switch {
	case t.Key == "" && t.Operator != corev1.TolerationOpExists:
		return fmt.Errorf(" has no key, which only the operator Exists allows; the operator is %q", t.Operator)
	case t.Operator == corev1.TolerationOpExists && t.Value != "":
		return fmt.Errorf(".value is %q: the operator Exists allows no value", t.Value)
	case t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute:
		return fmt.Errorf(".effect is %q: tolerationSeconds is for the effect NoExecute alone", t.Effect)
	}
	if wrong := validation.IsValidLabelValue(t.Value); len(wrong) > 0 {
		return fmt.Errorf(".value is %q: %s", t.Value, strings.Join(wrong, "; "))
	}
	switch t.Effect {
	case "", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
		return nil
	}
	return fmt.Errorf(".effect is %q: give NoSchedule, PreferNoSchedule or NoExecute, or none for all", t.Effect)
}

// validatePatch refuses patches that are not part of a pod, or that ask for what would never end.
func validatePatch(s *v1beta1.WorkloadSpreadSubset) error {
	if noPatch(s) {
		return nil
	}
	var object map[string]any
	if err := json.Unmarshal(s.Patch.Raw, &object); err != nil {
		return fmt.Errorf("patch is no object: %w", err)
	}
	pod, err := patched(&corev1.Pod{}, s)
	if err != nil {
		return fmt.Errorf("patch is no part of a pod: %w", err)
	}
	if _, ok := pod.Labels[v1beta1.LabelSpecifiedDelete]; ok {
		return fmt.Errorf(
			"patch has the label %s, which asks to delete every pod as soon as it is made: remove it",
			v1beta1.LabelSpecifiedDelete,
		)
	}
	return nil
}
