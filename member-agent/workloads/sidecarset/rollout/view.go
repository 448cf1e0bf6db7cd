// Package rollout owns the question "which running pods get which images now". It is pure.
//
//	view.go       what a pod runs: which revision, whether its sidecars have arrived
//	plan.go       the pods of this pass, within partition and maxUnavailable, and the numbers of the status
//	update.go     the patch of a pod that gets new images
//	hot.go        the two containers of a hot sidecar: which one is next, and the change to it
//	condition.go  the condition of a pod that says whether changes can reach it
//
// Only images reach running pods. A pod whose sidecars differ in anything else stays as it is.
package rollout

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/inplace"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/marks"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/revision"
)

// Set is a SidecarSet whose pods are updated.
type Set struct {
	Name   string
	Labels map[string]string
	Spec   *v1beta1.SidecarSetSpec
	Hashes revision.Hashes
	// Revision is the name of the current ControllerRevision, Version the resourceVersion of the SidecarSet.
	Revision, Version string
	// Grant is what a hub grants, nil without one. It holds in place of partition and maxUnavailable.
	Grant *Grant
}

// view is what a pod has of a SidecarSet.
type view struct {
	pod *corev1.Pod
	// updated: it was given the current revision. upgradable: it differs in images alone.
	updated, upgradable bool
	// consistent: the containers run the images of the pod's spec. ready: so they do, and the pod is ready.
	consistent, ready bool
}

// viewOf returns what a pod has; false if it does not have the sidecars of the set.
func viewOf(set *Set, pod *corev1.Pod) (view, bool) {
	if !podstate.Active(pod) || !marks.Injected(pod, set.Name) || !hasAll(set.Spec, pod) {
		return view{}, false
	}
	has, _ := marks.Of(pod, set.Name)
	v := view{pod: pod, updated: has.All == set.Hashes.All, upgradable: has.WithoutImage == set.Hashes.WithoutImage}
	last := marks.States(pod)[set.Name].LastContainerStatuses
	v.consistent = !slices.ContainsFunc(marks.Names(set.Spec), func(name string) bool {
		before, changed := last[name]
		return changed && !arrived(pod, name, before)
	})
	v.ready = v.consistent && podstate.Ready(pod) && emptied(set.Spec, pod)
	return v, true
}

// hasAll reports whether the pod has all containers of the set.
func hasAll(spec *v1beta1.SidecarSetSpec, pod *corev1.Pod) bool {
	working := marks.Working(pod)
	for i := range spec.Containers {
		if marks.Hot(&spec.Containers[i]) && working[spec.Containers[i].Name] == "" {
			return false
		}
	}
	for _, name := range marks.Names(spec) {
		if containerOf(pod, name) == nil {
			return false
		}
	}
	return true
}

// arrived reports whether a container whose image was changed runs it.
func arrived(pod *corev1.Pod, name string, before marks.ContainerStatus) bool {
	container, status := containerOf(pod, name), statusOf(pod, name)
	if status.ImageID == "" {
		return false
	}
	if _, digest, ok := strings.Cut(container.Image, "@"); ok {
		return strings.HasSuffix(status.ImageID, digest)
	}
	return status.ImageID != before.ImageID || inplace.SameImage(container.Image, status.Image)
}

// containerOf returns the container or native sidecar with this name, nil if there is none.
func containerOf(pod *corev1.Pod, name string) *corev1.Container {
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

// statusOf returns what the kubelet says of a container, nothing if it has not said anything.
func statusOf(pod *corev1.Pod, name string) corev1.ContainerStatus {
	for _, list := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range list {
			if list[i].Name == name {
				return list[i]
			}
		}
	}
	return corev1.ContainerStatus{}
}
