package rollout

import (
	"io"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/apis/crds"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/podtemplate"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/hub"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// TestCarry: a change of a pod template keeps the fields that this program does not know, in each of its parts.
func TestCarry(t *testing.T) {
	for name, tt := range map[string]struct{ tree, to, want string }{
		"an image": {
			tree: `{newer: 1, spec: {newer: 2, containers: [{name: main, image: "web:2", newer: 3}]}}`,
			to:   `{spec: {containers: [{name: main, image: "web:1"}]}}`,
			want: `{newer: 1, spec: {newer: 2, containers: [{name: main, image: "web:1", newer: 3}]}}`,
		},
		"a container that was added": {
			tree: `{spec: {containers: [{name: log, image: log, newer: 1}, {name: main, image: "web:2", newer: 3}]}}`,
			to:   `{spec: {containers: [{name: main, image: "web:1"}]}}`,
			want: `{spec: {containers: [{name: main, image: "web:1", newer: 3}]}}`,
		},
		"containers in another order": {
			tree: `{spec: {containers: [{name: log, image: log, newer: 1}, {name: main, image: main, newer: 3}]}}`,
			to:   `{spec: {containers: [{name: main, image: main}, {name: log, image: log}]}}`,
			want: `{spec: {containers: [{name: main, image: main, newer: 3}, {name: log, image: log, newer: 1}]}}`,
		},
		"an entry without its key": {
			tree: `{spec: {newer: 1, imagePullSecrets: [{}], containers: [{name: main, image: a}]}}`,
			to:   `{spec: {imagePullSecrets: [{name: b}], containers: [{name: main, image: b}]}}`,
			want: `{spec: {containers: [{name: main, image: b, resources: {}}], imagePullSecrets: [{name: b}]}}`,
		},
		"ports with one number": {
			tree: `{spec: {newer: 1, containers: [{name: main, image: a}]}}`,
			to: `{spec: {containers: [{name: main, image: a, ports: [{containerPort: 53, protocol: TCP},
				{containerPort: 53, protocol: UDP}]}]}}`,
			want: `{spec: {newer: 1, containers: [{name: main, image: a, ports: [{containerPort: 53, protocol: TCP},
				{containerPort: 53, protocol: UDP}]}]}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			tree, want := map[string]any{}, map[string]any{}
			var had, to corev1.PodTemplateSpec
			for text, into := range map[string][]any{tt.tree: {&tree, &had}, tt.to: {&to}, tt.want: {&want}} {
				for _, one := range into {
					if err := yaml.Unmarshal([]byte(text), one); err != nil {
						t.Fatal(err)
					}
				}
			}
			got, err := carryTemplate(tree, &had, &to)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(asYAML(t, want), asYAML(t, got)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// asYAML writes a tree without the empty values that encoding a template leaves.
func asYAML(t *testing.T, tree map[string]any) string {
	t.Helper()
	tree = maps.Clone(tree)
	delete(tree, "metadata")
	data, err := yaml.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestPathLeadsToTheTemplate(t *testing.T) {
	for _, object := range []client.Object{
		&apps.CloneSet{}, &apps.DaemonSet{}, &apps.StatefulSet{},
		&apps.UnitedDeployment{Spec: apps.UnitedDeploymentSpec{Template: apps.SubsetTemplate{
			CloneSetTemplate: &apps.CloneSetTemplateSpec{}}}},
	} {
		podtemplate.Of(object).Spec.NodeName = "here"
		tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			t.Fatal(err)
		}
		path := slices.Concat(podtemplate.Path(object), []string{"spec", "nodeName"})
		if name, _, _ := unstructured.NestedString(tree, path...); name != "here" {
			t.Errorf("%T: nothing at %v", object, path)
		}
	}
}

// TestVerbsKeepUnknownFields: no verb drops a field of a newer Kubernetes from a pod template.
func TestVerbsKeepUnknownFields(t *testing.T) {
	c := server(t)
	set := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet",
		"metadata": map[string]any{"namespace": "shop", "name": "web"},
		"spec": map[string]any{
			"replicas": int64(2), "selector": map[string]any{"matchLabels": map[string]any{"app": "web"}},
			"updateStrategy": map[string]any{"rollingUpdate": map[string]any{"partition": int64(1)}},
			"template": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"app": "web"}},
				"spec": map[string]any{"newer": "kept", "containers": []any{
					map[string]any{"name": "main", "image": "web:2", "newer": "kept", "env": []any{
						map[string]any{"name": "A", "value": "b", "newer": "kept"}}}}},
			},
		},
	}}
	if err := c.Create(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	revision := &appsv1.ControllerRevision{Revision: 1, ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1",
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, apps.CloneSetKind)}},
		Data: runtime.RawExtension{Raw: []byte(`{"spec":{"template":{"metadata":{"labels":{"app":"web"}},"spec":` +
			`{"containers":[{"name":"main","image":"web:1","env":[{"name":"A","value":"b"}]}]}}}}`)}}
	if err := c.Create(t.Context(), revision); err != nil {
		t.Fatal(err)
	}
	key := wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: "shop", Name: "web"}
	w, err := read(t.Context(), c, key)
	if err != nil {
		t.Fatal(err)
	}
	to, err := pick(key, w.revisions, 1)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1, 0)
	for _, verb := range []struct {
		name   string
		change func(client.Object) error
	}{
		{"pause", func(o client.Object) error { return pause(o, true) }},
		{"resume", func(o client.Object) error { return pause(o, false) }},
		{"promote", promote},
		{"rollout restart", func(o client.Object) error { return restart(o, now) }},
		{"restart", func(o client.Object) error { return askRestart(o, nil, sidecars{}, now) }},
		{"undo", func(o client.Object) error { return undo(o, to) }},
	} {
		if err := apply(t.Context(), c, io.Discard, key, verb.name, verb.change); err != nil {
			t.Fatalf("%s: %v", verb.name, err)
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(set), set); err != nil {
			t.Fatal(err)
		}
		pods, _, _ := unstructured.NestedMap(set.Object, "spec", "template", "spec")
		containers, _ := pods["containers"].([]any)
		main, _ := containers[0].(map[string]any)
		env, _ := main["env"].([]any)
		variable, _ := env[0].(map[string]any)
		if pods["newer"] != "kept" || main["newer"] != "kept" || variable["newer"] != "kept" {
			t.Errorf("%s drops fields: %v", verb.name, pods)
		}
		if image := main["image"]; verb.name == "undo" && image != "web:1" || verb.name != "undo" && image != "web:2" {
			t.Errorf("%s: image %v", verb.name, image)
		}
	}
}

// server returns a client of an API server with the definitions and the namespace shop.
func server(t *testing.T) client.Client {
	t.Helper()
	cluster := fleet.ForTest(t, fleet.Config{Hub: fleet.ClusterSpec{NoKubelets: true}}).Clusters()[0]
	if err := cluster.InstallCRDs(t.Context(), crds.FS); err != nil {
		t.Fatal(err)
	}
	scheme, err := hub.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(cluster.RESTConfig(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}); err != nil {
		t.Fatal(err)
	}
	return c
}
