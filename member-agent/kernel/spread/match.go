package spread

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// The weights of what speaks for a subset, as published: the weights of its preferred terms that the node matches, then
// that the pod has the metadata of its patch, then that it has room.
const (
	scorePreferred = 100
	scorePatch     = 10
	scoreRoom      = 1
)

// Match returns the subset of a pod for which Assigned is not ok, such as one that is older than the WorkloadSpread:
// of the subsets whose requiredNodeSelector matches the pod's node, the one with the highest score, and of several
// the first. counts are the pods of each subset, as in Pick. ok is false if there is none, or node is nil: the pod
// has none yet, or it is not known. Taints are not looked at: the pod runs on the node.
func (r Rule) Match(
	pod *corev1.Pod,
	node *corev1.Node,
	ws *v1beta1.WorkloadSpread,
	counts map[string]int32,
) (subset string, ok bool) {
	if node == nil {
		return "", false
	}
	best := int64(-1)
	for i := range ws.Spec.Subsets {
		s := &ws.Spec.Subsets[i]
		if score, fits := r.score(pod, node, s, counts); fits && score > best {
			subset, best = s.Name, score
		}
	}
	return subset, best >= 0
}

func (r Rule) score(
	pod *corev1.Pod,
	node *corev1.Node,
	s *v1beta1.WorkloadSpreadSubset,
	counts map[string]int32,
) (score int64, fits bool) {
	if !empty(s.RequiredNodeSelector) {
		required, err := nodeaffinity.NewNodeSelector(
			&corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{*s.RequiredNodeSelector}},
		)
		if err != nil || !required.Match(node) {
			return 0, false
		}
	}
	// Validate has refused terms that cannot be used.
	if preferred, err := nodeaffinity.NewPreferredSchedulingTerms(s.PreferredNodeSelector); err == nil {
		score += scorePreferred * preferred.Score(node)
	}
	if hasMetadata(pod, s) {
		score += scorePatch
	}
	if i := r.Index(s.Name); i >= 0 && r.Subsets[i].room(counts[s.Name]) {
		score += scoreRoom
	}
	return score, true
}

// hasMetadata reports whether the patch of the subset would change no label and no annotation of the pod.
func hasMetadata(pod *corev1.Pod, s *v1beta1.WorkloadSpreadSubset) bool {
	if noPatch(s) {
		return false
	}
	after, err := patched(&corev1.Pod{ObjectMeta: *pod.ObjectMeta.DeepCopy()}, s)
	return err == nil && maps.Equal(pod.Labels, after.Labels) && maps.Equal(pod.Annotations, after.Annotations)
}
