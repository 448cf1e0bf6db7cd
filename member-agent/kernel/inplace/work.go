package inplace

import (
	"maps"
	"math"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/launch"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
)

// annotationRuntimeMeta is written by the node daemon, which restarts containers whose environment reads changed
// metadata.
const annotationRuntimeMeta = "apps.kruise.io/runtime-containers-meta"

// update is a change as one pod needs it: with what an update that is not finished left behind, and without what the
// pod has already.
type update struct {
	work
	// now are the labels and annotations that no container's environment waits for.
	now Metadata
	// restarting are containers that an unfinished update restarts, with what they ran before it; resizing are resources
	// of which the kubelet has not said that the containers have them.
	restarting map[string]ContainerStatus
	resizing   map[string]corev1.ResourceRequirements
	// batches are the batches in which restarting containers were changed.
	batches []Batch
	// fedEnvironment reports whether the unfinished update changed what environments read.
	fedEnvironment bool
}

// openRecord returns the record of an update that may not be finished. The record of a pod whose gate is open tells of
// the past, unless it says that the pod is in service.
func openRecord(pod *corev1.Pod) (record, bool) {
	r, ok := recordOf(pod)
	if ok && HasGate(pod) && !r.state.InService && gateOpen(pod) {
		return record{}, false
	}
	return r, ok
}

func gateOpen(pod *corev1.Pod) bool {
	gate := podstate.Condition(pod, v1beta1.InPlaceUpdateReady)
	return gate != nil && gate.Status == corev1.ConditionTrue
}

// plan returns the change as the pod needs it.
func plan(pod *corev1.Pod, change Change) (update, error) {
	u := update{work: newWork(), resizing: map[string]corev1.ResourceRequirements{}}
	if r, ok := openRecord(pod); ok {
		late, err := r.metadataPatch()
		if err != nil {
			return update{}, err
		}
		u.now = late
		w := r.waiting()
		u.add(nil, nil, r.state.ContainerResources)
		u.add(w.images, w.metadata, w.resources)
		u.carry(pod, r)
	}
	for name, read := range change.Environment {
		u.add(nil, map[string]Metadata{name: read.Metadata}, nil)
	}
	u.add(change.Images, nil, change.Resources)
	u.drop(pod)
	u.now.Labels = merged(u.now.Labels, change.Labels)
	u.now.Annotations = merged(u.now.Annotations, change.Annotations)
	for _, m := range u.metadata {
		maps.DeleteFunc(u.now.Labels, func(key string, _ *string) bool { _, waits := m.Labels[key]; return waits })
		maps.DeleteFunc(u.now.Annotations, func(key string, _ *string) bool { _, waits := m.Annotations[key]; return waits })
	}
	return u, nil
}

// carry notes what the containers are still on the way to.
func (u *update) carry(pod *corev1.Pod, r record) {
	u.restarting = r.unfinished(pod)
	u.fedEnvironment = r.state.UpdateEnvFromMetadata && len(u.restarting) > 0
	// Of each container only its last batch counts, so that the record stays small.
	listed := map[string]bool{}
	for _, batch := range slices.Backward(r.state.ContainerBatches) {
		var names []string
		for _, name := range batch.Containers {
			if _, ok := u.restarting[name]; ok && !listed[name] {
				names = append(names, name)
				listed[name] = true
			}
		}
		if len(names) > 0 {
			u.batches = append(u.batches, Batch{Timestamp: batch.Timestamp, Containers: names})
		}
	}
	slices.Reverse(u.batches)
	if r.resized(pod) {
		return
	}
	for _, name := range r.resizedContainers() {
		if container := containerOf(pod, name); container != nil {
			u.resizing[name] = corev1.ResourceRequirements{Limits: computed(container.Resources.Limits),
				Requests: computed(container.Resources.Requests)}
		}
	}
}

// drop takes away what the pod has, and what is for containers that it does not have.
func (w work) drop(pod *corev1.Pod) {
	maps.DeleteFunc(w.images, func(name, image string) bool {
		c := containerOf(pod, name)
		return c == nil || c.Image == image
	})
	maps.DeleteFunc(w.resources, func(name string, size corev1.ResourceRequirements) bool {
		c := containerOf(pod, name)
		return c == nil || holdsBoth(c.Resources, size)
	})
	for name, m := range w.metadata {
		m = Metadata{Labels: missing(pod.Labels, m.Labels), Annotations: missing(pod.Annotations, m.Annotations)}
		if w.metadata[name] = m; len(m.Labels)+len(m.Annotations) == 0 || containerOf(pod, name) == nil {
			delete(w.metadata, name)
		}
	}
}

// missing returns the wanted keys whose value is another one in have.
func missing(have map[string]string, want map[string]*string) map[string]*string {
	out := maps.Clone(want)
	maps.DeleteFunc(out, func(key string, value *string) bool {
		is, ok := have[key]
		return ok == (value != nil) && (!ok || is == *value)
	})
	return out
}

