package set

import (
	"bytes"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/apis/crds"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/hub"
)

// TestSetOnAServer changes a CloneSet that a tool applies. The tool is named, the change is stored, what the API server
// refuses is said, and a dry run changes nothing.
func TestSetOnAServer(t *testing.T) {
	f := fleet.ForTest(t, fleet.Config{Hub: fleet.ClusterSpec{NoKubelets: true}})
	cluster := f.Clusters()[0]
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
	applied := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet",
		"metadata": map[string]any{"namespace": "shop", "name": "web"},
		"spec": map[string]any{
			"replicas": int64(2),
			"selector": map[string]any{"matchLabels": map[string]any{"app": "web"}},
			"template": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"app": "web"}},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "main", "image": "web:1"}}},
			},
		},
	}}
	if err := c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(applied),
		client.FieldOwner("kustomize-controller")); err != nil {
		t.Fatal(err)
	}
	set := &apps.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	run := func(dry bool, change change, err error) (string, string, error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		var out, talk bytes.Buffer
		key := keyOf(t, "clone/web")
		err = (&request{key: key, change: change, dry: dry, talk: &talk}).run(t.Context(), c, &out)
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(set), set); err != nil {
			t.Fatal(err)
		}
		return out.String(), talk.String(), err
	}
	image := func() string { return set.Spec.Template.Spec.Containers[0].Image }

	newer, err := images([]string{"main=web:2"})
	out, _, err := run(true, newer, err)
	if err != nil || !strings.Contains(out, "CloneSet shop/web") || image() != "web:1" {
		t.Errorf("a dry run: %v, %s, image %s", err, out, image())
	}
	out, talk, err := run(false, newer, nil)
	if err != nil || !strings.Contains(out, "is changed") || image() != "web:2" {
		t.Errorf("an image: %v, %s, image %s", err, out, image())
	}
	if !strings.Contains(talk, "note: kustomize-controller applies the containers of CloneSet shop/web") {
		t.Errorf("the tool is not named: %s", talk)
	}
	sizes, err := resources(nil, "cpu=100m", "memory=1Gi")
	if _, _, err = run(false, sizes, err); err != nil ||
		set.Spec.Template.Spec.Containers[0].Resources.Requests.Cpu().String() != "100m" {
		t.Errorf("resources: %v, %+v", err, set.Spec.Template.Spec.Containers[0].Resources)
	}
	variable, err := environment(nil, []string{"LEVEL=debug"})
	if _, _, err = run(false, variable, err); err != nil || len(set.Spec.Template.Spec.Containers[0].Env) != 1 {
		t.Errorf("a variable: %v, %+v", err, set.Spec.Template.Spec.Containers[0].Env)
	}
	_, _, err = run(false, func(*target) error { return nil }, nil)
	if err != nil {
		t.Errorf("nothing to change: %v", err)
	}
}
