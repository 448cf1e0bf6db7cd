package simulator

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestPatchesOfPodsMergeAsTheyDoInTheLibrary holds the short way of merging to the long one, for random patches.
func TestPatchesOfPodsMergeAsTheyDoInTheLibrary(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	short := 0
	for n := range 500 {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "uid", Labels: map[string]string{"a": "1", "b": "2"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "x", Image: "x:1"}, {Name: "y", Image: "y:1"}}},
			Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
				{Type: "Ready", Status: "True", Reason: "Because"}, {Type: "Other", Status: "False"}}},
		}
		patch := randomPatch(r)
		want, err := viaJSON(pod, func(before []byte) ([]byte, error) {
			return strategicpatch.StrategicMergePatch(before, patch, corev1.Pod{})
		})
		if err != nil {
			t.Fatal(err)
		}
		if !patchPod(pod, patch) {
			continue
		}
		short++
		after, _ := want.(*corev1.Pod)
		for _, p := range []*corev1.Pod{pod, after} {
			// Nobody reads conditions by their place.
			slices.SortFunc(p.Status.Conditions, func(a, b corev1.PodCondition) int { return cmp.Compare(a.Type, b.Type) })
		}
		if !equality.Semantic.DeepEqual(client.Object(pod), want) {
			a, _ := json.Marshal(pod)
			b, _ := json.Marshal(want)
			t.Fatalf("patch %d, %s:\n%s\nwant\n%s", n, patch, a, b)
		}
	}
	if short < 400 {
		t.Errorf("%d of 500 patches took the short way", short)
	}
}

func randomPatch(r *rand.Rand) []byte {
	maybe := func(v any) any {
		if r.IntN(3) == 0 {
			return nil
		}
		return v
	}
	metadata, body := map[string]any{}, map[string]any{}
	for _, field := range []string{"labels", "annotations"} {
		if r.IntN(2) == 0 {
			values := map[string]any{}
			for _, key := range []string{"a", "b", "c"} {
				if r.IntN(2) == 0 {
					values[key] = maybe(fmt.Sprint(r.IntN(3)))
				}
			}
			metadata[field] = values
		}
	}
	if r.IntN(3) == 0 {
		metadata["ownerReferences"] = []metav1.OwnerReference{{Kind: "CloneSet", Name: "web", UID: "u",
			Controller: new(true)}}
	}
	body["metadata"] = metadata
	if r.IntN(2) == 0 {
		body["spec"] = map[string]any{"containers": []any{map[string]any{"name": []string{"x", "y", "z"}[r.IntN(20)%3],
			"image": "x:2"}}}
	}
	if r.IntN(2) == 0 {
		conditions := []any{}
		for _, name := range []string{"New", "Ready", "Newer", "Other"} {
			if r.IntN(2) == 0 {
				conditions = append(conditions, map[string]any{"type": name, "status": "False", "reason": maybe("Reason"),
					"message": nil, "lastTransitionTime": "2030-01-01T00:00:00Z"})
			}
		}
		body["status"] = map[string]any{"conditions": conditions}
	}
	// A map of these types always has a JSON form.
	out, _ := json.Marshal(body)
	return out
}

func TestMergePatch(t *testing.T) {
	for _, tt := range []struct{ before, patch, want string }{
		{`{"a":1,"b":{"c":2,"d":3}}`, `{"b":{"c":null,"e":4}}`, `{"a":1,"b":{"d":3,"e":4}}`},
		{`{"a":[1,2]}`, `{"a":[3]}`, `{"a":[3]}`},
		{`{}`, `{"a":{"b":null}}`, `{"a":{}}`},
	} {
		got, err := mergePatch([]byte(tt.before), []byte(tt.patch))
		if err != nil || string(got) != tt.want {
			t.Errorf("%s with %s: %s, %v; want %s", tt.before, tt.patch, got, err, tt.want)
		}
	}
	if _, err := patched(&corev1.Pod{}, types.JSONPatchType, nil); err == nil {
		t.Error("a patch of a type that is not simulated went through")
	}
}
