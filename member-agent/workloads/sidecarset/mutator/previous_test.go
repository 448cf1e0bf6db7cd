package mutator

import (
	"encoding/json"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/admission"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/revision"
)

// TestNewPodsWhileAHubUpdates: new pods get the revision that the order names, with its hashes, and the current one
// once the order names none. The generation of the object does not change with that.
func TestNewPodsWhileAHubUpdates(t *testing.T) {
	set := &v1beta1.SidecarSet{ObjectMeta: metav1.ObjectMeta{Name: "logs", UID: "1", Generation: 2}}
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	if err := json.Unmarshal([]byte(`[{"name":"log","image":"log:2"}]`), &set.Spec.Containers); err != nil {
		t.Fatal(err)
	}
	m := &mutator{memo: memo{sets: map[string]*prepared{}}}
	previous := set.Spec.DeepCopy()
	previous.Containers[0].Image = "log:1"
	before := map[string]string{topology.AnnotationTemplateBefore: `{"containers":[{"name":"log","image":"log:1"}]}`}
	request := &admission.Request{AdmissionRequest: &admissionv1.AdmissionRequest{UID: "2"}}
	names := map[string]string{}
	for _, tt := range []struct {
		annotations map[string]string
		spec        *v1beta1.SidecarSetSpec
	}{{nil, &set.Spec}, {before, previous}, {nil, &set.Spec}} {
		set.Annotations = tt.annotations
		sets, failure := m.sets(t.Context(), request, &corev1.Pod{}, []*v1beta1.SidecarSet{set})
		if failure != nil {
			t.Fatal(failure)
		}
		want, err := revision.HashesOf(tt.spec)
		if err != nil {
			t.Fatal(err)
		}
		image := tt.spec.Containers[0].Image
		if got := sets[0]; got.Spec.Containers[0].Image != image || got.Hashes != want {
			t.Errorf("new pods get %s with %v, want %s with %v", got.Spec.Containers[0].Image, got.Hashes, image, want)
		}
		names[image] = sets[0].Revision
	}
	if names["log:1"] == names["log:2"] {
		t.Errorf("both revisions are %s", names["log:1"])
	}
	for _, text := range []string{"{}", `{"containers":[{"name":"log","image":{}}]}`} {
		set.Annotations = map[string]string{topology.AnnotationTemplateBefore: text}
		if got := m.memo.of(set); got.err != nil || got.previous != nil {
			t.Errorf("%s: %v, %+v is read", text, got.err, got.previous)
		}
	}
	set.Spec.Containers, set.Generation, set.Annotations = nil, 3, nil
	if err := json.Unmarshal([]byte(`[{"name":"log","image":{}}]`), &set.Spec.Containers); err != nil {
		t.Fatal(err)
	}
	if m.memo.of(set).err == nil {
		t.Error("a container with an object as its image can be injected")
	}
	set.Annotations = before
	if got := m.memo.of(set); got.err != nil || got.previous == nil {
		t.Errorf("an update that cannot be injected keeps the previous revision from new pods: %v", got.err)
	}
}
