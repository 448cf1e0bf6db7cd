package delivery

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestRender compares the manifests of testdata/<name>.yaml with testdata/<name>.golden.yaml. The first document of an
// input is the user's object, the second the cells of one member, the third, if there is one, the WorkloadSpread that
// divided them.
func TestRender(t *testing.T) {
	inputs, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil || len(inputs) == 0 {
		t.Fatalf("no inputs: %v", err)
	}
	for _, input := range inputs {
		t.Run(strings.TrimSuffix(filepath.Base(input), ".in.yaml"), func(t *testing.T) {
			object, cells, ws := read(t, input)
			manifest, err := renderOf(object, cells, ws)
			if err != nil {
				t.Fatal(err)
			}
			got, err := yaml.JSONToYAML(manifest)
			if err != nil {
				t.Fatal(err)
			}
			golden := strings.TrimSuffix(input, ".in.yaml") + ".golden.yaml"
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != string(want) {
				t.Errorf("the manifest is\n%s\nwant\n%s", got, want)
			}
			if strings.Contains(string(got), "null") && !strings.Contains(string(want), "patch") {
				t.Errorf("the manifest has nulls:\n%s", got)
			}
			again, err := renderOf(object, cells, ws)
			if err != nil || string(again) != string(manifest) {
				t.Errorf("the same input gives other bytes: %s", again)
			}
		})
	}
}

func read(t *testing.T, path string) (client.Object, []topology.Cell, *apps.WorkloadSpread) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text, cellText, ok := strings.Cut(string(data), "\n---\n")
	if !ok {
		t.Fatalf("%s has no cells", path)
	}
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal([]byte(text), &kind); err != nil {
		t.Fatal(err)
	}
	var object client.Object = &apps.CloneSet{}
	if kind.Kind == apps.UnitedDeploymentKind.Kind {
		object = &apps.UnitedDeployment{}
	}
	if err := yaml.UnmarshalStrict([]byte(text), object); err != nil {
		t.Fatal(err)
	}
	cellText, spreadText, spread := strings.Cut(cellText, "\n---\n")
	var ws *apps.WorkloadSpread
	if spread {
		ws = &apps.WorkloadSpread{}
		if err := yaml.UnmarshalStrict([]byte(spreadText), ws); err != nil {
			t.Fatal(err)
		}
	}
	var cells []topology.Cell
	if err := yaml.UnmarshalStrict([]byte(cellText), &cells); err != nil {
		t.Fatal(err)
	}
	return object, cells, ws
}

func TestPlanTooLarge(t *testing.T) {
	cs := &apps.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web",
		Annotations: map[string]string{"note": strings.Repeat("x", 600*1024)}}}
	p := &topology.WorkloadPlacement{Spec: topology.WorkloadPlacementSpec{Cells: []topology.Cell{{Cluster: "east",
		Replicas: 1}}}}
	key := wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: "ns", Name: "web"}
	works, refusal, err := planOf(key, "hub", cs, p, additions{})
	if err != nil || works != nil || refusal == nil || refusal.Reason != TooLarge ||
		!strings.HasPrefix(refusal.Message, "the manifest of CloneSet ns/web has 600 KiB, and at most 512 KiB are "+
			"delivered") {
		t.Errorf("works %v, refusal %+v, error %v", works, refusal, err)
	}
}

func TestMergeKeepsWhatOthersWrote(t *testing.T) {
	cs := &apps.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}}
	p := &topology.WorkloadPlacement{Spec: topology.WorkloadPlacementSpec{Cells: []topology.Cell{{Cluster: "east",
		Replicas: 1, Sequence: 7}}}}
	key := wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: "ns", Name: "web"}
	works, _, err := planOf(key, "hub", cs, p, additions{})
	if err != nil || len(works) != 1 {
		t.Fatalf("works %v, error %v", works, err)
	}
	have := works[0].DeepCopy()
	have.Labels["other"], have.Annotations["other"] = "label", "annotation"
	if _, changed := merge(have, works[0]); changed {
		t.Error("what others added counts as a difference")
	}
	// The same manifest with its fields in another order, as another writer may leave it.
	have.Spec.Workload.Manifests[0].Raw = []byte(`{"spec":` +
		strings.SplitN(string(works[0].Spec.Workload.Manifests[0].Raw), `"spec":`,
			2)[1][:len(strings.SplitN(string(works[0].Spec.Workload.Manifests[0].Raw), `"spec":`, 2)[1])-1] +
		`,"metadata":{"namespace":"ns","name":"web"},"kind":"CloneSet","apiVersion":"apps.kruise.io/v1beta1"}`)
	if _, changed := merge(have, works[0]); changed {
		t.Error("the order of fields counts as a difference")
	}
	have.Annotations[topology.AnnotationSequence] = "6"
	have.Finalizers = nil
	merged, changed := merge(have, works[0])
	if !changed || merged.Annotations["other"] != "annotation" || merged.Annotations[topology.AnnotationSequence] != "7" ||
		len(merged.Finalizers) != 1 {
		t.Errorf("merged %+v", merged.ObjectMeta)
	}
}

