package get

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
)

func TestClusters(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	renewed := metav1.NewMicroTime(now.Add(-7 * time.Second))
	room := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu),
			corev1.ResourceMemory: resource.MustParse(memory)}
	}
	east := &topology.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "east"}, Spec: topology.MemberClusterSpec{Accepted: true},
		Status: topology.MemberClusterStatus{
			Orphaned: 3, Orphans: []string{"CloneSet.apps.kruise.io shop/web", "?"},
			Region: "eu", KubernetesVersion: "v1.34.1", AgentVersion: "v1.0.0",
			Zones: []topology.Zone{
				{Name: "a", Nodes: 2, Ready: 2, Allocatable: room("4", "8Gi"), Requested: room("1", "1Gi")},
				{Name: "b", Nodes: 2, Ready: 1, Allocatable: room("4", "8Gi"), Requested: room("1", "3Gi")},
			},
			Conditions: []metav1.Condition{
				{Type: topology.MemberAccepted, Status: metav1.ConditionTrue},
				{Type: topology.MemberReady, Status: metav1.ConditionTrue},
				{Type: topology.MemberOrphans, Status: metav1.ConditionTrue, Reason: "Orphaned", Message: "1 object stands"},
			},
		},
	}
	of := func(workload string, use ...work.SubsetUse) work.Work {
		w := work.Work{Status: work.WorkStatus{Report: &work.Report{InUse: use}}}
		if workload != "" {
			w.Annotations = map[string]string{topology.AnnotationWorkload: workload}
		}
		return w
	}
	works := []work.Work{
		of("CloneSet/shop/api", work.SubsetUse{Total: 5, Available: 4}),
		of("UnitedDeployment/shop/web", work.SubsetUse{Subset: "a", Total: 2, Available: 2},
			work.SubsetUse{Subset: "b", Total: 1}),
		of("ConfigMap/shop/settings"), of("", work.SubsetUse{Total: 100}),
	}
	west := &topology.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "west"},
		Spec: topology.MemberClusterSpec{Region: "us", Taints: []corev1.Taint{{Key: "a",
			Effect: corev1.TaintEffectNoSchedule}}}}
	got := []Cluster{clusterOf(east, works, &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &renewed}},
		now), clusterOf(west, nil, nil, now)}
	var text strings.Builder
	if err := write(&text, got); err != nil {
		t.Fatal(err)
	}
	want := `NAME   STATE         CONTACT   REGION   ZONES   NODES   CPU   MEMORY   OBJECTS   PODS   KUBERNETES   AGENT
east   Ready         7s        eu       a,b     3/4     25%   25%      3         6/8    v1.34.1      v1.0.0
west   NotAccepted   never     us       -       0/0     -     -        0         0/0    -            -

east: Orphans=True, Orphaned: 1 object stands
east: CloneSet.apps.kruise.io shop/web has no order
  adopt it: flotilla adopt cloneset/web -n shop --from east
  delete it: kubectl --context east -n shop delete cloneset.apps.kruise.io web
  keep it without the hub: kubectl --context east -n shop label cloneset.apps.kruise.io web topology.flotilla.dev/hub-
east: ? has no order
east: 1 more without an order
west has the taint a:NoSchedule
`
	if diff := cmp.Diff(want, text.String()); diff != "" {
		t.Error(diff)
	}
}

func TestState(t *testing.T) {
	of := func(accepted, ready metav1.ConditionStatus) []metav1.Condition {
		return []metav1.Condition{{Type: topology.MemberAccepted, Status: accepted},
			{Type: topology.MemberReady, Status: ready}}
	}
	for _, tc := range []struct {
		want       string
		conditions []metav1.Condition
	}{
		{"Unknown", nil},
		{"Ready", of(metav1.ConditionTrue, metav1.ConditionTrue)},
		{"NotReady", of(metav1.ConditionTrue, metav1.ConditionFalse)},
		{"Refused", of(metav1.ConditionFalse, metav1.ConditionTrue)},
	} {
		m := &topology.MemberCluster{Spec: topology.MemberClusterSpec{Accepted: true},
			Status: topology.MemberClusterStatus{Conditions: tc.conditions}}
		if got := StateOf(m); got != tc.want {
			t.Errorf("%v: %s, want %s", tc.conditions, got, tc.want)
		}
	}
}
