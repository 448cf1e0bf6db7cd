package podprobemarker

import (
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
)

// loops are the labels that PodProbeMarkers of one namespace must not set, because they would change without end which
// pods are probed: a marker sets a label by which another one selects, which sets one by which the first one selects,
// also over further markers. They are the names of the others by the name of the marker and the key of the label.
type loops map[string]map[string]string

// has reports whether the marker must not set the label.
func (l loops) has(marker, key string) bool { return l[marker][key] != "" }

// loopsOf returns the loops among all PodProbeMarkers of a namespace.
func loopsOf(all []*v1alpha1.PodProbeMarker) loops {
	selecting := map[string][]string{} // markers by the keys of their selectors
	for _, one := range all {
		for _, key := range selectedKeys(&one.Spec) {
			selecting[key] = append(selecting[key], one.Name)
		}
	}
	sets := map[string]map[string][]string{} // by marker and key, the others that select by the key
	for _, one := range all {
		for _, key := range markedKeys(&one.Spec) {
			others := slices.DeleteFunc(slices.Clone(selecting[key]), func(name string) bool { return name == one.Name })
			if len(others) == 0 || !validLabel(&one.Spec, key) {
				continue
			}
			if sets[one.Name] == nil {
				sets[one.Name] = map[string][]string{}
			}
			sets[one.Name][key] = others
		}
	}
	out := loops{}
	for name, keys := range sets {
		for key, others := range keys {
			for _, other := range others {
				if !reaches(sets, other, name) {
					continue
				}
				if out[name] == nil {
					out[name] = map[string]string{}
				}
				out[name][key] = other
				break
			}
		}
	}
	return out
}

// reaches reports whether a marker changes the pods that another one selects, also over further markers.
func reaches(sets map[string]map[string][]string, from, to string) bool {
	seen, next := map[string]bool{from: true}, []string{from}
	for len(next) > 0 {
		name := next[0]
		next = next[1:]
		if name == to {
			return true
		}
		for _, others := range sets[name] {
			for _, other := range others {
				if !seen[other] {
					seen[other] = true
					next = append(next, other)
				}
			}
		}
	}
	return false
}

// selectedKeys returns the keys of labels by which a marker selects.
func selectedKeys(spec *v1alpha1.PodProbeMarkerSpec) []string {
	if spec.Selector == nil {
		return nil
	}
	keys := map[string]bool{}
	for key := range spec.Selector.MatchLabels {
		keys[key] = true
	}
	for i := range spec.Selector.MatchExpressions {
		keys[spec.Selector.MatchExpressions[i].Key] = true
	}
	return slices.Sorted(maps.Keys(keys))
}

// markedKeys returns the keys of labels that probes of a marker set.
func markedKeys(spec *v1alpha1.PodProbeMarkerSpec) []string {
	keys := map[string]bool{}
	for i := range spec.Probes {
		for j := range spec.Probes[i].MarkerPolicy {
			for key := range spec.Probes[i].MarkerPolicy[j].Labels {
				keys[key] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(keys))
}

// sentence says which labels of a marker are left out, "" for none.
func (l loops) sentence(marker *v1alpha1.PodProbeMarker) string {
	for _, key := range slices.Sorted(maps.Keys(l[marker.Name])) {
		return fmt.Sprintf("markerPolicy sets %s, which is left out: PodProbeMarker %s selects by it, and marks pods by "+
			"whose labels this one selects, so they would change each other without end; use another key", key,
			l[marker.Name][key])
	}
	return ""
}

// selectsBy reports whether a selector has the key.
func selectsBy(selector *metav1.LabelSelector, key string) bool {
	if selector == nil {
		return false
	}
	_, selected := selector.MatchLabels[key]
	return selected || slices.ContainsFunc(selector.MatchExpressions,
		func(r metav1.LabelSelectorRequirement) bool { return r.Key == key })
}
