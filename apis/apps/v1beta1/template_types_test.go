package v1beta1_test

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

const (
	goodPods = `{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"a","image":"web:1","resources":{}}]}}`
	badPods  = `{"metadata":{"labels":{"app":"web"}},"spec":{"containers":"x","nodeName":"n"}}`
)

func TestOneMistypedTemplateDoesNotBlindAList(t *testing.T) {
	var list v1beta1.CloneSetList
	data := `{"items":[{"metadata":{"name":"bad"},"spec":{"replicas":2,"template":` + badPods + `}},` +
		`{"metadata":{"name":"good"},"spec":{"replicas":3,"template":` + goodPods + `}}]}`
	if err := json.Unmarshal([]byte(data), &list); err != nil {
		t.Fatal(err)
	}
	bad, good := &list.Items[0].Spec, &list.Items[1].Spec
	if *bad.Replicas != 2 || *good.Replicas != 3 || good.Template.Spec.Containers[0].Image != "web:1" {
		t.Errorf("read %+v and %+v", bad, good)
	}
	path := field.NewPath("spec", "template")
	if err := good.Template.Err(path); err != nil || good.Template.Undecoded != nil {
		t.Errorf("a good template: %v", err)
	}
	want := `spec.template.spec.containers: Invalid value: "x": must be of type array; correct the value`
	if err := bad.Template.Err(path); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if bad.Template.Labels["app"] != "web" || bad.Template.Spec.NodeName != "" {
		t.Errorf("want the metadata alone: %+v", bad.Template.PodTemplateSpec)
	}
}

func TestAnUndecodedTemplateIsWrittenAsItWasRead(t *testing.T) {
	for _, template := range []string{
		`{"cloneSetTemplate":{"spec":{"template":` + badPods + `}}}`,
		`{"advancedStatefulSetTemplate":{"spec":{"template":` + badPods + `}}}`,
		`{"statefulSetTemplate":{"spec":{"serviceName":"web","template":` + badPods + `}}}`,
		`{"deploymentTemplate":{"spec":{"paused":true,"template":` + badPods + `}}}`,
	} {
		object := `{"spec":{"template":` + template + `}}`
		ud := &v1beta1.UnitedDeployment{}
		if err := json.Unmarshal([]byte(object), ud); err != nil {
			t.Fatal(err)
		}
		err := ud.Spec.Template.Err(field.NewPath("spec", "template"))
		want := `.spec.template.spec.containers: Invalid value: "x": must be of type array`
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", template, err)
		}
		tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(ud.DeepCopy())
		if err != nil {
			t.Fatal(err)
		}
		back := &v1beta1.UnitedDeployment{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(tree, back); err != nil {
			t.Fatal(err)
		}
		if !equality.Semantic.DeepEqual(ud, back) {
			t.Errorf("%s: an unstructured object holds %+v", template, back)
		}
		var written, got map[string]any
		if err := json.Unmarshal([]byte(object), &written); err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(back)
		if err == nil {
			err = json.Unmarshal(data, &got)
		}
		if err != nil {
			t.Fatal(err)
		}
		path := []string{"spec", "template"}
		wanted, _, _ := unstructured.NestedMap(written, path...)
		found, _, _ := unstructured.NestedMap(got, path...)
		if !lacksNothing(wanted, found) {
			t.Errorf("%s is written as %s", template, data)
		}
	}
}

// lacksNothing reports whether got has all that want has.
func lacksNothing(want, got any) bool {
	fields, ok := want.(map[string]any)
	if !ok {
		return equality.Semantic.DeepEqual(want, got)
	}
	have, _ := got.(map[string]any)
	for key, value := range fields {
		if !lacksNothing(value, have[key]) {
			return false
		}
	}
	return true
}

func TestAGoodTemplateIsWrittenAsKubernetesWritesIt(t *testing.T) {
	var ours v1beta1.PodTemplate
	var theirs corev1.PodTemplateSpec
	for _, into := range []any{&ours, &theirs} {
		if err := json.Unmarshal([]byte(goodPods), into); err != nil {
			t.Fatal(err)
		}
	}
	got, err := json.Marshal(struct{ T v1beta1.PodTemplate }{ours})
	if err != nil {
		t.Fatal(err)
	}
	want, err := json.Marshal(struct{ T corev1.PodTemplateSpec }{theirs})
	if err != nil || string(got) != string(want) {
		t.Errorf("got %s, want %s, %v", got, want, err)
	}
	if err := json.Unmarshal([]byte(goodPods), &ours); err != nil || ours.Undecoded != nil {
		t.Errorf("read again: %v", err)
	}
}
