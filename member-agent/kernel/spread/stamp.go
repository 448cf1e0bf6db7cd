package spread

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// Stamp makes a pod that is not created yet one of the subset: its tolerations are added, its requiredNodeSelector is
// added to each term of the pod's required node affinity (any one of the user's terms must still hold), its
// preferredNodeSelector is added, then its patch is merged, and at last come the annotation and, for workloads that
// look at it, the deletion cost. With subset "" the pod gets the cost of pods in no subset, loses an annotation that
// its template copied from another pod, and stays the same otherwise. Doing it twice is doing it once.
//
// selector is how the workload finds its pods: a patch that would make it lose the pod is an error, because it would
// make pods without end. Nil means that the patch may change no label that the pod has. Name and owner of the pod stay
// as they are. It also errs if the patch cannot be merged, or there is no such subset. After an error the pod is as it
// was.
func Stamp(pod *corev1.Pod, ws *v1beta1.WorkloadSpread, subset string, selector labels.Selector) error {
	if subset == "" {
		delete(pod.Annotations, v1beta1.AnnotationMatchedWorkloadSpread)
		stampCost(pod, ws, "")
		return nil
	}
	s := find(ws, subset)
	if s == nil {
		return fmt.Errorf("WorkloadSpread %s has no subset %q", ws.Name, subset)
	}
	stamped := pod.DeepCopy()
	for i := range s.Tolerations {
		if !contains(stamped.Spec.Tolerations, s.Tolerations[i]) {
			stamped.Spec.Tolerations = append(stamped.Spec.Tolerations, *s.Tolerations[i].DeepCopy())
		}
	}
	Require(stamped, s.RequiredNodeSelector)
	prefer(stamped, s.PreferredNodeSelector)
	stamped, err := patched(stamped, s)
	if err != nil {
		return err
	}
	if err := kept(pod, stamped, selector); err != nil {
		return fmt.Errorf("patch of subset %s: %w", subset, err)
	}
	if stamped.Annotations == nil {
		stamped.Annotations = map[string]string{}
	}
	stamped.Annotations[v1beta1.AnnotationMatchedWorkloadSpread] = Annotation(ws, subset)
	stampCost(stamped, ws, subset)
	*pod = *stamped
	return nil
}

// Annotation returns the value of the annotation apps.kruise.io/matched-workloadspread for a pod of the subset.
func Annotation(ws *v1beta1.WorkloadSpread, subset string) string {
	// A struct of strings can always be encoded.
	text, _ := json.Marshal(v1beta1.MatchedWorkloadSpread{Name: ws.Name, Subset: subset})
	return string(text)
}

// Metadata returns the labels and annotations that a pod which is older than the WorkloadSpread lacks as one of the
// subset: those of the patch, unless the WorkloadSpread says by its annotation that they are not wanted, and the
// annotation that names the subset. Both are empty if there is nothing to write. Nothing is ever taken off a running
// pod. selector and the errors are those of Stamp; the deletion cost is Costs' matter.
func Metadata(
	pod *corev1.Pod,
	ws *v1beta1.WorkloadSpread,
	subset string,
	selector labels.Selector,
) (lacks, annotations map[string]string, err error) {
	s := find(ws, subset)
	if s == nil {
		return nil, nil, fmt.Errorf("WorkloadSpread %s has no subset %q", ws.Name, subset)
	}
	lacks, annotations = map[string]string{}, map[string]string{}
	if ws.Annotations[v1beta1.AnnotationIgnorePatchExistingPods] != "true" {
		after, err := patched(&corev1.Pod{ObjectMeta: *pod.ObjectMeta.DeepCopy()}, s)
		if err != nil {
			return nil, nil, err
		}
		if err := kept(pod, after, selector); err != nil {
			return nil, nil, fmt.Errorf("patch of subset %s: %w", subset, err)
		}
		lacks, annotations = differing(pod.Labels, after.Labels), differing(pod.Annotations, after.Annotations)
		delete(annotations, corev1.PodDeletionCost)
	}
	if value := Annotation(ws, subset); pod.Annotations[v1beta1.AnnotationMatchedWorkloadSpread] != value {
		annotations[v1beta1.AnnotationMatchedWorkloadSpread] = value
	}
	return lacks, annotations, nil
}

func find(ws *v1beta1.WorkloadSpread, subset string) *v1beta1.WorkloadSpreadSubset {
	for i := range ws.Spec.Subsets {
		if ws.Spec.Subsets[i].Name == subset {
			return &ws.Spec.Subsets[i]
		}
	}
	return nil
}

