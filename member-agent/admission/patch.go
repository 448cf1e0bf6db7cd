package admission

import (
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/json"
)

// graft returns the pod raw, as the API server sent it, with what change does to it. Fields that this program does not know, of
// a newer API server, stay as they are. raw is not changed.
func graft(raw []byte, change func(*corev1.Pod) error) ([]byte, error) {
	var pod corev1.Pod
	var sent map[string]any
	for _, into := range []any{&pod, &sent} {
		if err := json.Unmarshal(raw, into); err != nil {
			return nil, fmt.Errorf("read the pod: %w", err)
		}
	}
	before, err := fields(&pod)
	if err != nil {
		return nil, err
	}
	if err := change(&pod); err != nil {
		return nil, err
	}
	after, err := fields(&pod)
	if err != nil {
		return nil, err
	}
	grown, err := json.Marshal(carry(sent, before, after))
	if err != nil {
		return nil, fmt.Errorf("write the pod: %w", err)
	}
	return grown, nil
}

func fields(pod *corev1.Pod) (map[string]any, error) {
	data, err := json.Marshal(pod)
	if err != nil {
		return nil, fmt.Errorf("write the pod: %w", err)
	}
	var out map[string]any
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, fmt.Errorf("read the pod: %w", err)
	}
	return out, nil
}

// carry returns sent with the difference between before and after, all JSON values. Lists are followed item by item where all
// three have the items of before at the same places; a list that has changed otherwise is taken from after as a whole.
func carry(sent, before, after any) any {
	if reflect.DeepEqual(before, after) {
		return sent
	}
	switch after := after.(type) {
	case map[string]any:
		was, _ := before.(map[string]any)
		is, _ := sent.(map[string]any)
		out := make(map[string]any, len(after))
		for key, value := range is {
			if _, known := was[key]; known {
				if _, kept := after[key]; !kept {
					continue
				}
			}
			out[key] = value
		}
		for key, value := range after {
			if old, known := was[key]; !known || !reflect.DeepEqual(old, value) {
				out[key] = carry(is[key], old, value)
			}
		}
		return out
	case []any:
		was, _ := before.([]any)
		is, _ := sent.([]any)
		if len(is) != len(was) || len(after) < len(was) {
			return after
		}
		out := make([]any, len(after))
		copy(out, after)
		for i := range was {
			if nameOf(was[i]) != nameOf(after[i]) {
				return after
			}
			out[i] = carry(is[i], was[i], after[i])
		}
		return out
	default:
		return after
	}
}

// nameOf returns the name of an item of a list, such as a container; nil for items without one.
func nameOf(item any) any {
	object, _ := item.(map[string]any)
	return object["name"]
}
