// Package inject owns the question "which sidecars does this new pod get, and what becomes of it". It is pure.
//
//	match.go      which SidecarSets select the pod, with canaries instead of their bases
//	choose.go     which revision of a SidecarSet the pod gets
//	metadata.go   annotations of patchPodMetadata, and which of them are allowed
//	pod.go        containers, volumes, pull secrets, marks
//	container.go  one container: shared volumes, transferred environment
//	resources.go  computed resources
package inject

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// Selection selects pods, in a form that is quick to ask.
type Selection struct {
	pods       labels.Selector
	namespaces labels.Selector // nil: all
}

// NewSelection returns which pods a SidecarSet selects. It errs for selectors that cannot be used. An empty selector
// selects nothing.
func NewSelection(spec *v1beta1.SidecarSetSpec) (Selection, error) {
	var s Selection
	var err error
	if s.pods, err = metav1.LabelSelectorAsSelector(spec.Selector); err != nil {
		return s, fmt.Errorf("spec.selector cannot be used: %w", err)
	}
	if s.pods.Empty() {
		s.pods = labels.Nothing()
	}
	if spec.NamespaceSelector != nil {
		if s.namespaces, err = metav1.LabelSelectorAsSelector(spec.NamespaceSelector); err != nil {
			return s, fmt.Errorf("spec.namespaceSelector cannot be used: %w", err)
		}
	}
	return s, nil
}

// ExemptNamespaces are those whose pods never get sidecars. The agent's own is among them: while none of its pods runs,
// a SidecarSet with failure policy Fail would refuse them too.
func ExemptNamespaces() []string {
	return []string{metav1.NamespaceSystem, metav1.NamespacePublic, topology.SystemNamespace}
}

// Matches reports whether a pod with these labels is selected, in a namespace with this name and these labels.
func (s Selection) Matches(podLabels map[string]string, namespace string, namespaceLabels map[string]string) bool {
	return s.MatchesPod(podLabels, namespace) &&
		(s.namespaces == nil || s.namespaces.Matches(labels.Set(namespaceLabels)))
}

// MatchesPod reports whether a pod with these labels is selected in a namespace with this name, if the labels of the
// namespace do not matter or are selected too.
func (s Selection) MatchesPod(podLabels map[string]string, namespace string) bool {
	return s.pods != nil && !slices.Contains(ExemptNamespaces(), namespace) && s.pods.Matches(labels.Set(podLabels))
}

// Pods returns what the labels of selected pods match.
func (s Selection) Pods() labels.Selector {
	if s.pods == nil {
		return labels.Nothing()
	}
	return s.pods
}

// Namespaced reports whether the labels of namespaces matter.
func (s Selection) Namespaced() bool { return s.namespaces != nil }

// Base returns the name of the SidecarSet that this one replaces in the pods that it selects, "" if it is no canary.
func Base(set metav1.Object) string {
	if set.GetAnnotations()[v1beta1.AnnotationSidecarSetCanary] != "true" {
		return ""
	}
	return set.GetAnnotations()[v1beta1.AnnotationSidecarSetBase]
}

// Effective returns those of the SidecarSets that select a pod which the pod gets, by name: not the paused ones, no
// base of a canary that the pod gets, and none that a conflict keeps out.
func Effective(matched []*v1beta1.SidecarSet) []*v1beta1.SidecarSet {
	live := slices.DeleteFunc(slices.Clone(matched), func(set *v1beta1.SidecarSet) bool {
		return set.Spec.InjectionStrategy.Paused || set.DeletionTimestamp != nil
	})
	for {
		bases := map[string]bool{}
		for _, set := range live {
			bases[Base(set)] = true
		}
		out := slices.DeleteFunc(slices.Clone(live), func(set *v1beta1.SidecarSet) bool { return bases[set.Name] })
		kept := Compatible(out)
		canary := slices.IndexFunc(out, func(set *v1beta1.SidecarSet) bool {
			return Base(set) != "" && !slices.Contains(kept, set)
		})
		if canary < 0 {
			slices.SortFunc(kept, func(a, b *v1beta1.SidecarSet) int { return cmp.Compare(a.Name, b.Name) })
			return kept
		}
		// A canary that a conflict keeps out must not keep its base out.
		live = slices.DeleteFunc(live, func(set *v1beta1.SidecarSet) bool { return set == out[canary] })
	}
}
