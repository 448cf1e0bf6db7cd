package inplace

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// State is the published record of an update in place, kept on the pod. Unknown fields of other writers are not kept:
// a new update writes a new record. The fields marked as ours are unknown to other readers, who lose nothing by that.
type State struct {
	Revision              string                     `json:"revision"`
	UpdateTimestamp       metav1.Time                `json:"updateTimestamp"`
	LastContainerStatuses map[string]ContainerStatus `json:"lastContainerStatuses,omitempty"`
	UpdateImages          bool                       `json:"updateImages,omitempty"`
	UpdateEnvFromMetadata bool                       `json:"updateEnvFromMetadata,omitempty"`
	UpdateResources       bool                       `json:"updateResources,omitempty"`
	// What containers of later batches are still to be given.
	NextContainerImages      map[string]string                      `json:"nextContainerImages,omitempty"`
	NextContainerRefMetadata map[string]Metadata                    `json:"nextContainerRefMetadata,omitempty"`
	NextContainerResources   map[string]corev1.ResourceRequirements `json:"nextContainerResources,omitempty"`
	PreCheckBeforeNext       *PreCheck                              `json:"preCheckBeforeNext,omitempty"`
	ContainerBatches         []Batch                                `json:"containerBatchesRecord,omitempty"`
	// ContainerResources (ours) are the resources of the batches so far: their write is another one than the record's, and
	// may have got lost.
	ContainerResources map[string]corev1.ResourceRequirements `json:"containerResources,omitempty"`
	// InService (ours) is set while a pod that was not taken out of service waits for its resources. It stays the last
	// field, see inServiceEnd.
	InService bool `json:"inService,omitempty"`
}

// inServiceEnd is how a record with InService ends: it is looked for in the text of every settled pod, so it must cost
// nothing to find.
const inServiceEnd = `"inService":true}`

// ContainerStatus is what a container ran before the update. ImageID is published, the other fields are ours.
type ContainerStatus struct {
	ImageID     string `json:"imageID,omitempty"`
	ContainerID string `json:"containerID,omitempty"`
	// Environment is set for a container that only restarts, to see new metadata.
	Environment bool `json:"environment,omitempty"`
	// Saw is the metadata that the container's environment has, of the keys that were changed. It is set as long as a
	// restart is waited for that brings the new ones.
	Saw *Metadata `json:"saw,omitempty"`
	// Passed are images that the container was given since, and that were replaced before it was seen to run them.
	Passed []string `json:"passed,omitempty"`
}

// PreCheck is what must hold before the next batch.
type PreCheck struct {
	ContainersRequiredReady []string `json:"containersRequiredReady,omitempty"`
}

// Batch says which containers were changed at one time.
type Batch struct {
	Timestamp  metav1.Time `json:"timestamp"`
	Containers []string    `json:"containers"`
}

// Grace is the published record of an update that waits until traffic has left the pod.
type Grace struct {
	Revision              string                                 `json:"revision"`
	ContainerImages       map[string]string                      `json:"containerImages,omitempty"`
	ContainerRefMetadata  map[string]Metadata                    `json:"containerRefMetadata,omitempty"`
	ContainerResources    map[string]corev1.ResourceRequirements `json:"containerResources,omitempty"`
	UpdateEnvFromMetadata bool                                   `json:"updateEnvFromMetadata,omitempty"`
	GraceSeconds          int32                                  `json:"graceSeconds,omitempty"`
	// MetadataPatch is written by other managers, which change labels and annotations only after the grace period.
	MetadataPatch []byte `json:"metaDataPatch,omitempty"`
}

// Revision is a revision as pods carry it: its full name, and the short hash of it.
type Revision struct{ Name, Hash string }

// record is what a pod's annotations say of its update.
type record struct {
	state State
	// grace is nil when no grace period is under way.
	grace *Grace
	// lost is set when the record of the grace period cannot be read: nobody knows what the pod is to be given.
	lost bool
}

// recordOf reads the pod's annotations; ok is false without a record, or with one that cannot be read: there is nothing
// to wait for then.
func recordOf(pod *corev1.Pod) (r record, ok bool) {
	text, ok := pod.Annotations[v1beta1.AnnotationInPlaceUpdateState]
	if !ok || json.Unmarshal([]byte(text), &r.state) != nil {
		return record{}, false
	}
	if text, ok := pod.Annotations[v1beta1.AnnotationInPlaceUpdateGrace]; ok {
		var grace Grace
		if err := json.Unmarshal([]byte(text), &grace); err != nil {
			r.lost = true
		} else if grace.Revision == r.state.Revision {
			// A record of another revision was left behind by a writer that knew nothing of it.
			r.grace = &grace
		}
	}
	return r, true
}

// graceEnd is when the grace period is over.
func (r record) graceEnd() time.Time {
	return r.state.UpdateTimestamp.Add(time.Duration(r.grace.GraceSeconds) * time.Second)
}

// work is what the containers of a pod are still to be given.
type work struct {
	images    map[string]string
	metadata  map[string]Metadata
	resources map[string]corev1.ResourceRequirements
}

func newWork() work {
	return work{
		images:    map[string]string{},
		metadata:  map[string]Metadata{},
		resources: map[string]corev1.ResourceRequirements{},
	}
}

func (w work) empty() bool { return len(w.images)+len(w.metadata)+len(w.resources) == 0 }

func (w work) add(
	images map[string]string,
	metadata map[string]Metadata,
	resources map[string]corev1.ResourceRequirements,
) {
	maps.Copy(w.images, images)
	for name, m := range metadata {
		have := w.metadata[name]
		w.metadata[name] = Metadata{
			Labels:      merged(have.Labels, m.Labels),
			Annotations: merged(have.Annotations, m.Annotations),
		}
	}
	maps.Copy(w.resources, resources)
}

// merged returns both maps in a new one, the second one's values before the first one's.
func merged[V any](first, second map[string]V) map[string]V {
	out := maps.Clone(first)
	if out == nil {
		return maps.Clone(second)
	}
	maps.Copy(out, second)
	return out
}

// waiting is what the record says the pod is to be given later.
func (r record) waiting() work {
	w := newWork()
	w.add(r.state.NextContainerImages, r.state.NextContainerRefMetadata, r.state.NextContainerResources)
	if r.grace != nil {
		w.add(r.grace.ContainerImages, r.grace.ContainerRefMetadata, r.grace.ContainerResources)
	}
	return w
}

// metadataPatch returns the labels and annotations that another manager wanted to change after its grace period.
func (r record) metadataPatch() (Metadata, error) {
	if r.grace == nil || len(r.grace.MetadataPatch) == 0 {
		return Metadata{}, nil
	}
	var patch struct {
		Metadata Metadata `json:"metadata"`
	}
	if err := json.Unmarshal(r.grace.MetadataPatch, &patch); err != nil {
		return Metadata{}, fmt.Errorf("decode the metadata of the grace period: %w", err)
	}
	return patch.Metadata, nil
}

func containerOf(pod *corev1.Pod, name string) *corev1.Container {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == name {
			return &pod.Spec.Containers[i]
		}
	}
	return nil
}

func containerStatus(pod *corev1.Pod, name string) *corev1.ContainerStatus {
	i := slices.IndexFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &pod.Status.ContainerStatuses[i]
}
