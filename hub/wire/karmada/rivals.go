package karmada

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Rival names the first policy of Karmada that selects an object, as "PropagationPolicy namespace/name"; empty for
// none. A policy that cannot be read selects nothing: Karmada does not propagate by it either.
func Rival(
	ctx context.Context,
	reader client.Reader,
	gvk schema.GroupVersionKind,
	object client.Object,
) (string, error) {
	for _, kind := range PolicyKinds() {
		list := List(kind)
		var within []client.ListOption
		if kind.Kind == "PropagationPolicy" {
			within = append(within, client.InNamespace(object.GetNamespace()))
		}
		if err := reader.List(ctx, list, within...); err != nil {
			return "", fmt.Errorf("list %s of Karmada: %w", kind.Kind, err)
		}
		var names []string
		for i := range list.Items {
			policy := &PropagationPolicy{}
			if runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, policy) != nil ||
				policy.DeletionTimestamp != nil {
				continue
			}
			if slices.ContainsFunc(
				policy.Spec.ResourceSelectors,
				func(s ResourceSelector) bool { return s.selects(gvk, object) },
			) {
				name := policy.Name
				if policy.Namespace != "" {
					name = policy.Namespace + "/" + name
				}
				names = append(names, kind.Kind+" "+name)
			}
		}
		if len(names) > 0 {
			return slices.Min(names), nil
		}
	}
	return "", nil
}

// selects tells whether a selector takes an object in. Karmada compares the version too; here any version of the group
// counts, for the one that Karmada watches is the API server's preferred one, which may change.
func (s *ResourceSelector) selects(gvk schema.GroupVersionKind, object client.Object) bool {
	gv, err := schema.ParseGroupVersion(s.APIVersion)
	if err != nil || gv.Group != gvk.Group || s.Kind != gvk.Kind ||
		s.Namespace != "" && s.Namespace != object.GetNamespace() {
		return false
	}
	if s.Name != "" {
		return s.Name == object.GetName()
	}
	if s.LabelSelector == nil {
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(s.LabelSelector)
	return err == nil && selector.Matches(labels.Set(object.GetLabels()))
}
