package admission

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestGraft(t *testing.T) {
	label := func(pod *corev1.Pod) error {
		if pod.Labels == nil {
			pod.Labels = map[string]string{}
		}
		pod.Labels["tier"] = "a"
		return nil
	}
	tests := []struct {
		name, raw string
		change    func(*corev1.Pod) error
		want      string
	}{
		{"nothing", `{"metadata":{"name":"p"},"spec":{"future":1}}`, func(*corev1.Pod) error { return nil }, `{"metadata":{"name":"p"},"spec":{"future":1}}`},
		{"a label", `{"metadata":{"labels":{"app":"web"}}}`, label, `{"metadata":{"labels":{"app":"web","tier":"a"}}}`},
		{"the first label", `{"spec":{}}`, label, `{"metadata":{"labels":{"tier":"a"}},"spec":{}}`},
		{"numbers stay exact", `{"spec":{"activeDeadlineSeconds":9007199254740993}}`, label,
			`{"metadata":{"labels":{"tier":"a"}},"spec":{"activeDeadlineSeconds":9007199254740993}}`},
		{"unknown fields stay", `{"spec":{"future":{"x":[1]},"tolerations":[{"key":"k","future":2}]}}`, func(pod *corev1.Pod) error {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: "spot"})
			return nil
		}, `{"spec":{"future":{"x":[1]},"tolerations":[{"key":"k","future":2},{"key":"spot"}]}}`},
		{"unknown fields of containers stay", `{"spec":{"containers":[{"name":"main","future":3},{"name":"side"}]}}`, func(pod *corev1.Pod) error {
			pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"cpu": resource.MustParse("1")}
			return nil
		}, `{"spec":{"containers":[{"name":"main","future":3,"resources":{"limits":{"cpu":"1"}}},{"name":"side"}]}}`},
		{"containers in another order", `{"spec":{"containers":[{"name":"main","future":3}]}}`, func(pod *corev1.Pod) error {
			pod.Spec.Containers = append([]corev1.Container{{Name: "first"}}, pod.Spec.Containers...)
			return nil
		}, `{"spec":{"containers":[{"name":"first","resources":{}},{"name":"main","resources":{}}]}}`},
		{"something is removed", `{"spec":{"nodeName":"n","future":4,"affinity":{"nodeAffinity":{}}}}`, func(pod *corev1.Pod) error {
			pod.Spec.Affinity, pod.Spec.NodeName = nil, ""
			return nil
		}, `{"spec":{"future":4}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := graft([]byte(tt.raw), tt.change)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(canonical(t, []byte(tt.want)), canonical(t, got)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	if _, err := graft([]byte(`{`), label); err == nil {
		t.Error("half a pod was read")
	}
	if _, err := graft([]byte(`{}`), func(*corev1.Pod) error { return errors.New("no") }); err == nil {
		t.Error("an error was lost")
	}
}

// canonical returns JSON with sorted keys and the numbers as they are.
func canonical(t *testing.T, data []byte) string {
	t.Helper()
	var raw json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		t.Fatal(err)
	}
	return sorted(t, raw)
}

func sorted(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err == nil && object != nil {
		out := map[string]string{}
		for key, value := range object {
			out[key] = sorted(t, value)
		}
		text, err := json.Marshal(out)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err == nil && list != nil {
		text := "["
		for _, item := range list {
			text += sorted(t, item) + " "
		}
		return text + "]"
	}
	return string(raw)
}
