package podset_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
)

func TestNodeOf(t *testing.T) {
	field := func(key string, values ...string) *corev1.Affinity {
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchFields: []corev1.NodeSelectorRequirement{{Key: key, Operator: "In", Values: values}}}}}},
			PodAntiAffinity: &corev1.PodAntiAffinity{}}
	}
	for name, tt := range map[string]struct {
		spec corev1.PodSpec
		want string
	}{
		"scheduled":             {corev1.PodSpec{NodeName: "a", Affinity: field("metadata.name", "b")}, "a"},
		"pinned":                {corev1.PodSpec{Affinity: field("metadata.name", "b")}, "b"},
		"two nodes":             {corev1.PodSpec{Affinity: field("metadata.name", "b", "c")}, ""},
		"another field":         {corev1.PodSpec{Affinity: field("metadata.namespace", "b")}, ""},
		"without node affinity": {corev1.PodSpec{Affinity: &corev1.Affinity{}}, ""},
		"nothing":               {corev1.PodSpec{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: tt.spec}
			if got := podset.NodeOf(pod); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
			if _, err := podset.Slim(pod); err != nil {
				t.Fatal(err)
			}
			if got := podset.NodeOf(pod); got != tt.want {
				t.Errorf("%q of the slim pod, want %q", got, tt.want)
			}
			if keeps := pod.Spec.Affinity != nil; keeps != (name == "pinned") || keeps &&
				pod.Spec.Affinity.PodAntiAffinity != nil {
				t.Errorf("the slim pod has affinity %+v", pod.Spec.Affinity)
			}
		})
	}
}
