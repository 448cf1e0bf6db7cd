package set

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/podtemplate"
	"github.com/flotilla-dev/flotilla/hub"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// TestSetImageOfEveryKind changes an image in each kind with containers, with the cause.
func TestSetImageOfEveryKind(t *testing.T) {
	scheme, err := hub.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	template := corev1.PodTemplateSpec{}
	template.Spec.Containers = []corev1.Container{{Name: "main", Image: "web:1"}}
	at := metav1.ObjectMeta{Namespace: "shop", Name: "web"}
	cs := &apps.CloneSet{ObjectMeta: at, Spec: apps.CloneSetSpec{Template: apps.NewPodTemplate(template)}}
	ud := &apps.UnitedDeployment{ObjectMeta: at}
	ud.Spec.Template.CloneSetTemplate = &apps.CloneSetTemplateSpec{Spec: *cs.Spec.DeepCopy()}
	ds := &apps.DaemonSet{ObjectMeta: at, Spec: apps.DaemonSetSpec{Template: apps.NewPodTemplate(template)}}
	sts := &apps.StatefulSet{ObjectMeta: at, Spec: apps.StatefulSetSpec{Template: apps.NewPodTemplate(template)}}
	sidecars := &apps.SidecarSet{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	sidecars.Spec.Containers = []apps.SidecarContainer{{Container: template.Spec.Containers[0]}}
	for name, object := range map[string]client.Object{"clone": cs, "ud": ud, "ads": ds, "asts": sts,
		"sidecarset": sidecars} {
		c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(object.DeepCopyObject().(client.Object)).Build()
		key := keyOf(t, name+"/web")
		change, err := images([]string{"main=web:2"})
		if err != nil {
			t.Fatal(err)
		}
		var out, talk bytes.Buffer
		r := request{key: key, change: change, cause: "newer", talk: &talk}
		if err := r.run(t.Context(), c, &out); err != nil || !strings.Contains(out.String(), "is changed; follow it with") {
			t.Errorf("%s: %v, %s", name, err, out.String())
			continue
		}
		got := object.DeepCopyObject().(client.Object)
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), got); err != nil {
			t.Fatal(err)
		}
		tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(got)
		if err != nil {
			t.Fatal(err)
		}
		containers, _, err := podtemplate.Containers(tree)
		if err != nil || len(containers) != 1 || containers[0]["image"] != "web:2" ||
			got.GetAnnotations()[topology.AnnotationChangeCause] != "newer" {
			t.Errorf("%s has %+v, %v", name, containers, got.GetAnnotations())
		}
		out.Reset()
		if err := r.run(t.Context(), c, &out); err != nil || !strings.Contains(out.String(), "has that already") {
			t.Errorf("%s, again: %v, %s", name, err, out.String())
		}
	}
}

