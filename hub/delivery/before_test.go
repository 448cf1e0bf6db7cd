package delivery

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/override"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// TestTemplateBefore: the template of before goes only where pods are to keep it, as the policy's overrides leave it there.
func TestTemplateBefore(t *testing.T) {
	key := wire.Key{Kind: "CloneSet", Namespace: "shop", Name: "web"}
	cs := &apps.CloneSet{}
	cs.Name, cs.Namespace = "web", "shop"
	cs.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: "docker.example/web:2"}}
	p := &topology.WorkloadPlacement{}
	p.Spec.Policy = &topology.PolicyReference{Kind: "FederationPolicy", Name: "all"}
	p.Spec.Before = &topology.TemplateBefore{Revision: "one", Template: runtime.RawExtension{Raw: []byte(
		`{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"main","image":"docker.example/web:1"}]}}`)}}
	mirror := additions{overrides: map[string][]override.Entry{"east": {{Override: topology.Override{ImageRegistry: "mirror.example"}}}}}
	for _, test := range []struct {
		what   string
		cell   topology.Cell
		before bool
		add    additions
		want   string
	}{
		{"none is to be updated", topology.Cell{Cluster: "east", Replicas: 3}, true, additions{}, "docker.example/web:1"},
		{"a part is", topology.Cell{Cluster: "east", Replicas: 3, Share: topology.Allowance{Update: 2}}, true, additions{}, "docker.example/web:1"},
		{"all are", topology.Cell{Cluster: "east", Replicas: 3, Share: topology.Allowance{Update: 3}}, true, additions{}, ""},
		{"none is known", topology.Cell{Cluster: "east", Replicas: 3}, false, additions{}, ""},
		{"with an override", topology.Cell{Cluster: "east", Replicas: 3}, true, mirror, "mirror.example/web:1"},
	} {
		placed := p.DeepCopy()
		if !test.before {
			placed.Spec.Before = nil
		}
		manifest, refusal, err := renderFor(key, cs, placed, []topology.Cell{test.cell}, test.add)
		if err != nil || refusal != nil {
			t.Fatalf("%s: %v, %v", test.what, err, refusal)
		}
		sent := apps.CloneSet{}
		if err := json.Unmarshal(manifest, &sent); err != nil {
			t.Fatal(err)
		}
		got := ""
		if text, ok := sent.Annotations[topology.AnnotationTemplateBefore]; ok {
			template := corev1.PodTemplateSpec{}
			if err := json.Unmarshal([]byte(text), &template); err != nil {
				t.Fatal(err)
			}
			got = template.Spec.Containers[0].Image
		}
		if got != test.want {
			t.Errorf("%s: the image of before is %q, want %q", test.what, got, test.want)
		}
	}
}
