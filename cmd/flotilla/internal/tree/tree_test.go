package tree

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

func cloneSet(name string) *apps.CloneSet {
	cs := &apps.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	cs.SetGroupVersionKind(apps.CloneSetKind)
	return cs
}

// running returns a CloneSet of so many pods.
func running(name string, replicas int32, image string) *apps.CloneSet {
	cs := cloneSet(name)
	cs.Spec.Replicas = &replicas
	if image != "" {
		cs.Spec.Template = apps.NewPodTemplate(corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "main", Image: image}}}})
	}
	return cs
}

func placed(name string, cells ...topology.Cell) topology.WorkloadPlacement {
	return topology.WorkloadPlacement{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cloneset-" + name},
		Spec: topology.WorkloadPlacementSpec{
			Workload:         topology.WorkloadReference{APIVersion: "apps.kruise.io/v1beta1", Kind: "CloneSet", Name: name},
			RevisionSequence: 2, Cells: cells,
		},
	}
}

func order(cluster, name string, sequence int64, use ...work.SubsetUse) work.Work {
	key := wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: "shop", Name: name}
	at := key.Work(cluster)
	return work.Work{
		ObjectMeta: metav1.ObjectMeta{Namespace: at.Namespace, Name: at.Name,
			Annotations: map[string]string{topology.AnnotationWorkload: key.String()}},
		Status: work.WorkStatus{Report: &work.Report{HubID: "hub", Sequence: sequence, InUse: use}},
	}
}

func member(name string, status metav1.ConditionStatus) topology.MemberCluster {
	return topology.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: topology.MemberClusterStatus{Conditions: []metav1.Condition{{Type: topology.MemberReady,
			Status: status}}},
	}
}

// example are facts of everything that a tree shows.
func example() *Facts {
	stalled := cloneSet("broken")
	stalled.Status.Conditions = []apps.CloneSetCondition{{Type: "Stalled", Status: "True",
		Message: "correct the template"}}
	facts := &Facts{
		HubID:     "hub",
		Workloads: []client.Object{running("api", 10, "nginx:1.27"), running("zonal", 4, ""), stalled},
		Members: []topology.MemberCluster{member("east", metav1.ConditionTrue), member("south", metav1.ConditionTrue),
			member("west", metav1.ConditionFalse)},
		Placements: []topology.WorkloadPlacement{
			placed("api", topology.Cell{Cluster: "east", Replicas: 4, Sequence: 3},
				topology.Cell{Cluster: "south", Replicas: 2, Sequence: 3},
				topology.Cell{Cluster: "west", Replicas: 3, Sequence: 1}),
			placed("zonal", topology.Cell{Cluster: "east", Zone: "b", Replicas: 1, Sequence: 3},
				topology.Cell{Cluster: "east", Zone: "a", Replicas: 2, Sequence: 3},
				topology.Cell{Cluster: "west", Zone: "b", Replicas: 1, Sequence: 3}),
		},
		Works: []work.Work{
			order("east", "api", 3, work.SubsetUse{Total: 3, Ready: 2, Available: 1, Updated: 3}),
			order("south", "api", 2, work.SubsetUse{Total: 3, Ready: 3, Available: 3, Updated: 3}),
			order("west", "api", 1, work.SubsetUse{Total: 3, Ready: 5, Available: -1, Updated: 3}), // of the template before, and it cannot count
			order("east", "zonal", 3, work.SubsetUse{Total: 3, Ready: 3, Available: 3, Updated: 3}),
		},
	}
	facts.Placements[0].Spec.Unplaced = []topology.Unplaced{{Replicas: 1}}
	facts.Placements[0].Spec.PreviousTemplate = &topology.RevisionTemplate{Template: runtime.RawExtension{
		Raw: []byte(`{"spec":{"containers":[{"name":"main","image":"nginx:1.26"}]}}`)}}
	return facts
}

var update = flag.Bool("update", false, "write the golden files anew")

// TestTreeForPrograms compares tree -o json and -o yaml with testdata: programs read them, so that a field that goes or
// changes its name is a change of what was promised.
func TestTreeForPrograms(t *testing.T) {
	for _, format := range []console.Output{"json", "yaml"} {
		var out bytes.Buffer
		if err := (&verb{output: format}).print(&out, Build(example())); err != nil {
			t.Fatal(err)
		}
		golden := filepath.Join("testdata", "tree.golden."+string(format))
		if *update {
			if err := os.WriteFile(golden, out.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), out.String()); diff != "" {
			t.Errorf("-o %s is not %s; run with -update and look at what changed:\n%s", format, golden, diff)
		}
	}
}

