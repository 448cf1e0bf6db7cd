// Package rollout owns the question "which running pods get which images now". It is pure.
//
//	view.go       what a pod runs: which revision, whether its sidecars have arrived
//	plan.go       the pods of this pass, within partition and maxUnavailable, and the numbers of the status
//	update.go     the patch of a pod that gets new images
//	hot.go        the two containers of a hot sidecar: which one is next, and the change to it
//	recreate.go   whether a workload can lose a pod that only a new one can replace
//	same.go       whether a pod differs in images alone
//	condition.go  the condition of a pod that says whether changes can reach it
//
// Only images reach running pods. A pod whose sidecars differ in anything else stays as it is, unless the user lets it
// be created again by its workload.
package rollout

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

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
	// Held are pods that must not be disrupted now, because a budget refused it. Others go first.
	Held map[types.UID]bool
	// Refused says when pods, or of evictions all pods of workloads, were refused last. Those come behind others.
	Refused map[types.UID]time.Time
	// Recreates: the user wants pods to be created again that no patch can bring up to date, and that can be.
	Recreates bool
	// Recreate: it is time to do so. Pods that no patch can bring up to date are evicted, if a workload creates them.
	Recreate bool
	// Missing are selected pods that were created without the sidecars.
	Missing []*corev1.Pod
	// InFlight are the uids of workloads that have not replaced an evicted pod yet.
	InFlight map[types.UID]bool
	// Absent is how many evicted pods are gone, and their workloads have created no pod since.
	Absent int
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
	// missing: it was created without the sidecars.
	missing bool
}

// viewOf returns what a pod has; false if it does not have the sidecars of the set. A pod that lacks a container, such
// as a native sidecar that was added to the set, cannot get it: it is neither updated nor upgradable.
func viewOf(set *Set, same *sameButImages, pod *corev1.Pod) (view, bool, error) {
	if !podstate.Active(pod) || !marks.Injected(pod, set.Name) {
		return view{}, false, nil
	}
	has, _ := marks.Of(pod, set.Name)
	v := view{pod: pod, consistent: true}
	complete := hasAll(set.Spec, pod)
	if complete {
		var err error
		v.updated = has.All == set.Hashes.All
		if v.upgradable, err = same.as(pod, has.WithoutImage); err != nil {
			return view{}, false, err
		}
	}
	last := marks.States(pod)[set.Name].LastContainerStatuses
	v.consistent = !slices.ContainsFunc(marks.Names(set.Spec), func(name string) bool {
		before, changed := last[name]
		return changed && containerOf(pod, name) != nil && !arrived(pod, name, before)
	})
	v.ready = v.consistent && podstate.Ready(pod) && (!complete || emptied(set.Spec, pod))
	return v, true, nil
}

// hasAll reports whether the pod has all containers of the set.
func hasAll(spec *v1beta1.SidecarSetSpec, pod *corev1.Pod) bool {
	for _, name := range marks.Names(spec) {
		if containerOf(pod, name) == nil {
			return false
		}
	}
	return true
}

// working returns which container of a pair works: the one that the pod names, or if that is none of the pair, the one
// that does not have the empty image. Whoever may change the pod writes the annotation.
func working(pod *corev1.Pod, sidecar *v1beta1.SidecarContainer) string {
	pair := marks.Pair(sidecar.Name)
	if name := marks.Working(pod)[sidecar.Name]; slices.Contains(pair[:], name) {
		return name
	}
	first := containerOf(pod, pair[0])
	if first != nil && first.Image == sidecar.UpgradeStrategy.HotUpgradeEmptyImage {
		return pair[1]
	}
	return pair[0]
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
