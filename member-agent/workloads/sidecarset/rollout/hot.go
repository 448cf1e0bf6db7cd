package rollout

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/inplace"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/marks"
)

// noVersion is the version of a container that does not work.
const noVersion = "0"

// upgradeHot gives the container of the pair that does not work the new image. It works from then on; the other one is
// emptied once the pod is ready.
func (c *change) upgradeHot(set *Set, sidecar *v1beta1.SidecarContainer) error {
	worker := containerOf(c.pod, working(c.pod, sidecar))
	if worker != nil && worker.Image == sidecar.Image {
		return nil
	}
	next, old := nextOf(c.pod, sidecar)
	c.image(next, sidecar.Image)
	c.annotations[v1beta1.PrefixSidecarVersionAlt+next] = c.annotations[v1beta1.PrefixSidecarVersion+old]
	c.annotations[v1beta1.PrefixSidecarVersion+next] = set.Version
	c.annotations[v1beta1.PrefixSidecarVersionAlt+old] = set.Version
	return marks.Put(c.annotations, v1beta1.AnnotationSidecarSetWorking, sidecar.Name, next)
}

// nextOf returns which container of a pair gets the next image, and the other one: the one with the empty image, else
// the one that is not ready, else the one that does not work.
func nextOf(pod *corev1.Pod, sidecar *v1beta1.SidecarContainer) (next, old string) {
	pair := marks.Pair(sidecar.Name)
	for i, name := range pair {
		if container := containerOf(pod, name); container != nil &&
			container.Image == sidecar.UpgradeStrategy.HotUpgradeEmptyImage {
			return name, pair[1-i]
		}
	}
	for i, name := range pair {
		if !statusOf(pod, name).Ready {
			return name, pair[1-i]
		}
	}
	if working(pod, sidecar) == pair[0] {
		return pair[1], pair[0]
	}
	return pair[0], pair[1]
}

// idle returns the container of a pair that does not work.
func idle(pod *corev1.Pod, sidecar *v1beta1.SidecarContainer) string {
	pair := marks.Pair(sidecar.Name)
	if working(pod, sidecar) == pair[0] {
		return pair[1]
	}
	return pair[0]
}

// emptied reports whether the container of each pair that does not work has the empty image, and runs it.
func emptied(spec *v1beta1.SidecarSetSpec, pod *corev1.Pod) bool {
	for i := range spec.Containers {
		sidecar := &spec.Containers[i]
		if !marks.Hot(sidecar) {
			continue
		}
		name, empty := idle(pod, sidecar), sidecar.UpgradeStrategy.HotUpgradeEmptyImage
		container := containerOf(pod, name)
		if container == nil || container.Image != empty || !inplace.SameImage(statusOf(pod, name).Image, empty) {
			return false
		}
	}
	return true
}

// flips plans to empty the containers that worked before, in pods whose new ones are ready. These pods get nothing
// else in this pass.
func (p *Plan) flips(set *Set, views []view) error {
	for _, v := range views {
		c := changeOf(v.pod)
		for i := range set.Spec.Containers {
			sidecar := &set.Spec.Containers[i]
			// A pod that differs in more than images stays as it is.
			if marks.Hot(sidecar) && (v.updated || v.upgradable) && v.consistent && podReady(v.pod) {
				c.empty(sidecar)
			}
		}
		if len(c.images) == 0 || set.Held[v.pod.UID] {
			continue
		}
		patch, err := c.patch()
		if err != nil {
			return fmt.Errorf("plan to empty a container of pod %s/%s: %w", v.pod.Namespace, v.pod.Name, err)
		}
		p.Writes = append(p.Writes, Write{Pod: v.pod, Patch: patch, Disrupts: true})
	}
	return nil
}

// empty gives the container of a pair that does not work any more the empty image.
func (c *change) empty(sidecar *v1beta1.SidecarContainer) {
	name := idle(c.pod, sidecar)
	container := containerOf(c.pod, name)
	if container == nil || container.Image == sidecar.UpgradeStrategy.HotUpgradeEmptyImage {
		return
	}
	c.image(name, sidecar.UpgradeStrategy.HotUpgradeEmptyImage)
	c.annotations[v1beta1.PrefixSidecarVersion+name] = noVersion
	c.annotations[v1beta1.PrefixSidecarVersionAlt+working(c.pod, sidecar)] = noVersion
}
