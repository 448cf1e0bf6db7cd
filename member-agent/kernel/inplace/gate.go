package inplace

import (
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// HasGate reports whether the pod has the readiness gate of updates in place.
func HasGate(pod *corev1.Pod) bool {
	for i := range pod.Spec.ReadinessGates {
		if pod.Spec.ReadinessGates[i].ConditionType == v1beta1.InPlaceUpdateReady {
			return true
		}
	}
	return false
}

// InjectGate adds the readiness gate to a pod that is to be created, unless it has it.
func InjectGate(spec *corev1.PodSpec) {
	gate := corev1.PodReadinessGate{ConditionType: v1beta1.InPlaceUpdateReady}
	if !slices.Contains(spec.ReadinessGates, gate) {
		spec.ReadinessGates = append(spec.ReadinessGates, gate)
	}
}

// ShutGate returns the status patch that begins an update: the gate and Ready become False, so that nobody counts on
// the pod from this moment on.
func ShutGate(now time.Time) ([]byte, error) {
	return conditionsPatch(now, "StartInPlaceUpdate", corev1.ConditionFalse, v1beta1.InPlaceUpdateReady, corev1.PodReady)
}

// OpenGate returns the status patch that makes the conditions of these types True, and that of updates in place if none
// is named. It ends an update, and a new pod needs it once.
func OpenGate(now time.Time, types ...corev1.PodConditionType) ([]byte, error) {
	if len(types) == 0 {
		types = []corev1.PodConditionType{v1beta1.InPlaceUpdateReady}
	}
	return conditionsPatch(now, "", corev1.ConditionTrue, types...)
}

func conditionsPatch(
	now time.Time,
	reason string,
	status corev1.ConditionStatus,
	types ...corev1.PodConditionType,
) ([]byte, error) {
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
