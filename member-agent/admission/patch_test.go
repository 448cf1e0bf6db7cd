package admission

import (
	"encoding/json"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestPatchOf(t *testing.T) {
	label := func(pod *corev1.Pod) {
		if pod.Labels == nil {
			pod.Labels = map[string]string{}
		}
		pod.Labels["tier"] = "a"
	}
	tests := []struct {
		name, raw string
		change    func(*corev1.Pod)
		want      string
	}{
		{
			"nothing",
			`{"metadata":{"name":"p"},"spec":{"future":1}}`,
			func(*corev1.Pod) {},
			`{"metadata":{"name":"p"},"spec":{"future":1}}`,
		},
		{"a label", `{"metadata":{"labels":{"app":"web"}}}`, label, `{"metadata":{"labels":{"app":"web","tier":"a"}}}`},
		{"the first label", `{"spec":{}}`, label, `{"metadata":{"labels":{"tier":"a"}},"spec":{}}`},
		{"numbers stay exact", `{"spec":{"activeDeadlineSeconds":9007199254740993}}`, label,
			`{"metadata":{"labels":{"tier":"a"}},"spec":{"activeDeadlineSeconds":9007199254740993}}`},
		{
			"unknown fields stay",
			`{"spec":{"future":{"x":[1]},"tolerations":[{"key":"k","future":2}]}}`,
			func(pod *corev1.Pod) {
				pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: "spot"})
			},
			`{"spec":{"future":{"x":[1]},"tolerations":[{"key":"k","future":2},{"key":"spot"}]}}`,
		},
		{
			"unknown fields of containers stay",
			`{"spec":{"containers":[{"name":"main","future":3},{"name":"side"}]}}`,
			func(pod *corev1.Pod) {
				pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"cpu": resource.MustParse("1")}
			},
			`{"spec":{"containers":[{"name":"main","future":3,"resources":{"limits":{"cpu":"1"}}},{"name":"side"}]}}`,
		},
		{"containers in another order", `{"spec":{"containers":[{"name":"main","future":3}]}}`, func(pod *corev1.Pod) {
			pod.Spec.Containers = append([]corev1.Container{{Name: "first"}}, pod.Spec.Containers...)
		}, `{"spec":{"containers":[{"name":"first","resources":{}},{"name":"main","resources":{}}]}}`},
		{"a field that the API server sent as null", `{"metadata":{"creationTimestamp":null,"labels":null}}`, label,
			`{"metadata":{"creationTimestamp":null,"labels":{"tier":"a"}}}`},
		{"a key with a slash and a tilde", `{"metadata":{"annotations":{"a/b~c":"1","kept":"2"}}}`, func(pod *corev1.Pod) {
			pod.Annotations = map[string]string{"a/b~c": "3", "d/e": "4"}
		}, `{"metadata":{"annotations":{"a/b~c":"3","d/e":"4"}}}`},
		{
			"something is removed",
			`{"spec":{"nodeName":"n","future":4,"affinity":{"nodeAffinity":{}}}}`,
			func(pod *corev1.Pod) {
				pod.Spec.Affinity, pod.Spec.NodeName = nil, ""
			},
			`{"spec":{"future":4}}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := changed(t, []byte(tt.raw), tt.change)
			if diff := cmp.Diff(canonical(t, []byte(tt.want)), canonical(t, got)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// changed returns the pod with the patch for the change.
func changed(t *testing.T, raw []byte, change func(*corev1.Pod)) []byte {
	t.Helper()
	var before corev1.Pod
	if err := json.Unmarshal(raw, &before); err != nil {
		t.Fatal(err)
	}
	after := before.DeepCopy()
	change(after)
	patch, err := patchOf(raw, &before, after)
	if err != nil {
		t.Fatal(err)
	}
	if patch == nil {
		return raw
	}
	decoded, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		t.Fatal(err)
	}
	got, err := decoded.Apply(raw)
	if err != nil {
		t.Fatalf("apply %s: %v", patch, err)
	}
	return got
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
