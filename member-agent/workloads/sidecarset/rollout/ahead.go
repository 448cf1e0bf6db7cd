package rollout

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/marks"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/revision"
)

// Images are what pods will run and do not run yet, by namespaces and the names of sidecars.
type Images map[string]map[string]string

// add adds the images that the current revision brings to a pod.
func (i Images) add(set *Set, pod *corev1.Pod) {
	need := func(name, image string, containers ...string) {
		for _, container := range containers {
			if has := containerOf(pod, container); has != nil && has.Image == image {
				return
			}
		}
		if i[pod.Namespace] == nil {
			i[pod.Namespace] = map[string]string{}
		}
		i[pod.Namespace][name] = image
	}
	for j := range set.Spec.Containers {
		sidecar := &set.Spec.Containers[j]
		if pair := marks.Pair(sidecar.Name); marks.Hot(sidecar) {
			need(sidecar.Name, sidecar.Image, pair[:]...)
		} else {
			need(sidecar.Name, sidecar.Image, sidecar.Name)
		}
	}
	for j := range set.Spec.InitContainers {
		if sidecar := &set.Spec.InitContainers[j]; revision.Native(*sidecar) {
			need(sidecar.Name, sidecar.Image, sidecar.Name)
		}
	}
}