func TestTree(t *testing.T) {
	tree := Build(example())
	var out strings.Builder
	if err := Write(&out, tree); err != nil {
		t.Fatal(err)
	}
	want := `WORKLOAD                   DESIRED   PLACED   READY   UPDATED   STATE
├── CloneSet shop/api      10        9        8       6         1 not ready; 1 missing; 1 too many; stale: west; nginx:1.26 ×3, nginx:1.27 ×6; 1 not placed
│   └── any zone           9         9        8       6         1 not ready; 1 missing; 1 too many; stale: west
│       ├── east           4         4        2       3         1 not ready; 1 missing
│       ├── south          2         2        3       3         1 too many; the newest order is not answered yet
│       └── west           3         3        3       0         stale: the member is unreachable, the numbers are its last
├── CloneSet shop/zonal    4         4        3       3         1 missing; stale: west
│   ├── zones a,b          3         3        3       3
│   │   └── east           3         3        3       3
│   └── zone b             1         1        0       0         1 missing; stale: west
│       └── west           1         1        0       0         1 missing; stale: the member is unreachable, the numbers are its last; no Work yet
└── CloneSet shop/broken   1         0        0       0         correct the template
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
	if unavailable := tree.Workloads[0].Zones[0].Clusters[0].Pods.Unavailable; unavailable != 3 {
		t.Errorf("%d are unavailable in east, want 3 of 4", unavailable)
	}
	data, err := json.Marshal(tree)
	if err != nil || !strings.Contains(string(data), `"missing":1`) {
		t.Errorf("%v: %s", err, data)
	}
}

// BenchmarkTree makes and writes the tree of 1 000 workloads with 10 000 pods on three members; it is to take less than
// a second.
func BenchmarkTree(b *testing.B) {
	f := &Facts{HubID: "hub"}
	for i := range 1000 {
		name := fmt.Sprintf("web-%d", i)
		f.Workloads = append(f.Workloads, cloneSet(name))
		var cells []topology.Cell
		for j, cluster := range []string{"east", "south", "west"} {
			n := int32(3 + j/2)
			cells = append(cells, topology.Cell{Cluster: cluster, Replicas: n, Sequence: 3})
			f.Works = append(f.Works, order(cluster, name, 3, work.SubsetUse{Total: n, Ready: n, Available: n, Updated: n}))
		}
		f.Placements = append(f.Placements, placed(name, cells...))
	}
	for b.Loop() {
		tree, out := Build(f), &strings.Builder{}
		if err := Write(out, tree); err != nil {
			b.Fatal(err)
		}
		if ready := tree.Workloads[0].Pods.Ready; ready != 10 {
			b.Fatalf("%d ready", ready)
		}
	}
}

// TestJobs shows nodes of a BroadcastJob without a pod as missing, and an AdvancedCronJob as updated.
func TestJobs(t *testing.T) {
	nodes := work.BroadcastJobUse(&apps.BroadcastJobStatus{Desired: 4, NodeCounts: &apps.BroadcastJobNodeCounts{
		Active: 1, Touched: 3, Proven: 1}})
	want := Pods{Desired: 4, Placed: 4, Ready: 2, NotReady: 1, Missing: 1, Unavailable: 2, Updated: 3}
	nodes = kinds.Workloads()[apps.BroadcastJobKind.GroupKind()].Shown(nodes)
	if got := podsOf(4, 0, &nodes, true); got != want {
		t.Errorf("a BroadcastJob: %+v, want %+v", got, want)
	}
	schedule := work.AdvancedCronJobUse(&apps.AdvancedCronJobSpec{})
	schedule = kinds.Workloads()[apps.AdvancedCronJobKind.GroupKind()].Shown(schedule)
	if got, want := podsOf(1, 0, &schedule, true), (Pods{Desired: 1, Placed: 1, Ready: 1, Updated: 1}); got != want {
		t.Errorf("an AdvancedCronJob: %+v, want %+v", got, want)
	}
}

// TestTreeShowsStatesOfProbes: reports for another hub do not count.
func TestTreeShowsStatesOfProbes(t *testing.T) {
	use := work.SubsetUse{Desired: 2, Total: 2, Ready: 2, Available: 2, Updated: 2}
	east, west := order("east", "db", 3, use), order("west", "db", 3, use)
	foreign := order("south", "db", 3, use)
	east.Status.Report.States = []work.PodState{{State: "role=follower", Pods: 1}, {State: "role=leader", Pods: 1}}
	west.Status.Report.States = []work.PodState{{State: "role=follower", Pods: 2}}
	foreign.Status.Report.HubID, foreign.Status.Report.States = "other", east.Status.Report.States
	tree := Build(&Facts{Workloads: []client.Object{cloneSet("db")}, HubID: "hub",
		Placements: []topology.WorkloadPlacement{placed("db", topology.Cell{Cluster: "east", Replicas: 2},
			topology.Cell{Cluster: "west", Replicas: 2})}, Works: []work.Work{east, west, foreign}})
	var out bytes.Buffer
	if err := Write(&out, tree); err != nil {
		t.Fatal(err)
	}
	if want := "role=follower 3 (east 1, west 2); role=leader 1 (east 1)"; !strings.Contains(out.String(), want) {
		t.Errorf("%s\nlacks %s", out.String(), want)
	}
}
