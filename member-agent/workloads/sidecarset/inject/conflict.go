package inject

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/marks"
)

// Conflict returns why pods cannot have the sidecars of a SidecarSet: an older one that may select the same pods has a
// container, a volume or an annotation of the same name. It is "" if there is none. A canary and its base never meet in
// a pod. An older one counts only if no conflict keeps it out of pods itself.
func Conflict(set *v1beta1.SidecarSet, others []*v1beta1.SidecarSet) string {
	before := slices.DeleteFunc(slices.Clone(others), func(other *v1beta1.SidecarSet) bool {
		return other.UID == set.UID || !older(other, set)
	})
	return Collision(set, Compatible(before))
}

// Compatible returns those of the SidecarSets that no older one of them keeps out of pods, in the order given.
func Compatible(sets []*v1beta1.SidecarSet) []*v1beta1.SidecarSet {
	sorted := slices.Clone(sets)
	slices.SortFunc(sorted, byAge)
	var kept []*v1beta1.SidecarSet
	for _, set := range sorted {
		if Collision(set, kept) == "" {
			kept = append(kept, set)
		}
	}
	return slices.DeleteFunc(slices.Clone(sets), func(set *v1beta1.SidecarSet) bool {
		return !slices.Contains(kept, set)
	})
}

// Collision returns what a SidecarSet and one of the others have of the same name, if they may select the same pods,
// whichever is older. It is "" if they have nothing.
func Collision(set *v1beta1.SidecarSet, others []*v1beta1.SidecarSet) string {
	for _, text := range Collisions(set, others) {
		return text
	}
	return ""
}

// Collisions returns all of what a SidecarSet and the others have of the same name, as Collision returns the first.
func Collisions(set *v1beta1.SidecarSet, others []*v1beta1.SidecarSet) []string {
	var out []string
	for _, other := range others {
		if other.Name == set.Name || Base(set) == other.Name || Base(other) == set.Name ||
			disjoint(set.Spec.Selector, other.Spec.Selector) ||
			disjoint(set.Spec.NamespaceSelector, other.Spec.NamespaceSelector) {
			continue
		}
		for _, what := range common(&set.Spec, &other.Spec) {
			out = append(out, fmt.Sprintf("%s is also in SidecarSet %s, which may select the same pods: give it another name, "+
				"or make the selectors exclude each other", what, other.Name))
		}
	}
	return out
}

func older(a, b *v1beta1.SidecarSet) bool { return byAge(a, b) < 0 }

func byAge(a, b *v1beta1.SidecarSet) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// common returns what has the same name in both.
func common(a, b *v1beta1.SidecarSetSpec) []string {
	var out []string
	names := containerNames(b)
	for _, name := range slices.Sorted(maps.Keys(containerNames(a))) {
		if names[name] {
			out = append(out, "container "+name)
		}
	}
	for i := range a.Volumes {
		for j := range b.Volumes {
			if a.Volumes[i].Name == b.Volumes[j].Name && !equality.Semantic.DeepEqual(a.Volumes[i].Volume, b.Volumes[j].Volume) {
				out = append(out, "another volume "+a.Volumes[i].Name)
			}
		}
	}
	return append(out, commonAnnotations(a.PatchPodMetadata, b.PatchPodMetadata)...)
}

func containerNames(spec *v1beta1.SidecarSetSpec) map[string]bool {
	out := map[string]bool{}
	for _, name := range marks.Names(spec) {
		out[name] = true
	}
	for i := range spec.InitContainers {
		out[spec.InitContainers[i].Name] = true
	}
	return out
}

// commonAnnotations returns the annotations that both set as a whole. Merge patches go together.
func commonAnnotations(a, b []v1beta1.SidecarSetPatchPodMetadata) []string {
	var out []string
	for _, one := range a {
		for _, other := range b {
			if one.PatchPolicy == v1beta1.SidecarSetMergePatchJSONPatchPolicy && other.PatchPolicy == one.PatchPolicy {
				continue
			}
			for _, key := range slices.Sorted(maps.Keys(one.Annotations)) {
				if _, has := other.Annotations[key]; has {
					out = append(out, "annotation "+key)
				}
			}
		}
	}
	return out
}

// disjoint reports whether no labels satisfy both selectors. It finds what two requirements of values for one label
// exclude.
func disjoint(a, b *metav1.LabelSelector) bool {
	allowed := allowedValues(b)
	for key, values := range allowedValues(a) {
		others, has := allowed[key]
		if has && !slices.ContainsFunc(values, func(v string) bool { return slices.Contains(others, v) }) {
			return true
		}
	}
	return false
}

// allowedValues returns the values that a selector allows for labels, of those that it requires one of some values of.
func allowedValues(s *metav1.LabelSelector) map[string][]string {
	out := map[string][]string{}
	if s == nil {
		return out
	}
	for _, requirement := range s.MatchExpressions {
		if requirement.Operator == metav1.LabelSelectorOpIn {
			out[requirement.Key] = requirement.Values
		}
	}
	for key, value := range s.MatchLabels {
		out[key] = []string{value}
	}
	return out
}
