package inject

import (
	"hash/fnv"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// Pinned reports whether a new pod gets the revision that injectionStrategy names, instead of the current one. identity
// tells the pod from others: of policy Partial the same pods always get the revision.
func Pinned(spec *v1beta1.SidecarSetSpec, podLabels map[string]string, identity string) bool {
	revision, update := spec.InjectionStrategy.Revision, &spec.UpdateStrategy
	if revision == nil {
		return false
	}
	if revision.Policy != v1beta1.PartialSidecarSetInjectRevisionPolicy || update.Paused {
		return true
	}
	if update.Selector != nil {
		selector, err := metav1.LabelSelectorAsSelector(update.Selector)
		if err != nil || !selector.Matches(labels.Set(podLabels)) {
			return true
		}
	}
	return place(identity) < percent(update.Partition)
}

// percent returns the percentage; numbers of pods say nothing about a single one.
func percent(partition *intstr.IntOrString) uint64 {
	if partition == nil || partition.Type == intstr.Int {
		return 0
	}
	value, err := strconv.ParseUint(strings.TrimSuffix(partition.StrVal, "%"), 10, 8)
	if err != nil {
		return 0
	}
	return value
}

// place returns a number from 0 to 99 that depends on the text alone.
func place(text string) uint64 {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(text)) // never fails
	mixed := sum.Sum64()
	mixed = (mixed ^ mixed>>33) * 0xff51afd7ed558ccd // names that differ in their last character alone spread too
	return (mixed ^ mixed>>33) % 100
}