// Possible returns the first field that keeps this pod from being given the change, or "". Containers whose environment
// reads changed metadata see it only when they restart: with a new image of their own, or by the node daemon, if it
// runs on the pod's node and knows the pod's containers. And the pod, which may have more containers than its
// template, must keep its quality of service.
func (c Change) Possible(pod *corev1.Pod, daemonRuns bool) (refusal string) {
	u, err := plan(pod, c)
	if err != nil {
		return "metadata.annotations[" + v1beta1.AnnotationInPlaceUpdateGrace + "]"
	}
	_, knows := pod.Annotations[annotationRuntimeMeta] // it stays when the daemon goes
	for i := range pod.Spec.Containers {
		name := pod.Spec.Containers[i].Name
		if daemonRuns && knows {
			break
		}
		if u.neverLeft(pod, &pod.Spec.Containers[i]) {
			return "spec.containers[" + strconv.Itoa(i) + "].env"
		}
		if _, reads := u.metadata[name]; !reads {
			continue
		}
		if _, restarts := u.images[name]; restarts {
			continue
		}
		if read, ok := c.Environment[name]; ok {
			return read.Field
		}
		return "spec.containers[" + strconv.Itoa(i) + "].env"
	}
	if len(u.resources) == 0 || qosClass(&pod.Spec, nil) == qosClass(&pod.Spec, u.resources) {
		return ""
	}
	for i := range pod.Spec.Containers {
		if _, ok := u.resources[pod.Spec.Containers[i].Name]; ok {
			return "spec.containers[" + strconv.Itoa(i) + "].resources"
		}
	}
	return ""
}

// Effect is what a change does to the running containers of a pod.
type Effect int

// The effects, the stronger one later.
const (
	// EffectNone: labels and annotations change, which no environment reads.
	EffectNone Effect = iota
	// EffectResizes: containers get other resources while they run.
	EffectResizes
	// EffectRestarts: containers restart.
	EffectRestarts
)

// EffectOn returns what the change, with what an unfinished update left to do, does to the pod. A pod whose record
// cannot be read counts as one that restarts.
func (c Change) EffectOn(pod *corev1.Pod) Effect {
	u, err := plan(pod, c)
	switch {
	case err != nil || u.restarts(pod):
		return EffectRestarts
	case len(u.resources) > 0:
		return EffectResizes
	}
	return EffectNone
}

// neverLeft reports whether the change gives the container the image back that it still runs, while its environment is
// to get other metadata than it has: it need not restart then, and would not see them.
func (u *update) neverLeft(pod *corev1.Pod, c *corev1.Container) bool {
	image, changes := u.images[c.Name]
	status := statusOf(pod, c.Name)
	last, restarting := u.restarting[c.Name]
	if !restarting || !changes || !SameImage(image, status.Image) {
		return false
	}
	if last.ContainerID != "" && last.ContainerID == status.ContainerID {
		m := u.metadata[c.Name]
		after := Metadata{Labels: merged(u.now.Labels, m.Labels), Annotations: merged(u.now.Annotations, m.Annotations)}
		saw := Metadata{Labels: values(pod.Labels, m.Labels), Annotations: values(pod.Annotations, m.Annotations)}
		if last.Saw != nil {
			saw = Metadata{Labels: merged(saw.Labels, last.Saw.Labels),
				Annotations: merged(saw.Annotations, last.Saw.Annotations)}
		}
		return !saw.in(pod, after)
	}
	// Nobody knows what it saw.
	return u.fedEnvironment && slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool {
		if e.ValueFrom == nil || e.ValueFrom.FieldRef == nil {
			return false
		}
		kind, _ := metadataKey(e.ValueFrom.FieldRef.FieldPath)
		return kind != ""
	})
}

// restarts reports whether any container restarts for the work.
func (w work) restarts(pod *corev1.Pod) bool {
	if len(w.images)+len(w.metadata) > 0 {
		return true
	}
	for name, size := range w.resources {
		if restartsForSize(containerOf(pod, name), size) {
			return true
		}
	}
	return false
}

// split returns the work of the next batch and what is left after it. A batch has the containers of the highest
// priority that have something to do. Containers whose environment reads the same changed key come together: a key has
// one value, and the first of them needs the new one.
func (w work) split(pod *corev1.Pod) (batch, rest work, names []string) {
	highest := math.MinInt
	for i := range pod.Spec.Containers {
		if w.has(pod.Spec.Containers[i].Name) {
			highest = max(highest, launch.Priority(pod, i))
		}
	}
	for i := range pod.Spec.Containers {
		if name := pod.Spec.Containers[i].Name; w.has(name) && launch.Priority(pod, i) == highest {
			names = append(names, name)
		}
	}
	for i := 0; i < len(names); i++ {
		for other, m := range w.metadata {
			if !slices.Contains(names, other) && sharesKey(w.metadata[names[i]], m) {
				names = append(names, other)
			}
		}
	}
	slices.Sort(names)
	batch, rest = newWork(), newWork()
	divide(w.images, batch.images, rest.images, names)
	divide(w.metadata, batch.metadata, rest.metadata, names)
	divide(w.resources, batch.resources, rest.resources, names)
	return batch, rest, names
}

func (w work) has(name string) bool {
	_, image := w.images[name]
	_, metadata := w.metadata[name]
	_, size := w.resources[name]
	return image || metadata || size
}

func divide[V any](all, in, out map[string]V, names []string) {
	for name, value := range all {
		if slices.Contains(names, name) {
			in[name] = value
		} else {
			out[name] = value
		}
	}
}

func sharesKey(a, b Metadata) bool {
	for _, pair := range [][2]map[string]*string{{a.Labels, b.Labels}, {a.Annotations, b.Annotations}} {
		for key := range pair[0] {
			if _, ok := pair[1][key]; ok {
				return true
			}
		}
	}
	return false
}
