package order

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// Scatter returns the pods such that those that match a term are spread evenly over the order of all, the first at its
// beginning and the last at its end; otherwise their order stays. done have had their turn: of ten pods, three of which
// match, the 1st, the 6th and the 10th match, whether done is empty or has the first five. Several terms are applied
// one after another, so a later one may move what an earlier one had spread. A term that fewer than two pods match
// changes nothing. The slices that are given stay as they are.
func Scatter(pods, done []*corev1.Pod, terms []v1beta1.UpdateScatterTerm) []*corev1.Pod {
	for _, term := range terms {
		pods = spread(pods, done, term)
	}
	return pods
}

func spread(pods, done []*corev1.Pod, term v1beta1.UpdateScatterTerm) []*corev1.Pod {
	had, left := matching(done, term), matching(pods, term)
	all, match := len(done)+len(pods), had+left
	if left == 0 || match < 2 {
		return pods
	}
	out := make([]*corev1.Pod, 0, len(pods))
	yes, no := next(pods, 0, term, true), next(pods, 0, term, false)
	for len(out) < len(pods) {
		// The place of the matching pod whose turn it is, counted from 0 and rounded to the nearest.
		place := (2*had*(all-1) + match - 1) / (2 * (match - 1))
		if no == len(pods) || (yes < len(pods) && place <= len(done)+len(out)) {
			out = append(out, pods[yes])
			yes = next(pods, yes+1, term, true)
			had++
		} else {
			out = append(out, pods[no])
			no = next(pods, no+1, term, false)
		}
	}
	return out
}

func matches(pod *corev1.Pod, term v1beta1.UpdateScatterTerm) bool {
	value, ok := pod.Labels[term.Key]
	return ok && value == term.Value
}

func matching(pods []*corev1.Pod, term v1beta1.UpdateScatterTerm) int {
	n := 0
	for _, pod := range pods {
		if matches(pod, term) {
			n++
		}
	}
	return n
}

// next returns the first index from i on whose pod matches, or does not; len(pods) if there is none.
func next(pods []*corev1.Pod, i int, term v1beta1.UpdateScatterTerm, want bool) int {
	for i < len(pods) && matches(pods[i], term) != want {
		i++
	}
	return i
}