// TestMembersAreAskedForPodsWithoutANode: the Work says after how long, and no longer says so when the policy does not.
func TestMembersAreAskedForPodsWithoutANode(t *testing.T) {
	cs := &apps.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}}
	p := &topology.WorkloadPlacement{Spec: topology.WorkloadPlacementSpec{RescheduleAfter: "1m0s",
		Cells: []topology.Cell{{Cluster: "east", Replicas: 1}}}}
	key := wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: "ns", Name: "web"}
	asked, _, err := planOf(key, "hub", cs, p, additions{})
	if err != nil || asked[0].Annotations[topology.AnnotationRescheduleAfter] != "1m0s" {
		t.Fatalf("%v, %v", asked, err)
	}
	p.Spec.RescheduleAfter = ""
	unasked, _, err := planOf(key, "hub", cs, p, additions{})
	if err != nil {
		t.Fatal(err)
	}
	merged, changed := merge(asked[0], unasked[0])
	if _, still := merged.Annotations[topology.AnnotationRescheduleAfter]; !changed || still {
		t.Errorf("changed %t: %v", changed, merged.Annotations)
	}
	if merged, changed = merge(unasked[0], asked[0]); !changed ||
		merged.Annotations[topology.AnnotationRescheduleAfter] != "1m0s" {
		t.Errorf("changed %t: %v", changed, merged.Annotations)
	}
}

func TestMembersAreAskedForValues(t *testing.T) {
	cs := &apps.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}}
	p := &topology.WorkloadPlacement{Spec: topology.WorkloadPlacementSpec{
		HandOver: &topology.HandOver{Labels: []string{"role"}, Status: []topology.HandOverStatus{{Name: "a"}}},
		Cells:    []topology.Cell{{Cluster: "east", Replicas: 1}}}}
	key := wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: "ns", Name: "web"}
	asked, _, err := planOf(key, "hub", cs, p, additions{})
	if err != nil || asked[0].Annotations[topology.AnnotationHandOver] != `{"labels":["role"]}` {
		t.Fatalf("%v, %v", asked, err)
	}
	p.Spec.HandOver = nil
	unasked, _, err := planOf(key, "hub", cs, p, additions{})
	if err != nil {
		t.Fatal(err)
	}
	merged, changed := merge(asked[0], unasked[0])
	if _, still := merged.Annotations[topology.AnnotationHandOver]; !changed || still {
		t.Errorf("changed %t: %v", changed, merged.Annotations)
	}
}

// TestNothingIsDeliveredEmptied holds that a strategy that has lost its last field goes to members as if it had never
// been there, and that the user's pod template stays as it is. Over a field that stood there, server-side apply makes
// {} null, which the members' API servers refuse.
func TestNothingIsDeliveredEmptied(t *testing.T) {
	ud := &apps.UnitedDeployment{}
	err := yaml.UnmarshalStrict([]byte(`
metadata: {namespace: shop, name: web}
spec:
  template:
    cloneSetTemplate:
      spec:
        lifecycle: {preDelete: {}}
        updateStrategy: {rollingUpdate: {}}
        template:
          spec:
            volumes: [{name: scratch, emptyDir: {}}]
            containers: [{name: main, image: "web:1", lifecycle: {}}]
`), ud)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := renderOf(ud, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	const want = `"template":{"cloneSetTemplate":{"spec":{"template":{"spec":{"containers":[{"image":"web:1","lifecycle":{},"name":"main"}],"volumes":[{"emptyDir":{},"name":"scratch"}]}}}}}`
	if !strings.Contains(string(manifest), want) {
		t.Errorf("the manifest is\n%s\nwithout\n%s", manifest, want)
	}
}

// TestWorksTellTheUsersStrategy: beside the member's share stands what the user wrote, so that who lets the object go
// can note it.
func TestWorksTellTheUsersStrategy(t *testing.T) {
	cs := &apps.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}}
	p := &topology.WorkloadPlacement{Spec: topology.WorkloadPlacementSpec{Cells: []topology.Cell{{Cluster: "east",
		Replicas: 1}}}}
	key := wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: "ns", Name: "web"}
	for want, rolling := range map[string]*apps.RollingUpdateCloneSetStrategy{
		`{}`: nil,
		`{"rollingUpdate":{"maxUnavailable":"20%","paused":true}}`: {MaxUnavailable: new(intstr.FromString("20%")),
			Paused: true},
		"": {MaxUnavailable: new(intstr.FromString(strings.Repeat("9", maxStrategy)))}, // nothing that a person writes
	} {
		cs.Spec.UpdateStrategy.RollingUpdate = rolling
		works, _, err := planOf(key, "hub", cs, p, additions{})
		if err != nil || works[0].Annotations[topology.AnnotationStrategy] != want {
			t.Errorf("%v, %v, want %s", works, err, want)
		}
	}
}
