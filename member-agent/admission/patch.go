package admission

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/json"
)

// operation is one step of a JSON patch (RFC 6902). An add of a field that is there replaces it.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// patchOf returns the JSON patch for the pod raw, as the API server sent it, that changes it as before was changed into
// after. Fields that this program does not know, of a newer API server, stay as they are. It returns nil if nothing has
// changed.
func patchOf(raw []byte, before, after *corev1.Pod) ([]byte, error) {
	was, err := fields(before)
	if err != nil {
		return nil, err
	}
	is, err := fields(after)
	if err != nil {
		return nil, err
	}
	var sent map[string]any
	if err := json.Unmarshal(raw, &sent); err != nil {
		return nil, fmt.Errorf("decode the pod: %w", err)
	}
	operations := differences(nil, "", sent, was, is)
	if len(operations) == 0 {
		return nil, nil
	}
	patch, err := json.Marshal(operations)
	if err != nil {
		return nil, fmt.Errorf("encode the patch: %w", err)
	}
	return patch, nil
}

// fields returns the pod as JSON values.
func fields(pod *corev1.Pod) (map[string]any, error) {
	data, err := json.Marshal(pod)
	if err != nil {
		return nil, fmt.Errorf("encode the pod: %w", err)
	}
	var out map[string]any
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, fmt.Errorf("decode the pod: %w", err)
	}
	return out, nil
}

// differences appends what makes of sent what after is to before, all JSON values at the path. Lists are followed item
// by item where all three have the items of before at the same places; a list that has changed otherwise is replaced as
// a whole.
func differences(operations []operation, path string, sent, before, after any) []operation {
	if reflect.DeepEqual(before, after) {
		return operations
	}
	switch is := after.(type) {
	case map[string]any:
		has, ok := sent.(map[string]any)
		if was, known := before.(map[string]any); ok && known {
			return differencesOfFields(operations, path, has, was, is)
		}
	case []any:
		has, ok := sent.([]any)
		if was, known := before.([]any); ok && known && len(has) == len(was) && extends(is, was) {
			for i := range was {
				operations = differences(operations, path+"/"+strconv.Itoa(i), has[i], was[i], is[i])
			}
			for _, item := range is[len(was):] {
				operations = append(operations, operation{"add", path + "/-", item})
			}
			return operations
		}
	}
	return append(operations, operation{"replace", path, after})
}

func differencesOfFields(operations []operation, path string, sent, before, after map[string]any) []operation {
	for _, key := range slices.Sorted(maps.Keys(before)) {
		_, kept := after[key]
		if _, there := sent[key]; there && !kept {
			operations = append(operations, operation{Op: "remove", Path: path + "/" + escape(key)})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(after)) {
		was, known := before[key]
		has, there := sent[key]
		switch {
		case known && there:
			operations = differences(operations, path+"/"+escape(key), has, was, after[key])
		case !known || !reflect.DeepEqual(was, after[key]):
			operations = append(operations, operation{"add", path + "/" + escape(key), after[key]})
		}
	}
	return operations
}

// escape returns a key as a JSON pointer has it.
func escape(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}

// extends reports whether the list has the items of the other, by name, and perhaps more behind them.
func extends(list, other []any) bool {
	return len(list) >= len(other) &&
		slices.EqualFunc(list[:len(other)], other, func(a, b any) bool { return nameOf(a) == nameOf(b) })
}

// nameOf returns the name of an item of a list, such as a container; nil for items without one.
func nameOf(item any) any {
	object, _ := item.(map[string]any)
	return object["name"]
}
