package admission

import (
	"encoding/json"
	"slices"
	"strconv"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"
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
		}, `{"spec":{"containers":[{"name":"first","resources":{}},{"name":"main","future":3}]}}`},
		{
			"containers between others, one of which changes",
			`{"spec":{"containers":[{"name":"a","future":1},{"name":"b","image":"b:1","future":2}]}}`,
			func(pod *corev1.Pod) {
				pod.Spec.Containers[1].Image = "b:2"
				pod.Spec.Containers = []corev1.Container{pod.Spec.Containers[0], {Name: "new"}, pod.Spec.Containers[1],
					{Name: "last"}}
			},
			`{"spec":{"containers":[{"name":"a","future":1},{"name":"new","resources":{}},` +
				`{"name":"b","image":"b:2","future":2},{"name":"last","resources":{}}]}}`,
		},
		{"containers change places", `{"spec":{"containers":[{"name":"a"},{"name":"b"}]}}`, func(pod *corev1.Pod) {
			slices.Reverse(pod.Spec.Containers)
		}, `{"spec":{"containers":[{"name":"b","resources":{}},{"name":"a","resources":{}}]}}`},
		{"a container less", `{"spec":{"containers":[{"name":"a"},{"name":"b"}]}}`, func(pod *corev1.Pod) {
			pod.Spec.Containers = pod.Spec.Containers[1:]
		}, `{"spec":{"containers":[{"name":"b","resources":{}}]}}`},
		{
			"unknown fields in an object without known ones",
			`{"spec":{"containers":[{"name":"a","resources":{"future":1}},{"name":"b","resources":null}]}}`,
			func(pod *corev1.Pod) {
				for i := range pod.Spec.Containers {
					pod.Spec.Containers[i].Resources.Limits = corev1.ResourceList{"cpu": resource.MustParse("1")}
				}
			},
			`{"spec":{"containers":[{"name":"a","resources":{"future":1,"limits":{"cpu":"1"}}},` +
				`{"name":"b","resources":{"limits":{"cpu":"1"}}}]}}`,
		},
		{
			"an inline object",
			`{"spec":{"volumes":[{"name":"v","future":1}]}}`,
			func(pod *corev1.Pod) { pod.Spec.Volumes[0].EmptyDir = &corev1.EmptyDirVolumeSource{} },
			`{"spec":{"volumes":[{"name":"v","future":1,"emptyDir":{}}]}}`,
		},
		{
			"quantities, numbers and pointers",
			`{"spec":{"priority":1,"hostNetwork":true,"overhead":{"cpu":"1","memory":"1Gi"}}}`,
			func(pod *corev1.Pod) {
				pod.Spec.Priority, pod.Spec.HostNetwork = new(int32(2)), false
				pod.Spec.Overhead["cpu"] = resource.MustParse("2")
			},
			`{"spec":{"priority":2,"overhead":{"cpu":"2","memory":"1Gi"}}}`,
		},
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
	patch, err := patchOf(func() ([]byte, error) { return raw, nil }, &before, after)
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

// TestPatchOfAnyPods changes random pods into others, and into mixtures of both.
func TestPatchOfAnyPods(t *testing.T) {
	filler := randfill.NewWithSeed(1).NilChance(0.5).NumElements(1, 3).Funcs(
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewQuantity(c.Int63n(1000), resource.DecimalSI)
		},
		func(v *intstr.IntOrString, c randfill.Continue) { *v = intstr.FromInt32(c.Int31()) },
		func(s *metav1.Time, c randfill.Continue) { *s = metav1.Unix(c.Int63n(1<<30), 0).Rfc3339Copy() },
		func(s *metav1.FieldsV1, _ randfill.Continue) { s.SetRawString("{}") },
		func(s *string, c randfill.Continue) { *s = strconv.Itoa(c.Intn(5)) },
	)
	for range 300 {
		var one, other corev1.Pod
		filler.Fill(&one)
		filler.Fill(&other)
		mixed := one.DeepCopy()
		mixed.Labels, mixed.Annotations = other.Labels, other.Annotations
		mixed.Spec.Containers = slices.Concat(other.Spec.Containers, one.Spec.Containers, other.Spec.Containers)
		mixed.Spec.Volumes = append(mixed.Spec.Volumes, other.Spec.Volumes...)
		mixed.Spec.Affinity, mixed.Spec.Overhead = other.Spec.Affinity, other.Spec.Overhead
		for _, want := range []*corev1.Pod{&other, mixed} {
			raw, err := json.Marshal(&one)
			if err != nil {
				t.Fatal(err)
			}
			got := &corev1.Pod{}
			if err := json.Unmarshal(changed(t, raw, func(pod *corev1.Pod) { *pod = *want.DeepCopy() }), got); err != nil {
				t.Fatal(err)
			}
			if !equality.Semantic.DeepEqual(want, got) {
				t.Fatal(cmp.Diff(want, got))
			}
		}
	}
}
