package delivery

import (
	"encoding/json"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/override"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// TestTemplateBefore: the template of before goes only where pods are to keep it, as the policy's overrides leave it
// there.
func TestTemplateBefore(t *testing.T) {
	key := wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: "shop", Name: "web"}
	cs := &apps.CloneSet{}
	cs.Name, cs.Namespace = "web", "shop"
	cs.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: "docker.example/web:2"}}
	p := &topology.WorkloadPlacement{}
	p.Spec.Policy = &topology.PolicyReference{Kind: "FederationPolicy", Name: "all"}
	p.Spec.PreviousTemplate = &topology.RevisionTemplate{Revision: "one", Template: runtime.RawExtension{Raw: []byte(
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
		{"a part is", topology.Cell{Cluster: "east", Replicas: 3, Granted: topology.Budget{Updated: 2}}, true, additions{},
			"docker.example/web:1"},
		{"all are", topology.Cell{Cluster: "east", Replicas: 3, Granted: topology.Budget{Updated: 3}}, true, additions{}, ""},
		{"none is known", topology.Cell{Cluster: "east", Replicas: 3}, false, additions{}, ""},
		{"with an override", topology.Cell{Cluster: "east", Replicas: 3}, true, mirror, "mirror.example/web:1"},
	} {
		placed := p.DeepCopy()
		if !test.before {
			placed.Spec.PreviousTemplate = nil
		}
		manifest, refusal, err := renderForOf(key, cs, placed, []topology.Cell{test.cell}, test.add)
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

// TestTemplateBeforeOfSubsets: a member's UnitedDeployment gets the template of before if any of its subsets there
// keeps pods of it.
func TestTemplateBeforeOfSubsets(t *testing.T) {
	key := wire.Key{Group: "apps.kruise.io", Kind: "UnitedDeployment", Namespace: "shop", Name: "web"}
	ud := &apps.UnitedDeployment{}
	ud.Name, ud.Namespace = "web", "shop"
	ud.Spec.Template.CloneSetTemplate = &apps.CloneSetTemplateSpec{}
	ud.Spec.Template.CloneSetTemplate.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main",
		Image: "docker.example/web:2"}}
	ud.Spec.Topology.Subsets = []apps.Subset{{Name: "a"}, {Name: "b"}}
	p := &topology.WorkloadPlacement{}
	p.Spec.PreviousTemplate = &topology.RevisionTemplate{Revision: "one", Template: runtime.RawExtension{Raw: []byte(
		`{"cloneSetTemplate":{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"docker.example/web:1"}]}}}}}`)}}
	for _, test := range []struct {
		what string
		a, b int32 // updated, of 3
		want string
	}{
		{"b keeps one", 3, 2, "docker.example/web:1"},
		{"none is kept", 3, 3, ""},
	} {
		cells := []topology.Cell{
			{Subset: "a", Cluster: "east", Replicas: 3, Granted: topology.Budget{Updated: test.a}},
			{Subset: "b", Cluster: "east", Replicas: 3, Granted: topology.Budget{Updated: test.b}},
		}
		manifest, refusal, err := renderForOf(key, ud, p, cells, additions{})
		if err != nil || refusal != nil {
			t.Fatalf("%s: %v, %v", test.what, err, refusal)
		}
		sent := apps.UnitedDeployment{}
		if err := json.Unmarshal(manifest, &sent); err != nil {
			t.Fatal(err)
		}
		got := ""
		if text, ok := sent.Annotations[topology.AnnotationTemplateBefore]; ok {
			template := apps.SubsetTemplate{}
			if err := json.Unmarshal([]byte(text), &template); err != nil {
				t.Fatal(err)
			}
			got = template.CloneSetTemplate.Spec.Template.Spec.Containers[0].Image
		}
		if got != test.want || sent.Annotations[topology.AnnotationSubsetLimits] == "" {
			t.Errorf("%s: the image of before is %q, want %q; annotations %v", test.what, got, test.want, sent.Annotations)
		}
	}
}

// TestRemovedSubsetsAreDelivered: a subset that is left stands in a member's manifest as its Work has it, with the
// number of its cell, and where no Work has it the member has the others alone.
func TestRemovedSubsetsAreDelivered(t *testing.T) {
	key := wire.Key{Group: "apps.kruise.io", Kind: "UnitedDeployment", Namespace: "shop", Name: "web"}
	ud := &apps.UnitedDeployment{}
	ud.Name, ud.Namespace = "web", "shop"
	ud.Spec.Template.CloneSetTemplate = &apps.CloneSetTemplateSpec{}
	ud.Spec.Topology.Subsets = []apps.Subset{{Name: "a"}}
	gone := work.Work{}
	gone.Namespace = key.Work("east").Namespace
	gone.Spec.Workload.Manifests = []work.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(
		`{"kind":"UnitedDeployment","spec":{"topology":{"subsets":[{"name":"b","replicas":5,"patch":{"x":"y"},"tolerations":[{"key":"k"}]}]}}}`)}}}
	stands, err := subsetsOf(kindFor(&apps.UnitedDeployment{}), []work.Work{gone})
	if err != nil {
		t.Fatal(err)
	}
	cell := func(subset string, replicas, updated int32) topology.Cell {
		return topology.Cell{Subset: subset, Cluster: "east", Replicas: replicas, Granted: topology.Budget{Updated: updated}}
	}
	for _, test := range []struct {
		what   string
		cells  []topology.Cell
		stands map[string]map[string]map[string]any
		want   string
	}{
		{"beside another", []topology.Cell{cell("a", 3, 3), cell("b", 2, 2)}, stands,
			`5 [{"name":"a","replicas":3},{"name":"b","patch":{"x":"y"},"replicas":2,"tolerations":[{"key":"k"}]}] {}`},
		{"alone, and not updated", []topology.Cell{cell("b", 2, 0)}, stands,
			`2 [{"name":"b","patch":{"x":"y"},"replicas":2,"tolerations":[{"key":"k"}]}] {"manualUpdate":{"partitions":{"b":2}}}`},
		{"no Work has it", []topology.Cell{cell("a", 3, 3), cell("b", 2, 2)}, nil, `3 [{"name":"a","replicas":3}] {}`},
		{"no Work has it, and nothing else is there", []topology.Cell{cell("b", 2, 2)}, nil, ""},
	} {
		manifest, refusal, err := renderForOf(key, ud, &topology.WorkloadPlacement{}, test.cells,
			additions{subsets: test.stands})
		if err != nil || refusal != nil {
			t.Fatalf("%s: %v, %v", test.what, err, refusal)
		}
		var sent struct {
			Spec struct {
				Replicas       int32
				UpdateStrategy map[string]any
				Topology       struct{ Subsets json.RawMessage }
			}
		}
		got := ""
		if manifest != nil {
			if err := json.Unmarshal(manifest, &sent); err != nil {
				t.Fatal(err)
			}
			if sent.Spec.UpdateStrategy == nil {
				sent.Spec.UpdateStrategy = map[string]any{}
			}
			strategy, err := json.Marshal(sent.Spec.UpdateStrategy)
			if err != nil {
				t.Fatal(err)
			}
			got = fmt.Sprintf("%d %s %s", sent.Spec.Replicas, sent.Spec.Topology.Subsets, strategy)
		}
		if got != test.want {
			t.Errorf("%s:\ngot  %s\nwant %s", test.what, got, test.want)
		}
	}
}
