package karmada

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
)

func workOf(manifest string) *work.Work {
	return &work.Work{
		ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-es-east", Name: "shop.web.cloneset",
			Annotations: map[string]string{topology.AnnotationSequence: "17"}},
		Spec: work.WorkSpec{Workload: work.WorkloadTemplate{Manifests: []work.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(manifest)}}}}},
	}
}

const plain = `{"apiVersion":"apps.kruise.io/v1beta1","kind":"CloneSet","metadata":{"name":"web","namespace":"shop","labels":{"app":"web"}},"spec":{"replicas":3}}`

// TestMark compares a marked manifest with what Karmada's agent was seen to need.
func TestMark(t *testing.T) {
	w := workOf(plain)
	for range 2 { // twice is once
		if err := Mark(w, "2f6e3a0c-6d0e-4f0e-9a52-1f7d3a1f0c11"); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile("testdata/manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	var got, want any
	if json.Unmarshal(w.Spec.Workload.Manifests[0].Raw, &got) != nil || json.Unmarshal(golden, &want) != nil ||
		!reflect.DeepEqual(got, want) {
		t.Errorf("marked: %s\nwant: %s", w.Spec.Workload.Manifests[0].Raw, golden)
	}
}

func TestMarkNamesWhatItCannotRead(t *testing.T) {
	if err := Mark(workOf("{"), "uid"); err == nil || !strings.Contains(err.Error(), "karmada-es-east/shop.web.cloneset") {
		t.Errorf("it says %v", err)
	}
}

// TestDropAdded takes away what Karmada's webhook adds, and nothing that people or we wrote.
func TestDropAdded(t *testing.T) {
	for _, test := range []struct{ name, have, want, left string }{
		{"of Karmada", `{"metadata":{"labels":{"karmada.io/managed":"true","work.karmada.io/permanent-id":"1"},"annotations":{"policy.karmada.io/x":"1","team":"data"}}}`,
			`{"metadata":{"labels":{"karmada.io/managed":"true"}}}`,
			`{"metadata":{"labels":{"karmada.io/managed":"true"},"annotations":{"team":"data"}}}`},
		{"not marked", `{"metadata":{"labels":{"work.karmada.io/permanent-id":"1"}}}`,
			`{"metadata":{"labels":{"app":"web"}}}`, `{"metadata":{"labels":{"work.karmada.io/permanent-id":"1"}}}`},
		{"a mark of another value", `{"metadata":{"labels":{"karmada.io/managed":"false"}}}`,
			`{"metadata":{"labels":{"karmada.io/managed":"true"}}}`, `{"metadata":{"labels":{"karmada.io/managed":"false"}}}`},
		{"another domain", `{"metadata":{"labels":{"karmada.io/managed":"true","notkarmada.io/x":"1"}}}`,
			`{"metadata":{"labels":{"karmada.io/managed":"true"}}}`,
			`{"metadata":{"labels":{"karmada.io/managed":"true","notkarmada.io/x":"1"}}}`},
		{"no metadata", `{"spec":{}}`, `[]`, `{"spec":{}}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			var have, want, left any
			for _, one := range []struct {
				text string
				into *any
			}{{test.have, &have}, {test.want, &want}, {test.left, &left}} {
				if err := json.Unmarshal([]byte(one.text), one.into); err != nil {
					t.Fatal(err)
				}
			}
			if DropAdded(have, want); !reflect.DeepEqual(have, left) {
				t.Errorf("left %v, want %v", have, left)
			}
		})
	}
}

// TestSelects holds which objects a policy of Karmada takes in.
func TestSelects(t *testing.T) {
	object := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": "shop",
		"name": "web", "labels": map[string]any{"app": "web"}}}}
	gvk := schema.GroupVersionKind{Group: "apps.kruise.io", Version: "v1beta1", Kind: "CloneSet"}
	for _, test := range []struct {
		name     string
		selector ResourceSelector
		want     bool
	}{
		{"by kind", ResourceSelector{APIVersion: "apps.kruise.io/v1beta1", Kind: "CloneSet"}, true},
		{"by another version", ResourceSelector{APIVersion: "apps.kruise.io/v1alpha1", Kind: "CloneSet"}, true},
		{"another group", ResourceSelector{APIVersion: "apps/v1", Kind: "CloneSet"}, false},
		{"another kind", ResourceSelector{APIVersion: "apps.kruise.io/v1beta1", Kind: "UnitedDeployment"}, false},
		{"by name, labels do not count", ResourceSelector{APIVersion: "apps.kruise.io/v1beta1", Kind: "CloneSet", Name: "web",
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "api"}}}, true},
		{"another name", ResourceSelector{APIVersion: "apps.kruise.io/v1beta1", Kind: "CloneSet", Name: "api"}, false},
		{"another namespace", ResourceSelector{APIVersion: "apps.kruise.io/v1beta1", Kind: "CloneSet", Namespace: "bank"},
			false},
		{"by labels", ResourceSelector{APIVersion: "apps.kruise.io/v1beta1", Kind: "CloneSet", Namespace: "shop",
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}, true},
		{"other labels", ResourceSelector{APIVersion: "apps.kruise.io/v1beta1", Kind: "CloneSet",
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "api"}}}, false},
		{"no version", ResourceSelector{APIVersion: "a/b/c", Kind: "CloneSet"}, false},
	} {
		if got := test.selector.selects(gvk, object); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}
