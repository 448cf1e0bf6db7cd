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
	"github.com/flotilla-dev/flotilla/member-agent/kernel/counts"
)

// State is the published record of an update in place, kept on the pod. Unknown fields of other writers are not kept:
// a new update writes a new record.
type State struct {
	Revision              string                     `json:"revision"`
	UpdateTimestamp       metav1.Time                `json:"updateTimestamp"`
	LastContainerStatuses map[string]ContainerStatus `json:"lastContainerStatuses,omitempty"`
	UpdateImages          bool                       `json:"updateImages,omitempty"`
	UpdateEnvFromMetadata bool                       `json:"updateEnvFromMetadata,omitempty"`
	UpdateResources       bool                       `json:"updateResources,omitempty"`
	NextContainerImages   map[string]string          `json:"nextContainerImages,omitempty"`
	ContainerBatches      []Batch                    `json:"containerBatchesRecord,omitempty"`
}

// ContainerStatus is what a container ran before the update.
type ContainerStatus struct {
	ImageID string `json:"imageID,omitempty"`
}

// Batch says which containers were changed at one time.
type Batch struct {
	Timestamp  metav1.Time `json:"timestamp"`
	Containers []string    `json:"containers"`
}

// Revision is a revision as pods carry it: its full name, and the short hash of it.
type Revision struct{ Name, Hash string }

// Patch returns the strategic merge patch that gives the pod the change and the new revision at now.
func Patch(pod *corev1.Pod, change Change, to Revision, now time.Time) ([]byte, error) {
	stamp := metav1.NewTime(now.UTC().Truncate(time.Second))
	labels := map[string]any{
		"controller-revision-hash":   revisionLabel(pod, to),
		v1beta1.LabelPodTemplateHash: to.Hash,
	}
	annotations := map[string]any{v1beta1.AnnotationLifecycleTimestamp: stamp.Format(time.RFC3339)}
	for key, value := range change.Labels {
		labels[key] = value
	}
	for key, value := range change.Annotations {
		annotations[key] = value
	}
	names := slices.Sorted(maps.Keys(change.Images))
	state := State{Revision: to.Name, UpdateTimestamp: stamp, UpdateImages: len(names) > 0}
	if len(names) > 0 {
		state.ContainerBatches = []Batch{{Timestamp: stamp, Containers: names}}
		state.LastContainerStatuses = map[string]ContainerStatus{}
		for _, name := range names {
			state.LastContainerStatuses[name] = ContainerStatus{ImageID: imageID(pod, name)}
		}
	}
	text, err := json.Marshal(state)
	if err != nil {
		return nil, fmt.Errorf("encode the state of the update in place of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	annotations[v1beta1.AnnotationInPlaceUpdateState] = string(text)
	body := map[string]any{"metadata": map[string]any{"labels": labels, "annotations": annotations}}
	if len(names) > 0 {
		containers := make([]map[string]any, 0, len(names))
		for _, name := range names {
			containers = append(containers, map[string]any{"name": name, "image": change.Images[name]})
		}
		body["spec"] = map[string]any{"containers": containers}
	}
	return json.Marshal(body)
}

// revisionLabel keeps the form that the pod's label has: a full name, or the short hash of some installations.
func revisionLabel(pod *corev1.Pod, to Revision) string {
	if have := pod.Labels["controller-revision-hash"]; have != "" && have == pod.Labels[v1beta1.LabelPodTemplateHash] {
		return to.Hash
	}
	return to.Name
}

func imageID(pod *corev1.Pod, container string) string {
	if status := containerStatus(pod, container); status != nil {
		return status.ImageID
	}
	return ""
}

func containerStatus(pod *corev1.Pod, name string) *corev1.ContainerStatus {
	i := slices.IndexFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &pod.Status.ContainerStatuses[i]
}

// Done tells whether the update that the pod's annotation records has arrived in its containers. A pod that was never
// updated in place is done. A record that cannot be read counts as done: there is nothing to wait for.
func Done(pod *corev1.Pod) bool {
	text, ok := pod.Annotations[v1beta1.AnnotationInPlaceUpdateState]
	if !ok {
		return true
	}
	var state State
	if err := json.Unmarshal([]byte(text), &state); err != nil {
		return true
	}
	if !state.UpdateImages {
		return true
	}
	for name, before := range state.LastContainerStatuses {
		if !containerDone(pod, name, before) {
			return false
		}
	}
	return true
}

func containerDone(pod *corev1.Pod, name string, before ContainerStatus) bool {
	i := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == name })
	if i < 0 {
		return true
	}
	status := containerStatus(pod, name)
	if status == nil || status.ImageID == "" {
		return false
	}
	return status.ImageID != before.ImageID || status.Image == pod.Spec.Containers[i].Image
}

// HasGate tells whether the pod has the readiness gate of updates in place.
func HasGate(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.ReadinessGates, func(g corev1.PodReadinessGate) bool { return g.ConditionType == v1beta1.InPlaceUpdateReady })
}

// InjectGate adds the readiness gate to a pod that is to be created, unless it has it.
func InjectGate(spec *corev1.PodSpec) {
	for _, gate := range spec.ReadinessGates {
		if gate.ConditionType == v1beta1.InPlaceUpdateReady {
			return
		}
	}
	spec.ReadinessGates = append(spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: v1beta1.InPlaceUpdateReady})
}

// Progress is where a pod stands in an update in place.
type Progress int

// The progress of a pod.
const (
	// Settled pods have no update under way.
	Settled Progress = iota
	// Running pods wait for their containers.
	Running
	// Stuck pods wait for containers that cannot start with the image they were given; another update may help them.
	Stuck
	// Finished pods have their new containers, and their gate has still to be opened.
	Finished
)

// Observe returns where the pod stands. It reads the annotation only of pods whose gate is shut.
func Observe(pod *corev1.Pod) Progress {
	if HasGate(pod) {
		gate := counts.Condition(pod, v1beta1.InPlaceUpdateReady)
		switch {
		case gate != nil && gate.Status == corev1.ConditionTrue:
			return Settled
		case gate == nil || Done(pod):
			return Finished
		}
	} else if Done(pod) {
		return Settled
	}
	for i := range pod.Status.ContainerStatuses {
		if waiting := pod.Status.ContainerStatuses[i].State.Waiting; waiting != nil && waiting.Reason != "ContainerCreating" {
			return Stuck
		}
	}
	return Running
}

// ShutGate returns the status patch that begins an update: the gate and Ready become False, so that nobody counts on the
// pod from this moment on.
func ShutGate(now time.Time) ([]byte, error) {
	return conditionsPatch(now, "StartInPlaceUpdate", corev1.ConditionFalse, v1beta1.InPlaceUpdateReady, corev1.PodReady)
}

// OpenGate returns the status patch that ends an update, and that a new pod needs once.
func OpenGate(now time.Time) ([]byte, error) {
	return conditionsPatch(now, "", corev1.ConditionTrue, v1beta1.InPlaceUpdateReady)
}

func conditionsPatch(now time.Time, reason string, status corev1.ConditionStatus, types ...corev1.PodConditionType) ([]byte, error) {
	list := make([]map[string]any, 0, len(types))
	for _, conditionType := range types {
		condition := map[string]any{"type": conditionType, "status": status, "reason": nil, "message": nil,
			"lastTransitionTime": now.UTC().Format(time.RFC3339)}
		if reason != "" {
			condition["reason"] = reason
		}
		list = append(list, condition)
	}
	return json.Marshal(map[string]any{"status": map[string]any{"conditions": list}})
}
