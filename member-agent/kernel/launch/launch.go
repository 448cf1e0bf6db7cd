// Package launch is the order in which the containers of a pod start, by their priorities. A container waits for a key
// of the ConfigMap that is the barrier of its pod: its environment reads the key, so the kubelet does not start it
// before the key exists. Keys are added from the highest priority to the lowest, each when all containers of higher
// ones are ready. It is pure.
package launch

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

const (
	// EnvPriority is the published variable of a container with its priority, a whole number. Higher ones start first.
	EnvPriority = "KRUISE_CONTAINER_PRIORITY"
	// EnvBarrier is the published variable that waits for the barrier.
	EnvBarrier = "KRUISE_CONTAINER_BARRIER"
	// Annotation is the published annotation of a pod.
	Annotation = "apps.kruise.io/container-launch-priority"
	// Ordered is the value of Annotation with which containers start in the order of the list, whatever their variables
	// say.
	Ordered = "Ordered"
	// AnnotationCompleted is "true" on a pod all of whose containers have started in order.
	AnnotationCompleted = "apps.kruise.io/container-launch-priority-completed"

	keyPrefix = "p_"
	// configError is why a container waits whose environment cannot be read, as the kubelet writes it.
	configError = "CreateContainerConfigError"
)

// Priority returns the priority of the pod's container with that index: 0 without a variable, or with one that is no
// whole number.
func Priority(pod *corev1.Pod, index int) int {
	if pod.Annotations[Annotation] == Ordered {
		return -index
	}
	priority, err := strconv.Atoi(variable(&pod.Spec.Containers[index], EnvPriority))
	if err != nil {
		return 0
	}
	return priority
}

// variable returns the value of a variable, "" without one. Of two of one name the last one holds.
func variable(c *corev1.Container, name string) string {
	for _, e := range slices.Backward(c.Env) {
		if e.Name == name {
			return e.Value
		}
	}
	return ""
}

func has(c *corev1.Container, name string) bool {
	return slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == name })
}

// Needed reports whether the containers of a new pod start in an order: there are at least two priorities. It errs
// where a variable is no whole number.
func Needed(pod *corev1.Pod) (bool, error) {
	different := false
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if pod.Annotations[Annotation] != Ordered && has(c, EnvPriority) {
			if _, err := strconv.Atoi(variable(c, EnvPriority)); err != nil {
				return false, fmt.Errorf("container %s has %s=%q, which is no whole number: correct or remove it", c.Name,
					EnvPriority, variable(c, EnvPriority))
			}
		}
		different = different || Priority(pod, i) != Priority(pod, 0)
	}
	return different, nil
}

// Barrier returns the name of the ConfigMap that is the barrier of a pod.
func Barrier(pod string) string { return pod + "-barrier" }

// Inject makes each container wait for its key of the barrier. The pod must have a name.
func Inject(pod *corev1.Pod) {
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		c.Env = slices.DeleteFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == EnvBarrier })
		c.Env = append(c.Env, corev1.EnvVar{Name: EnvBarrier, ValueFrom: &corev1.EnvVarSource{
			ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: Barrier(pod.Name)},
				Key:                  keyOf(Priority(pod, i)),
			},
		}})
	}
}

// level is the priority of a container that waits for the barrier of its pod; false for another one.
func level(pod *corev1.Pod, c *corev1.Container) (int, bool) {
	for _, e := range slices.Backward(c.Env) {
		if e.Name != EnvBarrier || e.ValueFrom == nil || e.ValueFrom.ConfigMapKeyRef == nil {
			continue
		}
		ref := e.ValueFrom.ConfigMapKeyRef
		priority, err := strconv.Atoi(strings.TrimPrefix(ref.Key, keyPrefix))
		return priority, err == nil && ref.Name == Barrier(pod.Name)
	}
	return 0, false
}

// Waits reports whether containers of the pod wait for its barrier, or have.
func Waits(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
		_, ok := level(pod, &c)
		return ok
	})
}

// Lacks reports whether a container of the pod cannot start because the barrier does not have its key, which is among
// these: the ConfigMap was deleted, or the kubelet has not seen the key yet.
func Lacks(pod *corev1.Pod, keys []string) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		waiting := s.State.Waiting
		return waiting != nil && waiting.Reason == configError && namesBarrier(waiting.Message, pod.Name) &&
			slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
				priority, ok := level(pod, &c)
				return ok && c.Name == s.Name && slices.Contains(keys, keyOf(priority))
			})
	})
}

// namesBarrier reports whether a message of the kubelet is about the barrier of a pod.
func namesBarrier(message, pod string) bool {
	for word := range strings.FieldsFuncSeq(message, func(r rune) bool { return strings.ContainsRune(" \"/", r) }) {
		if word == Barrier(pod) {
			return true
		}
	}
	return false
}

func keyOf(priority int) string { return keyPrefix + strconv.Itoa(priority) }

// Keys returns the keys of all containers that wait for the barrier of the pod, the highest first.
func Keys(pod *corev1.Pod) []string {
	levels := map[int]bool{}
	for i := range pod.Spec.Containers {
		if priority, ok := level(pod, &pod.Spec.Containers[i]); ok {
			levels[priority] = true
		}
	}
	var keys []string
	for _, priority := range slices.Backward(slices.Sorted(maps.Keys(levels))) {
		keys = append(keys, keyOf(priority))
	}
	return keys
}

// Due returns the keys that the barrier of a pod is to have, the highest first, and whether all containers have
// started. A container that has ended without an error has started too.
func Due(pod *corev1.Pod) (keys []string, done bool) {
	started := map[int]bool{}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if priority, ok := level(pod, c); ok {
			before, known := started[priority]
			started[priority] = (before || !known) && hasStarted(pod, c.Name)
		}
	}
	levels := make([]int, 0, len(started))
	for priority := range started {
		levels = append(levels, priority)
	}
	slices.SortFunc(levels, func(a, b int) int { return cmp.Compare(b, a) })
	for _, priority := range levels {
		keys = append(keys, keyOf(priority))
		if !started[priority] {
			return keys, false
		}
	}
	return keys, true
}

func hasStarted(pod *corev1.Pod, container string) bool {
	i := slices.IndexFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == container })
	if i < 0 {
		return false
	}
	s := &pod.Status.ContainerStatuses[i]
	return s.Ready || s.State.Terminated != nil && s.State.Terminated.ExitCode == 0
}
