package cloneset_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// recorded are the objects that a real OpenKruise manager left at one moment: the CloneSets, what they own, and the
// UnitedDeployment that owns two of them.
type recorded struct {
	testing.TB
	objects []*unstructured.Unstructured
}

func readRecorded(t testing.TB, moment string) *recorded {
	t.Helper()
	file, err := os.ReadFile("testdata/openkruise/" + moment + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	r := &recorded{TB: t}
	for _, doc := range bytes.Split(file, []byte("\n---\n")) {
		object := &unstructured.Unstructured{}
		data, err := yaml.YAMLToJSON(doc)
		if err == nil {
			err = object.UnmarshalJSON(data)
		}
		if err != nil {
			t.Fatal(err)
		}
		r.objects = append(r.objects, object)
	}
	return r
}

// of returns the recorded objects of a kind, in the order of the recording.
func (r *recorded) of(kind string) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for _, object := range r.objects {
		if object.GetKind() == kind {
			out = append(out, object)
		}
	}
	return out
}

func typed[T any](t testing.TB, from *unstructured.Unstructured) *T {
	t.Helper()
	out := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(from.Object, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func (r *recorded) cloneSet(name string) *v1beta1.CloneSet {
	r.Helper()
	for _, object := range r.of("CloneSet") {
		if object.GetName() == name {
			return typed[v1beta1.CloneSet](r, object)
		}
	}
	r.Fatalf("CloneSet %s is not recorded", name)
	return nil
}

// owned returns the recorded objects of a kind that belong to the CloneSet.
func owned[T any](r *recorded, kind, name string) []*T {
	r.Helper()
	var out []*T
	for _, object := range r.of(kind) {
		if ref := metav1.GetControllerOf(object); ref != nil && ref.Name == name {
			out = append(out, typed[T](r, object))
		}
	}
	if len(out) == 0 {
		r.Fatalf("CloneSet %s has no recorded %s", name, kind)
	}
	return out
}

func (r *recorded) pods(name string) []*corev1.Pod {
	r.Helper()
	return owned[corev1.Pod](r, "Pod", name)
}

func (r *recorded) revisions(name string) []*appsv1.ControllerRevision {
	r.Helper()
	return owned[appsv1.ControllerRevision](r, "ControllerRevision", name)
}

// updated tells whether the pod has the update revision, in either form of its label.
func updated(cs *v1beta1.CloneSet, pod *corev1.Pod) bool {
	label := pod.Labels["controller-revision-hash"]
	return label != "" && (cs.Status.UpdateRevision == label || strings.HasSuffix(cs.Status.UpdateRevision, "-"+label))
}
