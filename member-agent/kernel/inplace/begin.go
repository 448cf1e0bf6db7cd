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

// Writes are what is to be written to a pod, in this order: strategic merge patches of its status, of itself and of its
// resize subresource. nil means that there is nothing to write. If one fails, the later ones must not be made.
type Writes struct{ Status, Pod, Resize []byte }

// Options are how an update is begun.
type Options struct {
	// Grace is the time between the shutting of the gate and the change of the containers, in whole seconds. 0 means none.
	Grace time.Duration
	// NameOnly is for kinds whose pods have the name of their revision as a label, and not its hash as another one.
	NameOnly bool
}

// Begin returns the writes that begin to give the pod the change and the revision at now. The change is from the
// template of the revision that the pod's label names; an update of the pod that is not finished needs no care.
// The caller has asked Change.Possible. Begin errs when a record cannot be encoded, or that of another manager not be
// read.
func Begin(pod *corev1.Pod, change Change, to Revision, opts Options, now time.Time) (Writes, error) {
	u, err := plan(pod, change)
	if err != nil {
		return Writes{}, fmt.Errorf("begin the update in place of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	restarts := u.restarts(pod)
	w := &writing{pod: pod, now: metav1.NewTime(now.UTC().Truncate(time.Second)), state: u.state(to)}
	w.state.UpdateTimestamp = w.now
	w.state.InService = len(u.resources)+len(u.resizing) > 0 && (!HasGate(pod) || (!restarts && gateOpen(pod)))
	w.metadata(u.now)
	w.label("controller-revision-hash", revisionLabel(pod, to))
	if !opts.NameOnly {
		w.label(v1beta1.LabelPodTemplateHash, to.Hash)
	}
	w.annotate(v1beta1.AnnotationLifecycleTimestamp, w.now.Format(time.RFC3339))
	if restarts && HasGate(pod) && opts.Grace > 0 {
		// The record has whole seconds, and the time that the user asked for is to pass in full.
		w.state.UpdateTimestamp = metav1.NewTime(now.UTC().Add(time.Second - 1).Truncate(time.Second))
		w.grace = &Grace{
			Revision:              to.Name,
			ContainerImages:       u.images,
			ContainerRefMetadata:  u.metadata,
			ContainerResources:    u.resources,
			UpdateEnvFromMetadata: len(u.metadata) > 0,
			GraceSeconds:          int32(opts.Grace / time.Second),
		}
	} else {
		w.batch(u.work)
	}
	out, err := w.writes()
	if err == nil && restarts && HasGate(pod) {
		out.Status, err = ShutGate(now)
	}
	if err != nil {
		return Writes{}, fmt.Errorf("begin the update in place of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return out, nil
}

// state returns the record with what an unfinished update left behind.
func (u *update) state(to Revision) State {
	s := State{Revision: to.Name, ContainerBatches: u.batches, UpdateEnvFromMetadata: u.fedEnvironment}
	if len(u.restarting) > 0 {
		s.LastContainerStatuses = u.restarting
	}
	for _, before := range u.restarting {
		s.UpdateImages = s.UpdateImages || !before.Environment
		s.UpdateEnvFromMetadata = s.UpdateEnvFromMetadata || before.Environment
	}
	if len(u.resizing) > 0 {
		s.ContainerResources, s.UpdateResources = u.resizing, true
	}
	return s
}

// revisionLabel keeps the form that the pod's label has: a full name, or the short hash of some installations.
func revisionLabel(pod *corev1.Pod, to Revision) string {
	if have := pod.Labels["controller-revision-hash"]; have != "" && have == pod.Labels[v1beta1.LabelPodTemplateHash] {
		return to.Hash
	}
	return to.Name
}

// writing collects what is written to a pod.
type writing struct {
	pod                 *corev1.Pod
	now                 metav1.Time
	state               State
	grace               *Grace
	labels, annotations map[string]*string
	images              map[string]string
	resources           map[string]corev1.ResourceRequirements
}

func (w *writing) label(key, value string) {
	w.metadata(Metadata{Labels: map[string]*string{key: &value}})
}
func (w *writing) annotate(key, value string) {
	w.metadata(Metadata{Annotations: map[string]*string{key: &value}})
}

func (w *writing) metadata(m Metadata) {
	w.labels, w.annotations = merged(w.labels, m.Labels), merged(w.annotations, m.Annotations)
}

// batch writes the next batch of the work, and notes the rest in the record.
func (w *writing) batch(all work) {
	s := &w.state
	before := record{state: *s}.unfinished(w.pod)
	batch, rest, names := all.split(w.pod)
	w.images, w.resources = batch.images, batch.resources
	s.UpdateImages = s.UpdateImages || len(batch.images) > 0
	s.UpdateEnvFromMetadata = s.UpdateEnvFromMetadata || len(batch.metadata) > 0
	s.LastContainerStatuses = maps.Clone(s.LastContainerStatuses)
	for _, name := range names {
		_, image := batch.images[name]
		metadata, fed := batch.metadata[name]
		if !image && !fed {
			continue
		}
		if s.LastContainerStatuses == nil {
			s.LastContainerStatuses = map[string]ContainerStatus{}
		}
		last, restarting := before[name]
		s.LastContainerStatuses[name] = w.last(name, image, last, restarting, metadata)
		w.metadata(metadata)
	}
	if len(batch.resources) > 0 {
		s.ContainerResources = merged(s.ContainerResources, batch.resources)
		s.UpdateResources = true
	}
	if len(names) > 0 {
		s.ContainerBatches = append(slices.Clip(s.ContainerBatches), Batch{Timestamp: w.now, Containers: names})
	}
	s.NextContainerImages, s.NextContainerRefMetadata, s.NextContainerResources = rest.images, rest.metadata,
		rest.resources
	s.PreCheckBeforeNext = nil
	if !rest.empty() {
		s.PreCheckBeforeNext = &PreCheck{ContainersRequiredReady: names}
	}
}

// last returns what the container runs now that it gets another image or other metadata; before is the same from an
// unfinished update.
func (w *writing) last(name string, image bool, before ContainerStatus, restarting bool, m Metadata) ContainerStatus {
	status := statusOf(w.pod, name)
	same := restarting && before.ContainerID == status.ContainerID
	last := ContainerStatus{ContainerID: status.ContainerID, Environment: true}
	switch {
	case image:
		last = ContainerStatus{ImageID: status.ImageID, ContainerID: status.ContainerID}
		if restarting && !before.Environment {
			last.Passed = passed(before.Passed, containerOf(w.pod, name).Image)
		}
		if same {
			last.Saw = before.Saw
		}
	case restarting:
		last = before
	}
	if last.ContainerID == "" || last.ContainerID != status.ContainerID || len(m.Labels)+len(m.Annotations) == 0 {
		return last
	}
	saw := Metadata{Labels: values(w.pod.Labels, m.Labels), Annotations: values(w.pod.Annotations, m.Annotations)}
	if last.Saw != nil {
		saw = Metadata{
			Labels:      merged(saw.Labels, last.Saw.Labels),
			Annotations: merged(saw.Annotations, last.Saw.Annotations),
		}
	}
	last.Saw = &saw
	return last
}

// forget drops what is waited for no longer: containers whose environment gets back what it has do not restart for it.
func (w *writing) forget() {
	for name, last := range w.state.LastContainerStatuses {
		if last.Saw == nil || !last.Saw.in(w.pod, Metadata{Labels: w.labels, Annotations: w.annotations}) {
			continue
		}
		if last.Saw = nil; last.Environment {
			delete(w.state.LastContainerStatuses, name)
		} else {
			w.state.LastContainerStatuses[name] = last
		}
	}
}

// in reports whether the pod, with the change, has the same values.
func (m Metadata) in(pod *corev1.Pod, change Metadata) bool {
	return gives(pod.Labels, change.Labels, m.Labels) && gives(pod.Annotations, change.Annotations, m.Annotations)
}

// values returns what have has for the keys, nil where it has nothing.
func values(have map[string]string, keys map[string]*string) map[string]*string {
	out := map[string]*string{}
	for key := range keys {
		out[key] = nil
		if value, ok := have[key]; ok {
			out[key] = &value
		}
	}
	return out
}

// gives reports whether have with change has the values that are wanted.
func gives(have map[string]string, change, wanted map[string]*string) bool {
	after := merged(values(have, wanted), change)
	for key, want := range wanted {
		if is := after[key]; (is == nil) != (want == nil) || is != nil && *is != *want {
			return false
		}
	}
	return true
}

// maxPassed bounds the images that a record remembers. Eight changes while one image is being pulled do not happen to
// people; a robot that goes on like this loses only the caution about the oldest.
const maxPassed = 8

func passed(images []string, image string) []string {
	out := append(slices.Clone(images), image)
	return out[max(0, len(out)-maxPassed):]
}

// statusOf returns what the kubelet says of the container, with nothing in it before it says anything.
func statusOf(pod *corev1.Pod, name string) corev1.ContainerStatus {
	if status := containerStatus(pod, name); status != nil {
		return *status
	}
	return corev1.ContainerStatus{}
}

// writes returns the patches of the pod and of its size.
func (w *writing) writes() (Writes, error) {
	w.forget()
	text, err := json.Marshal(w.state)
	if err != nil {
		return Writes{}, fmt.Errorf("encode the state: %w", err)
	}
	w.annotate(v1beta1.AnnotationInPlaceUpdateState, string(text))
	_, had := w.pod.Annotations[v1beta1.AnnotationInPlaceUpdateGrace]
	switch {
	case w.grace != nil:
		if text, err = json.Marshal(w.grace); err != nil {
			return Writes{}, fmt.Errorf("encode the grace period: %w", err)
		}
		w.annotate(v1beta1.AnnotationInPlaceUpdateGrace, string(text))
	case had:
		w.metadata(Metadata{Annotations: map[string]*string{v1beta1.AnnotationInPlaceUpdateGrace: nil}})
	}
	body := map[string]any{"metadata": Metadata{Labels: w.labels, Annotations: w.annotations}}
	if containers := byContainer(w.pod, w.images, "image"); len(containers) > 0 {
		body["spec"] = map[string]any{"containers": containers}
	}
	var out Writes
	if out.Pod, err = json.Marshal(body); err != nil {
		return Writes{}, fmt.Errorf("encode the patch: %w", err)
	}
	out.Resize, err = resizePatch(w.pod, w.resources)
	return out, err
}

// resizePatch returns the patch of the resize subresource, nil for none.
func resizePatch(pod *corev1.Pod, resources map[string]corev1.ResourceRequirements) ([]byte, error) {
	containers := byContainer(pod, resources, "resources")
	if len(containers) == 0 {
		return nil, nil
	}
	out, err := json.Marshal(map[string]any{"spec": map[string]any{"containers": containers}})
	if err != nil {
		return nil, fmt.Errorf("encode the resources: %w", err)
	}
	return out, nil
}

// byContainer returns the entries of a patch of containers that gives each one a field. They come in the order of the
// pod's containers: a strategic merge patch brings those that it names into its own order, and the API server refuses
// that.
func byContainer[V any](pod *corev1.Pod, values map[string]V, field string) []map[string]any {
	out := make([]map[string]any, 0, len(values))
	for i := range pod.Spec.Containers {
		name := pod.Spec.Containers[i].Name
		if value, ok := values[name]; ok {
			out = append(out, map[string]any{"name": name, field: value})
		}
	}
	return out
}
