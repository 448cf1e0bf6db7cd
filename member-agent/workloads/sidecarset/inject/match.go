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
	return !slices.Contains(ExemptNamespaces(), namespace) && s.pods.Matches(labels.Set(podLabels)) &&
		(s.namespaces == nil || s.namespaces.Matches(labels.Set(namespaceLabels)))
}

// Base returns the name of the SidecarSet that this one replaces in the pods that it selects, "" if it is no canary.
func Base(set metav1.Object) string {
	if set.GetAnnotations()[v1beta1.AnnotationSidecarSetCanary] != "true" {
		return ""
	}
	return set.GetAnnotations()[v1beta1.AnnotationSidecarSetBase]
}

// Effective returns those of the SidecarSets that select a pod which the pod gets, by name: not the paused ones, and no
// base of a canary.
func Effective(matched []*v1beta1.SidecarSet) []*v1beta1.SidecarSet {
	bases := map[string]bool{}
	for _, set := range matched {
		if base := Base(set); base != "" && !set.Spec.InjectionStrategy.Paused {
			bases[base] = true
		}
	}
	var out []*v1beta1.SidecarSet
	for _, set := range matched {
		if !set.Spec.InjectionStrategy.Paused && !bases[set.Name] && set.DeletionTimestamp == nil {
			out = append(out, set)
		}
	}
	slices.SortFunc(out, func(a, b *v1beta1.SidecarSet) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
