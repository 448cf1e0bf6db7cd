package rollout

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/marks"
)

// Like returns a new pod like the one that its workload creates in the place of pod, for a dry run: without what
// SidecarSets added, and without what the API server and the scheduler set. pod is whole, not from the cache.
func Like(pod *corev1.Pod) *corev1.Pod {
	like := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, GenerateName: pod.Name + "-", Labels: maps.Clone(pod.Labels),
			Annotations: maps.Clone(pod.Annotations),
		},
		Spec: *pod.Spec.DeepCopy(),
	}
	marks.Clear(like.Annotations)
	spec := &like.Spec
	spec.NodeName, spec.EphemeralContainers = "", nil
	spec.Priority, spec.PreemptionPolicy, spec.Overhead = nil, nil, nil
	injected := func(c corev1.Container) bool { return marks.IsInjected(&c) }
	spec.InitContainers = slices.DeleteFunc(spec.InitContainers, injected)
	spec.Containers = slices.DeleteFunc(spec.Containers, injected)
	return like
}
