package try

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
)

func podTemplate(image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: image}}}}
}

func member(name, zones string, ready metav1.ConditionStatus, message string) topology.MemberCluster {
	return topology.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: topology.MemberClusterStatus{
			ZoneNames: zones, Nodes: "4/4",
			Conditions: []metav1.Condition{{Type: topology.MemberReady, Status: ready, Message: message}},
		},
	}
}

func report(cluster, workload string, sequence int64, uses ...work.SubsetUse) work.Work {
	return work.Work{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: work.NamespacePrefix + cluster, Annotations: map[string]string{topology.AnnotationWorkload: workload},
		},
		Status: work.WorkStatus{Report: &work.Report{Sequence: sequence, InUse: uses}},
	}
}

// shop is a UnitedDeployment at rest and a CloneSet in the middle of a rollout.
func shop() *facts {
	cell := func(subset, cluster, zone string, replicas int32) topology.Cell {
		return topology.Cell{Subset: subset, Cluster: cluster, Zone: zone, Replicas: replicas, Sequence: 5}
	}
	full := func(subset string, n int32) work.SubsetUse {
		return work.SubsetUse{Subset: subset, Desired: n, Ready: n, Updated: n}
	}
	return &facts{
		Members: []topology.MemberCluster{
			member("west", "b,c", metav1.ConditionFalse, "its Lease was renewed last 52 s ago"),
			member("east", "a,b", metav1.ConditionTrue, ""),
		},
		UnitedDeployments: []apps.UnitedDeployment{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Generation: 2},
			Spec: apps.UnitedDeploymentSpec{
				Replicas: new(int32(6)),
				Template: apps.SubsetTemplate{CloneSetTemplate: &apps.CloneSetTemplateSpec{Spec: apps.CloneSetSpec{Template: apps.NewPodTemplate(podTemplate("nginx:1.27"))}}},
			},
			Status: apps.UnitedDeploymentStatus{ObservedGeneration: 2, ReadyReplicas: 6, UpdatedReplicas: 6},
		}},
		CloneSets: []apps.CloneSet{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "api", Generation: 3},
			Spec:       apps.CloneSetSpec{Replicas: new(int32(4)), Template: apps.NewPodTemplate(podTemplate("httpd:2.5"))},
			Status: apps.CloneSetStatus{ObservedGeneration: 3, ReadyReplicas: 4, UpdatedReplicas: 1,
				ExpectedUpdatedReplicas: 4},
		}},
		Placements: []topology.WorkloadPlacement{
			{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop"},
				Spec: topology.WorkloadPlacementSpec{
					Workload: topology.WorkloadReference{APIVersion: "apps.kruise.io/v1beta1", Kind: "UnitedDeployment", Name: "web"},
					Placed:   6, RevisionSequence: 1,
					Cells: []topology.Cell{cell("zone-a", "east", "a", 2), cell("zone-b", "east", "b", 2),
						cell("zone-b", "west", "b", 2)},
				},
			},
			{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop"},
				Spec: topology.WorkloadPlacementSpec{
					Workload: topology.WorkloadReference{APIVersion: "apps.kruise.io/v1beta1", Kind: "CloneSet", Name: "api"},
					Placed:   4, RevisionSequence: 5,
					Cells: []topology.Cell{cell("", "east", "", 2), cell("", "west", "", 2)},
				},
			},
		},
		Works: []work.Work{
			report("east", "UnitedDeployment/shop/web", 5, full("zone-a", 2), full("zone-b", 2)),
			report("west", "UnitedDeployment/shop/web", 5, full("zone-b", 2)),
			report("east", "CloneSet/shop/api", 5, work.SubsetUse{Desired: 2, Ready: 2, Updated: 1}),
			report("west", "CloneSet/shop/api", 4, full("", 2)), // of the template before
		},
	}
}

func TestTree(t *testing.T) {
	var out strings.Builder
	if err := render(&out, buildTree(shop())); err != nil {
		t.Fatal(err)
	}
	const want = `
MEMBER   READY   ZONES   NODES
east     yes     a,b     4/4
west     no      b,c     4/4
west: its Lease was renewed last 52 s ago

WORKLOAD                        DESIRED   READY   UPDATED
├── UnitedDeployment shop/web   6         6       6         nginx:1.27
│   ├── zone a                  2         2       2
│   │   └── east                2         2       2
│   └── zone b                  4         4       4
│       ├── east                2         2       2
│       └── west                2         2       2
└── CloneSet shop/api           4         4       1         httpd:2.5 (1 of 4 updated)
    └── any zone                4         4       1
        ├── east                2         2       1
        └── west                2         2       0         waiting for its report
`
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), out.String()); diff != "" {
		t.Errorf("tree (-want +got):\n%s", diff)
	}
}

func TestWaiting(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*facts)
		want   string
	}{
		{"nothing", func(*facts) {}, ""},
		{"no placement", func(f *facts) { f.Placements = nil }, "not placed yet"},
		{"replicas without a place", func(f *facts) { f.Placements[0].Spec.Placed = 5 }, "5 of 6 placed"},
		{"unready pods", func(f *facts) { f.UnitedDeployments[0].Status.ReadyReplicas = 3 }, "3 of 6 ready"},
		{"pods to go", func(f *facts) { f.UnitedDeployments[0].Status.ReadyReplicas = 9 }, "9 of 6 ready"},
		{"old pods", func(f *facts) { f.UnitedDeployments[0].Status.UpdatedReplicas = 2 }, "2 of 6 updated"},
		{"old pods that partitions keep", func(f *facts) {
			f.UnitedDeployments[0].Status.UpdatedReplicas = 2
			f.UnitedDeployments[0].Spec.UpdateStrategy.ManualUpdate = &apps.ManualUpdate{Partitions: map[string]int32{"zone-a": 2}}
		}, ""},
		{"a change that was not seen", func(f *facts) { f.UnitedDeployments[0].Generation = 3 },
			"the hub has not seen the last change yet"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := shop()
			test.change(f)
			if got := buildTree(f).Workloads[0].Waiting; got != test.want {
				t.Errorf("waiting for %q, want %q", got, test.want)
			}
		})
	}
}

func TestProblem(t *testing.T) {
	f := shop()
	f.CloneSets[0].Status.Conditions = []apps.CloneSetCondition{{Type: "Federated", Status: corev1.ConditionFalse,
		Message: "no policy selects it"}}
	if got := buildTree(f).Workloads[1].Problem; got != "no policy selects it" {
		t.Errorf("problem %q", got)
	}
}
