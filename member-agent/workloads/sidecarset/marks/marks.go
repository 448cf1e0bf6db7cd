// Package marks owns the question "which sidecars does this pod have": the annotations that say so, as published. It is
// pure.
//
// Pods that an OpenKruise manager injected have the same annotations. What cannot be read says nothing: anybody who may
// create pods may write them.
package marks

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/revision"
)

// EnvInjected is "true" in each container that a SidecarSet added to a pod.
const EnvInjected = "IS_INJECTED"

// Record is what a pod says of the sidecars of one SidecarSet.
type Record struct {
	UpdateTimestamp metav1.Time `json:"updateTimestamp"`
	Hash            string      `json:"hash"`
	SidecarSet      string      `json:"sidecarSetName"`
	// Sidecars are the names of the containers, sorted.
	Sidecars []string `json:"sidecarList"`
	// Revision is the name of the ControllerRevision; it is not in the record without images.
	Revision string `json:"controllerRevision,omitempty"`
}

// State is what the sidecars of one SidecarSet ran before their images changed.
type State struct {
	Revision              string                     `json:"revision"`
	UpdateTimestamp       metav1.Time                `json:"updateTimestamp"`
	LastContainerStatuses map[string]ContainerStatus `json:"lastContainerStatuses"`
}

// ContainerStatus is what a container ran.
type ContainerStatus struct {
	ImageID string `json:"imageID,omitempty"`
}

// Records returns the records of an annotation of a pod by the names of the SidecarSets: AnnotationSidecarSetHash or
// AnnotationSidecarSetHashWithoutImage. Older pods have the hash alone.
func Records(pod metav1.Object, annotation string) map[string]Record {
	out := map[string]Record{}
	for name, raw := range read[json.RawMessage](pod, annotation) {
		var record Record
		if json.Unmarshal(raw, &record) != nil {
			record = Record{SidecarSet: name}
			if json.Unmarshal(raw, &record.Hash) != nil {
				continue
			}
		}
		out[name] = record
	}
	return out
}

// Of returns what the pod says of a SidecarSet: its hashes, and the name of the revision.
func Of(pod metav1.Object, set string) (revision.Hashes, string) {
	all := Records(pod, v1beta1.AnnotationSidecarSetHash)[set]
	without := Records(pod, v1beta1.AnnotationSidecarSetHashWithoutImage)[set]
	return revision.Hashes{All: all.Hash, WithoutImage: without.Hash}, all.Revision
}

// Injected reports whether the pod says that it has the sidecars of a SidecarSet.
func Injected(pod metav1.Object, set string) bool {
	return slices.Contains(Sets(pod), set)
}

// mostSets is how many SidecarSets a pod can say it has. Whoever may change the pod writes the annotation.
const mostSets = 64

// Sets returns the names of the SidecarSets whose sidecars the pod says it has, the first 64.
func Sets(pod metav1.Object) []string {
	names := strings.FieldsFunc(pod.GetAnnotations()[v1beta1.AnnotationSidecarSetInjected],
		func(r rune) bool { return r == ',' })
	return names[:min(len(names), mostSets)]
}

// States returns what the sidecars of a pod ran before their images changed, by the names of the SidecarSets.
func States(pod metav1.Object) map[string]State {
	return read[State](pod, v1beta1.AnnotationSidecarSetInPlaceState)
}

// Working returns which of the two containers of each hot sidecar works.
func Working(pod metav1.Object) map[string]string {
	return read[string](pod, v1beta1.AnnotationSidecarSetWorking)
}

// IsInjected reports whether a SidecarSet added the container to its pod.
func IsInjected(c *corev1.Container) bool {
	return slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == EnvInjected && e.Value == "true" })
}

// Hot reports whether pods have two containers for the sidecar.
func Hot(c *v1beta1.SidecarContainer) bool {
	return c.UpgradeStrategy.UpgradeType == v1beta1.SidecarContainerHotUpgrade
}

// Pair returns the names of the two containers of a hot sidecar.
func Pair(name string) [2]string { return [2]string{name + "-1", name + "-2"} }

// Names returns the names of the containers that pods have of the SidecarSet, sorted: those of the containers and of
// native sidecars.
func Names(spec *v1beta1.SidecarSetSpec) []string {
	names := []string{}
	for i := range spec.Containers {
		if pair := Pair(spec.Containers[i].Name); Hot(&spec.Containers[i]) {
			names = append(names, pair[:]...)
		} else {
			names = append(names, spec.Containers[i].Name)
		}
	}
	for i := range spec.InitContainers {
		if revision.Native(spec.InitContainers[i]) {
			names = append(names, spec.InitContainers[i].Name)
		}
	}
	slices.Sort(names)
	return names
}

// Put writes a record into an annotation of annotations, beside those of other SidecarSets. It errs if the value cannot
// be encoded.
func Put(annotations map[string]string, annotation, key string, value any) error {
	pod := &metav1.ObjectMeta{Annotations: annotations}
	all := read[json.RawMessage](pod, annotation)
	switch annotation {
	case v1beta1.AnnotationSidecarSetHash, v1beta1.AnnotationSidecarSetHashWithoutImage:
		for name, record := range Records(pod, annotation) { // those of the old form become new ones
			raw, err := json.Marshal(record)
			if err != nil {
				return fmt.Errorf("encode annotation %s: %w", annotation, err)
			}
			all[name] = raw
		}
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode annotation %s: %w", annotation, err)
	}
	if all == nil {
		all = map[string]json.RawMessage{}
	}
	all[key] = raw
	text, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("encode annotation %s: %w", annotation, err)
	}
	annotations[annotation] = string(text)
	return nil
}

// Inject writes into the annotations of a new pod that it has the sidecars of a SidecarSet.
func Inject(annotations map[string]string, record Record, withoutImage string) error {
	if err := Put(annotations, v1beta1.AnnotationSidecarSetHash, record.SidecarSet, record); err != nil {
		return err
	}
	record.Hash, record.Revision = withoutImage, ""
	if err := Put(annotations, v1beta1.AnnotationSidecarSetHashWithoutImage, record.SidecarSet, record); err != nil {
		return err
	}
	sets := Sets(&metav1.ObjectMeta{Annotations: annotations})
	sets = append(sets, record.SidecarSet)
	slices.Sort(sets)
	annotations[v1beta1.AnnotationSidecarSetInjected] = strings.Join(slices.Compact(sets), ",")
	return nil
}

// Clear removes all marks from the annotations of a new pod: they were copied from another one.
func Clear(annotations map[string]string) {
	for _, key := range []string{
		v1beta1.AnnotationSidecarSetHash, v1beta1.AnnotationSidecarSetHashWithoutImage,
		v1beta1.AnnotationSidecarSetInjected, v1beta1.AnnotationSidecarSetInPlaceState, v1beta1.AnnotationSidecarSetWorking,
	} {
		delete(annotations, key)
	}
	maps.DeleteFunc(annotations, func(key, _ string) bool {
		return strings.HasPrefix(key, v1beta1.PrefixSidecarVersion) || strings.HasPrefix(key, v1beta1.PrefixSidecarVersionAlt)
	})
}

// read returns the entries of an annotation that holds a JSON object; none if it cannot be read.
func read[V any](pod metav1.Object, annotation string) map[string]V {
	var out map[string]V
	if text := pod.GetAnnotations()[annotation]; text == "" || json.Unmarshal([]byte(text), &out) != nil {
		return map[string]V{}
	}
	if out == nil {
		out = map[string]V{}
	}
	return out
}