// TestUnknownFieldsStay: a patch has the whole list of containers, with the fields that this program does not know.
func TestUnknownFieldsStay(t *testing.T) {
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet",
		"metadata": map[string]any{"namespace": "shop", "name": "web", "resourceVersion": "1"},
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{
			map[string]any{"name": "main", "image": "web:1", "novel": map[string]any{"deep": "x"}},
			map[string]any{"name": "proxy", "image": "proxy:1", "novel": "y"},
		}}}},
	}}
	scheme, err := hub.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	var patched string
	c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).Build(), interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, _ client.ObjectKey, into client.Object,
			_ ...client.GetOption) error {
			tree, ok := into.(*unstructured.Unstructured)
			if !ok {
				return errors.New("read into a type that drops fields")
			}
			object.DeepCopyInto(tree)
			return nil
		},
		Patch: func(_ context.Context, _ client.WithWatch, object client.Object, patch client.Patch,
			_ ...client.PatchOption) error {
			data, err := patch.Data(object)
			patched = string(data)
			if patch.Type() != types.MergePatchType {
				t.Errorf("patch of type %s", patch.Type())
			}
			return err
		},
	})
	key, err := console.Workload("clone/web", "shop")
	if err != nil {
		t.Fatal(err)
	}
	change, err := images([]string{"main=web:2"})
	if err != nil {
		t.Fatal(err)
	}
	r := request{key: key, change: change, talk: io.Discard}
	if err := r.run(t.Context(), c, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"image":"web:2"`, `"novel":{"deep":"x"}`, `"novel":"y"`} {
		if !strings.Contains(patched, want) {
			t.Errorf("the patch has no %s: %s", want, patched)
		}
	}
}

// TestArguments: what a verb does not read is a mistake.
func TestArguments(t *testing.T) {
	command := newResources()
	if err := command.Args(command, []string{"clone/a", "extra"}); err == nil {
		t.Error("an argument too many is taken")
	}
	if err := newImage().Args(command, []string{"clone/a"}); err == nil {
		t.Error("no image is taken")
	}
}

// TestRefusedKinds says what to do for kinds whose containers cannot change.
func TestRefusedKinds(t *testing.T) {
	for name, want := range map[string]string{
		"bcj/repair":             "apply another BroadcastJob",
		"acj/clean":              "apply another AdvancedCronJob",
		"imagepulljob/web":       "has no containers to set",
		"pub/web":                "has no containers to set",
		"resourcedistribution/r": "has no containers to set",
	} {
		if err := changeable(keyOf(t, name)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

// TestAppliedBy names the tools that set the template by server-side apply.
func TestAppliedBy(t *testing.T) {
	entry := func(manager string, operation metav1.ManagedFieldsOperationType, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: operation, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	object := &apps.CloneSet{}
	object.ManagedFields = []metav1.ManagedFieldsEntry{
		entry("kustomize-controller", metav1.ManagedFieldsOperationApply, `{"f:spec":{"f:template":{"f:spec":{}}}}`),
		entry("scaler", metav1.ManagedFieldsOperationApply, `{"f:spec":{"f:replicas":{}}}`),
		entry("kubectl-edit", metav1.ManagedFieldsOperationUpdate, `{"f:spec":{"f:template":{}}}`),
	}
	if got := appliedBy(object); got != "kustomize-controller" {
		t.Errorf("%q", got)
	}
}

func keyOf(t *testing.T, name string) wire.Key {
	t.Helper()
	key, err := console.Workload(name, "shop")
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// TestCauseOfAnEarlierChange holds that a change without a cause does not keep that of an earlier one, and that the
// cause stays where the object has the change already.
func TestCauseOfAnEarlierChange(t *testing.T) {
	scheme, err := hub.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	cs := &apps.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web",
		Annotations: map[string]string{topology.AnnotationChangeCause: "older"}}}
	cs.Spec.Template = apps.NewPodTemplate(corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "main", Image: "web:1"}}}})
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(cs).Build()
	for image, want := range map[string]string{"web:1": "older", "web:2": ""} {
		change, err := images([]string{"main=" + image})
		if err != nil {
			t.Fatal(err)
		}
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(apps.CloneSetKind)
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(cs), object); err != nil {
			t.Fatal(err)
		}
		r := request{key: keyOf(t, "clone/web"), change: change}
		got, err := r.apply(kinds.Workloads()[apps.CloneSetKind.GroupKind()], object)
		if err != nil || got.GetAnnotations()[topology.AnnotationChangeCause] != want {
			t.Errorf("%s: %v, %v", image, got.GetAnnotations(), err)
		}
	}
}

// TestCopyOfAHubIsRefused: the agent of a member would take the change back.
func TestCopyOfAHubIsRefused(t *testing.T) {
	scheme, err := hub.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(&apps.CloneSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web", Labels: map[string]string{topology.LabelHub: "id-hub"}}}).Build()
	r := request{key: keyOf(t, "clone/web")}
	err = r.run(t.Context(), c, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "a hub placed it; name the hub with --context") {
		t.Error(err)
	}
}
