// Package podready owns the pod condition KruisePodReady, which is also a readiness gate: several writers can make a
// pod not ready by it. Its message is a JSON list of its writers, and it is True only when the list is empty. Entries
// of others are kept byte for byte. It is pure.
package podready

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
)

// Condition is the type of the condition, and of the readiness gate.
const Condition = "KruisePodReady"

// Writer is an entry of the list: one reason for which the pod is not ready.
type Writer struct {
	UserAgent string `json:"userAgent"`
	Key       string `json:"key"`
}

// HasGate reports whether the pod has the readiness gate. A pod without it cannot be made not ready.
func HasGate(spec *corev1.PodSpec) bool {
	return slices.ContainsFunc(spec.ReadinessGates, func(g corev1.PodReadinessGate) bool {
		return g.ConditionType == Condition
	})
}

// InjectGate adds the readiness gate to a pod that is to be created, unless it has it.
func InjectGate(spec *corev1.PodSpec) {
	if !HasGate(spec) {
		spec.ReadinessGates = append(spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: Condition})
	}
}

// Open returns the condition without writers, as a new pod with the gate needs it once.
func Open(now time.Time) map[string]any {
	return map[string]any{"type": Condition, "status": corev1.ConditionTrue, "reason": nil, "message": nil,
		"lastTransitionTime": now.UTC().Format(time.RFC3339)}
}

// Split reads the message of the condition, which may be nil: the entries for which mine is true, and all others as
// they are. It errs if the message is no such list; whoever wrote it keeps the pod from being ready.
func Split(present *corev1.PodCondition, mine func(Writer) bool) (ours []Writer, others [][]byte, err error) {
	if present == nil || present.Message == "" {
		return nil, nil, nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal([]byte(present.Message), &list); err != nil {
		return nil, nil, fmt.Errorf("read the message of condition %s: %w", Condition, err)
	}
	for _, raw := range list {
		var writer Writer
		if json.Unmarshal(raw, &writer) == nil && mine(writer) {
			ours = append(ours, writer)
			continue
		}
		others = append(others, raw)
	}
	return ours, others, nil
}

// With returns the condition with the entries of others and those of ours, in the place of present, which may be nil.
func With(present *corev1.PodCondition, others [][]byte, now time.Time, ours ...Writer) (map[string]any, error) {
	list := slices.Clone(others)
	for _, writer := range ours {
		raw, err := json.Marshal(writer)
		if err != nil {
			return nil, fmt.Errorf("encode the entry %s: %w", writer.Key, err)
		}
		list = append(list, raw)
	}
	if len(list) == 0 {
		return Open(now), nil
	}
	condition := map[string]any{"type": Condition, "status": corev1.ConditionFalse,
		"message": "[" + string(bytes.Join(list, []byte(","))) + "]"}
	if present == nil || present.Status != corev1.ConditionFalse {
		condition["lastTransitionTime"] = now.UTC().Format(time.RFC3339)
	}
	return condition, nil
}

// Patch returns the strategic merge patch of the pod's status that adds the writer to the list, or removes it; nil if
// the pod is so already, or has no gate. It holds the resourceVersion of the pod, because it rewrites a list that
// others write too. It errs if the list cannot be read.
func Patch(pod *corev1.Pod, writer Writer, notReady bool, now time.Time) ([]byte, error) {
	if !HasGate(&pod.Spec) {
		return nil, nil
	}
	present := podstate.Condition(pod, Condition)
	ours, others, err := Split(present, func(w Writer) bool { return w == writer })
	if err != nil {
		return nil, fmt.Errorf("mark pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	if len(ours) > 0 == notReady {
		return nil, nil
	}
	var listed []Writer
	if notReady {
		listed = []Writer{writer}
	}
	condition, err := With(present, others, now, listed...)
	if err != nil {
		return nil, fmt.Errorf("mark pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID, "resourceVersion": pod.ResourceVersion},
		"status":   map[string]any{"conditions": []any{condition}},
	})
	if err != nil {
		return nil, fmt.Errorf("encode the mark of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return patch, nil
}
