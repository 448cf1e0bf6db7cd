package podset

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodeOf returns the node that a pod runs on, or, until it is scheduled, the only one that its required node affinity
// names; "" if there is none.
func NodeOf(pod *corev1.Pod) string {
	if pod.Spec.NodeName != "" {
		return pod.Spec.NodeName
	}
	for _, term := range requiredTerms(pod.Spec.Affinity) {
		for _, field := range term.MatchFields {
			if field.Key == metav1.ObjectNameField && field.Operator == corev1.NodeSelectorOpIn && len(field.Values) == 1 {
				return field.Values[0]
			}
		}
	}
	return ""
}

func requiredTerms(affinity *corev1.Affinity) []corev1.NodeSelectorTerm {
	if affinity == nil || affinity.NodeAffinity == nil ||
		affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	return affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
}

// slimAffinity keeps the affinity of a pod that is not scheduled and names its node in it.
func slimAffinity(pod *corev1.Pod) *corev1.Affinity {
	if pod.Spec.NodeName != "" || NodeOf(pod) == "" {
		return nil
	}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: requiredTerms(pod.Spec.Affinity)}}}
}
