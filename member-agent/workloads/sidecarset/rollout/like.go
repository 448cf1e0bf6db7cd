package rollout

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/marks"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/revision"
)

// Like returns a new pod like the one that workload w creates in the place of pod, for a dry run: with the labels and
// annotations of its template, without what SidecarSets added, and without what the API server and the scheduler set.
// pod is whole, not from the cache.
func Like(pod *corev1.Pod, w *Workload) *corev1.Pod {
	like := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, GenerateName: pod.Name + "-", Labels: maps.Clone(w.Labels),
			Annotations: maps.Clone(w.Annotations),
		},
		Spec: *pod.Spec.DeepCopy(),
	}
	for _, key := range given() {
		if value, has := pod.Labels[key]; has {
			if like.Labels == nil {
				like.Labels = map[string]string{}
			}
			like.Labels[key] = value
		}
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

// given are the labels that the controllers of workloads give their pods beside those of the template.
func given() []string {
	return []string{
		appsv1.DefaultDeploymentUniqueLabelKey, appsv1.ControllerRevisionHashLabelKey, appsv1.StatefulSetPodNameLabel,
		appsv1.PodIndexLabel, appsv1.DeprecatedTemplateGeneration, v1beta1.LabelInstanceID,
	}
}

// Current reports whether a pod has the sidecars of a SidecarSet, all of them and of this revision.
func Current(pod *corev1.Pod, name string, spec *v1beta1.SidecarSetSpec, hashes revision.Hashes) bool {
	has, _ := marks.Of(pod, name)
	return marks.Injected(pod, name) && has.All == hashes.All && hasAll(spec, pod)
}
