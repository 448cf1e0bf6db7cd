package rollout

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/inject"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/marks"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/revision"
)

func podReady(pod *corev1.Pod) bool { return podstate.Ready(pod) }

// change is what a pod gets.
type change struct {
	pod         *corev1.Pod
	annotations map[string]string
	images      map[string]string
}

func changeOf(pod *corev1.Pod) *change {
	annotations := maps.Clone(pod.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	return &change{pod: pod, annotations: annotations, images: map[string]string{}}
}

// image gives a container an image, unless it has it.
func (c *change) image(name, image string) {
	if container := containerOf(c.pod, name); container != nil && container.Image != image {
		c.images[name] = image
	}
}

// patch returns the strategic merge patch; it applies to the pod as it was seen alone.
func (c *change) patch() ([]byte, error) {
	annotations := map[string]string{}
	for key, value := range c.annotations {
		if had, has := c.pod.Annotations[key]; !has || had != value {
			annotations[key] = value
		}
	}
	body := map[string]any{"metadata": map[string]any{
		"resourceVersion": c.pod.ResourceVersion, "uid": c.pod.UID, "annotations": annotations,
	}}
	spec := map[string]any{}
	for field, list := range map[string][]corev1.Container{
		"containers": c.pod.Spec.Containers, "initContainers": c.pod.Spec.InitContainers,
	} {
		var entries []map[string]string
		for i := range list { // a patch in another order would move the containers, which the API server refuses
			if image, ok := c.images[list[i].Name]; ok {
				entries = append(entries, map[string]string{"name": list[i].Name, "image": image})
			}
		}
		if len(entries) > 0 {
			spec[field] = entries
		}
	}
	if len(spec) > 0 {
		body["spec"] = spec
	}
	data, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encode the patch: %w", err)
	}
	return data, nil
}

// update returns what gives the pod the current revision.
func update(set *Set, pod *corev1.Pod, allowed inject.Allowed, now time.Time) (Write, error) {
	c := changeOf(pod)
	for i := range set.Spec.Containers {
		if sidecar := &set.Spec.Containers[i]; !marks.Hot(sidecar) {
			c.image(sidecar.Name, sidecar.Image)
		} else if err := c.upgradeHot(set, sidecar); err != nil {
			return Write{}, err
		}
	}
	for i := range set.Spec.InitContainers {
		if sidecar := &set.Spec.InitContainers[i]; revision.Native(*sidecar) {
			c.image(sidecar.Name, sidecar.Image)
		}
	}
	if err := inject.Update(c.annotations, set.Labels, set.Spec.PatchPodMetadata, allowed); err != nil {
		return Write{}, err
	}
	at := metav1.NewTime(now.UTC().Truncate(time.Second))
	if err := c.remember(set, at); err != nil {
		return Write{}, err
	}
	record := marks.Record{UpdateTimestamp: at, Hash: set.Hashes.All, SidecarSet: set.Name,
		Sidecars: marks.Names(set.Spec), Revision: set.Revision}
	if err := marks.Put(c.annotations, v1beta1.AnnotationSidecarSetHash, set.Name, record); err != nil {
		return Write{}, err
	}
	patch, err := c.patch()
	if err != nil {
		return Write{}, err
	}
	condition, err := conditionPatch(pod, set.Name, true, now)
	return Write{Pod: pod, Patch: patch, Condition: condition, Disrupts: len(c.images) > 0}, err
}

// remember notes what the containers ran whose images change.
func (c *change) remember(set *Set, at metav1.Time) error {
	if len(c.images) == 0 {
		return nil
	}
	last := map[string]marks.ContainerStatus{}
	for _, name := range slices.Sorted(maps.Keys(c.images)) {
		last[name] = marks.ContainerStatus{ImageID: statusOf(c.pod, name).ImageID}
	}
	for name, before := range marks.States(c.pod)[set.Name].LastContainerStatuses {
		if _, changes := c.images[name]; !changes {
			last[name] = before
		}
	}
	return marks.Put(c.annotations, v1beta1.AnnotationSidecarSetInPlaceState, set.Name,
		marks.State{Revision: set.Hashes.All, UpdateTimestamp: at, LastContainerStatuses: last})
}
