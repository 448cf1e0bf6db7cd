package inplace

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// done reports whether the update has arrived in the pod's containers, with all batches.
func (r record) done(pod *corev1.Pod) bool {
	return !r.lost && r.grace == nil && r.waiting().empty() && r.batchesDone(pod)
}

// batchesDone reports whether the containers of the batches so far run what they were given.
func (r record) batchesDone(pod *corev1.Pod) bool {
	return len(r.unfinished(pod)) == 0 && r.resized(pod)
}

// unfinished returns the containers that have still to restart, with what they ran before.
func (r record) unfinished(pod *corev1.Pod) map[string]ContainerStatus {
	out := map[string]ContainerStatus{}
	for name, before := range r.state.LastContainerStatuses {
		image := !before.Environment && r.state.UpdateImages
		environment := before.Environment || before.Saw != nil
		if image && !imageDone(pod, name, before) || environment && !r.restarted(pod, name, before.ContainerID) {
			out[name] = before
		}
	}
	if !r.state.UpdateEnvFromMetadata || r.state.UpdateResources {
		return out
	}
	// Another manager's record does not say what these containers ran; that they are listed for their metadata is known
	// only when nothing was resized.
	for _, batch := range r.state.ContainerBatches {
		for _, name := range batch.Containers {
			if _, known := r.state.LastContainerStatuses[name]; !known && !r.restarted(pod, name, "") {
				out[name] = ContainerStatus{Environment: true}
			}
		}
	}
	return out
}

// imageDone reports whether the container runs its new image.
func imageDone(pod *corev1.Pod, name string, before ContainerStatus) bool {
	container := containerOf(pod, name)
	if container == nil {
		return true
	}
	status := containerStatus(pod, name)
	if status == nil || status.ImageID == "" {
		return false
	}
	generation := pod.Status.ObservedGeneration
	if SameImage(status.Image, container.Image) && (generation == 0 || generation >= pod.Generation) {
		return true
	}
	if slices.ContainsFunc(before.Passed, func(image string) bool { return SameImage(image, status.Image) }) {
		return false
	}
	if status.ImageID != before.ImageID {
		return true
	}
	// The same content may have got another name: then only the container is new.
	return before.ContainerID != "" && status.ContainerID != "" && status.ContainerID != before.ContainerID &&
		generation != 0 && generation >= pod.Generation
}

// restarted reports whether the container is another one than that of the id. Without an id, one that began since its
// batch counts.
func (r record) restarted(pod *corev1.Pod, name, id string) bool {
	if containerOf(pod, name) == nil {
		return true
	}
	status := containerStatus(pod, name)
	if status == nil || status.State.Running == nil {
		return false
	}
	if id != "" {
		return status.ContainerID != id
	}
	return !status.State.Running.StartedAt.Time.Before(r.batchTime(name))
}

// batchTime is when the container was changed last.
func (r record) batchTime(name string) time.Time {
	for _, batch := range slices.Backward(r.state.ContainerBatches) {
		if slices.Contains(batch.Containers, name) {
			return batch.Timestamp.Time
		}
	}
	return r.state.UpdateTimestamp.Time
}

// resized reports whether the changed containers have the resources of their spec.
func (r record) resized(pod *corev1.Pod) bool {
	if !r.state.UpdateResources {
		return true
	}
	if len(r.dueResources(pod)) > 0 {
		return false
	}
	for _, name := range r.resizedContainers() {
		container, status := containerOf(pod, name), containerStatus(pod, name)
		if container == nil {
			continue
		}
		if status == nil || status.Resources == nil {
			return false
		}
		want := corev1.ResourceRequirements{Limits: computed(container.Resources.Limits),
			Requests: computed(container.Resources.Requests)}
		if !holdsBoth(*status.Resources, want) {
			return false
		}
	}
	return true
}

// resizedContainers returns the containers whose resources were changed, as exactly as the record says it.
func (r record) resizedContainers() []string {
	var out []string
	if len(r.state.ContainerResources) > 0 {
		for name := range r.state.ContainerResources {
			out = append(out, name)
		}
		return out
	}
	for _, batch := range r.state.ContainerBatches {
		out = append(out, batch.Containers...)
	}
	return out
}

// dueResources returns the resources of the batches so far that the pod's spec does not have.
func (r record) dueResources(pod *corev1.Pod) map[string]corev1.ResourceRequirements {
	out := map[string]corev1.ResourceRequirements{}
	for name, want := range r.state.ContainerResources {
		if container := containerOf(pod, name); container != nil && !holdsBoth(container.Resources, want) {
			out[name] = want
		}
	}
	return out
}
