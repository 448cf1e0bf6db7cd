package marks

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
)

// Value is a label or annotation that was set.
type Value struct {
	Set string `json:"set"`
	// Had is the value that it replaced, nil for none.
	Had *string `json:"had,omitempty"`
}

// Mark is what one probe put on a pod.
type Mark struct {
	// State is the last result, Succeeded or Failed.
	State       v1alpha1.ProbeState `json:"state,omitempty"`
	Labels      map[string]Value    `json:"labels,omitempty"`
	Annotations map[string]Value    `json:"annotations,omitempty"`
	// Condition is the type of the pod condition, "" for none.
	Condition string `json:"condition,omitempty"`
	// Stale: the container was started again since the last result. The marks stay until the next one.
	Stale bool `json:"stale,omitempty"`
}

// Record are the marks of a pod by probes, named <marker>#<probe>.
type Record map[string]Mark

// Of returns the marks of a pod, nil for none. It errs if the annotation is not as this package writes it.
func Of(pod *corev1.Pod) (Record, error) {
	text, ok := pod.Annotations[v1alpha1.AnnotationProbeMarks]
	if !ok {
		return nil, nil
	}
	var record Record
	if err := json.Unmarshal([]byte(text), &record); err != nil {
		return nil, fmt.Errorf("read annotation %s of pod %s: %w", v1alpha1.AnnotationProbeMarks, pod.Name, err)
	}
	return record, nil
}

// States returns what probes say of a pod: labels as key=value, and conditions as type=status. Each is there once.
// Results of a container that was started again since do not count.
func States(pod *corev1.Pod) []string {
	record, err := Of(pod)
	if err != nil {
		return nil
	}
	var out []string
	for _, mark := range record {
		for key, value := range mark.Labels {
			if !mark.Stale && pod.Labels[key] == value.Set {
				out = append(out, key+"="+value.Set)
			}
		}
		for i := range pod.Status.Conditions {
			c := &pod.Status.Conditions[i]
			if mark.Condition != "" && string(c.Type) == mark.Condition &&
				(!mark.Stale || c.Status == corev1.ConditionUnknown) {
				out = append(out, mark.Condition+"="+string(c.Status))
			}
		}
	}
	return out
}