// differing returns the entries of after that before does not have.
func differing(before, after map[string]string) map[string]string {
	out := map[string]string{}
	for key, value := range after {
		if old, ok := before[key]; !ok || old != value {
			out[key] = value
		}
	}
	return out
}

func contains[T any](list []T, item T) bool {
	return slices.ContainsFunc(list, func(have T) bool { return equality.Semantic.DeepEqual(have, item) })
}

// empty reports whether a term says nothing. The scheduler takes such a term as one that no node matches.
func empty(term *corev1.NodeSelectorTerm) bool {
	return term == nil || len(term.MatchExpressions) == 0 && len(term.MatchFields) == 0
}

func nodeAffinity(pod *corev1.Pod) *corev1.NodeAffinity {
	if pod.Spec.Affinity == nil {
		pod.Spec.Affinity = &corev1.Affinity{}
	}
	if pod.Spec.Affinity.NodeAffinity == nil {
		pod.Spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	return pod.Spec.Affinity.NodeAffinity
}

// Require adds what the term asks to each of the pod's terms. Terms that match no node stay as they are: with something
// in them they would match some.
func Require(pod *corev1.Pod, term *corev1.NodeSelectorTerm) {
	if empty(term) {
		return
	}
	affinity := nodeAffinity(pod)
	required := affinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil || len(required.NodeSelectorTerms) == 0 {
		affinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{*term.DeepCopy()},
		}
		return
	}
	for i := range required.NodeSelectorTerms {
		own := &required.NodeSelectorTerms[i]
		if empty(own) {
			continue
		}
		own.MatchExpressions = and(own.MatchExpressions, term.MatchExpressions)
		own.MatchFields = and(own.MatchFields, term.MatchFields)
	}
}

func and(own, more []corev1.NodeSelectorRequirement) []corev1.NodeSelectorRequirement {
	for i := range more {
		if !contains(own, more[i]) {
			own = append(own, *more[i].DeepCopy())
		}
	}
	return own
}

func prefer(pod *corev1.Pod, terms []corev1.PreferredSchedulingTerm) {
	for i := range terms {
		own := &nodeAffinity(pod).PreferredDuringSchedulingIgnoredDuringExecution
		if !contains(*own, terms[i]) {
			*own = append(*own, *terms[i].DeepCopy())
		}
	}
}

// patched returns the pod with the patch of the subset merged into it; the pod itself where there is no patch.
func patched(pod *corev1.Pod, s *v1beta1.WorkloadSpreadSubset) (*corev1.Pod, error) {
	if noPatch(s) {
		return pod, nil
	}
	before, err := json.Marshal(pod)
	if err != nil {
		return nil, fmt.Errorf("encode the pod for the patch of subset %s: %w", s.Name, err)
	}
	after, err := strategicpatch.StrategicMergePatch(before, s.Patch.Raw, corev1.Pod{})
	if err != nil {
		return nil, fmt.Errorf("merge the patch of subset %s: %w", s.Name, err)
	}
	out := &corev1.Pod{}
	if err := json.Unmarshal(after, out); err != nil {
		return nil, fmt.Errorf("merge the patch of subset %s: %w", s.Name, err)
	}
	return out, nil
}

func noPatch(s *v1beta1.WorkloadSpreadSubset) bool {
	return len(s.Patch.Raw) == 0 || string(s.Patch.Raw) == "null"
}

// kept makes the stamped pod have the identity of the pod, and checks that its workload still finds it.
func kept(pod, stamped *corev1.Pod, selector labels.Selector) error {
	changed := stamped.ObjectMeta
	stamped.TypeMeta, stamped.ObjectMeta, stamped.Status = pod.TypeMeta, *pod.ObjectMeta.DeepCopy(), *pod.Status.DeepCopy()
	stamped.Labels, stamped.Annotations, stamped.Finalizers = changed.Labels, changed.Annotations, changed.Finalizers
	if selector != nil {
		if !selector.Matches(labels.Set(stamped.Labels)) {
			return fmt.Errorf(
				"the selector %q of the workload does not match the labels %q that the patch leaves: take them out of the patch",
				selector,
				labels.Set(stamped.Labels),
			)
		}
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(pod.Labels)) {
		if value, ok := stamped.Labels[key]; !ok || value != pod.Labels[key] {
			return fmt.Errorf(
				"label %s of the pod, %q, is changed: the workload may find its pods by it; take it out of the patch",
				key,
				pod.Labels[key],
			)
		}
	}
	return nil
}

func stampCost(pod *corev1.Pod, ws *v1beta1.WorkloadSpread, subset string) {
	if !TargetOf(ws).Costly() {
		return
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[corev1.PodDeletionCost] = CostText(firstCost(ws, subset))
}
