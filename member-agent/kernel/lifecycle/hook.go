package lifecycle

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// Holds reports whether the hook is complete on the pod: all its labels match and all its finalizers are there. An
// empty hook never holds.
func Holds(hook *v1beta1.LifecycleHook, pod *corev1.Pod) bool {
	if !isSet(hook) {
		return false
	}
	for key, value := range hook.LabelsHandler {
		if !hasLabel(pod, key, value) {
			return false
		}
	}
	for _, finalizer := range hook.FinalizersHandler {
		if !slices.Contains(pod.Finalizers, finalizer) {
			return false
		}
	}
	return true
}

// Blocks reports whether any label or finalizer of the hook is on the pod: a pod is let go only when every party that
// shares the hook has let go of it. An empty hook never blocks.
func Blocks(hook *v1beta1.LifecycleHook, pod *corev1.Pod) bool {
	if !isSet(hook) {
		return false
	}
	for key, value := range hook.LabelsHandler {
		if hasLabel(pod, key, value) {
			return true
		}
	}
	return slices.ContainsFunc(hook.FinalizersHandler, func(f string) bool { return slices.Contains(pod.Finalizers, f) })
}

// remains names a part of the hook that is on the pod: the first finalizer, or the first label by name.
func remains(hook *v1beta1.LifecycleHook, pod *corev1.Pod) string {
	for _, finalizer := range hook.FinalizersHandler {
		if slices.Contains(pod.Finalizers, finalizer) {
			return fmt.Sprintf("finalizer %s is still on the pod", finalizer)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(hook.LabelsHandler)) {
		if value := hook.LabelsHandler[key]; hasLabel(pod, key, value) {
			return fmt.Sprintf("label %s=%s is still on the pod", key, value)
		}
	}
	return ""
}

// lacks names a part of the hook that is not on the pod, in the order of remains.
func lacks(hook *v1beta1.LifecycleHook, pod *corev1.Pod) string {
	for _, finalizer := range hook.FinalizersHandler {
		if !slices.Contains(pod.Finalizers, finalizer) {
			return fmt.Sprintf("finalizer %s is not on the pod yet", finalizer)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(hook.LabelsHandler)) {
		if value := hook.LabelsHandler[key]; !hasLabel(pod, key, value) {
			return fmt.Sprintf("label %s=%s is not on the pod yet", key, value)
		}
	}
	return ""
}

// hasLabel tells a label with an empty value from one that is not there.
func hasLabel(pod *corev1.Pod, key, value string) bool {
	have, ok := pod.Labels[key]
	return ok && have == value
}

func isSet(hook *v1beta1.LifecycleHook) bool {
	return hook != nil && (len(hook.LabelsHandler) > 0 || len(hook.FinalizersHandler) > 0)
}

func hooks(l *v1beta1.Lifecycle) v1beta1.Lifecycle {
	if l == nil {
		return v1beta1.Lifecycle{}
	}
	return *l
}
