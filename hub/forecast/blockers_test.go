package forecast

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/policy"
)

// What keeps a healthy member from replicas: its taints, and its room.
func TestObstaclesOfTaintsAndRoom(t *testing.T) {
	list := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}
	}
	zone := func(name, freeCPU, memory string) topology.Zone {
		z := topology.Zone{Name: name, Nodes: 1, Ready: 1, Allocatable: list("4", memory), Requested: list("3800m", "0")}
		requested := z.Requested["cpu"]
		requested.Sub(resource.MustParse(freeCPU))
		z.Requested["cpu"] = requested
		return z
	}
	down := topology.Zone{Name: "c", Nodes: 1}
	taint := func(effect corev1.TaintEffect) []corev1.Taint {
		return []corev1.Taint{{Key: "maintenance", Value: "north", Effect: effect}}
	}
	const remedy = "; remove it from spec.taints of the member, or tolerate it in spec.clusters.tolerations of the policy"
	const add = " (95 % of what the nodes have is counted on); add nodes, or lower the requests of the pods"
	tests := []struct {
		reason     string
		taints     []corev1.Taint
		tolerated  []corev1.Toleration
		zones      []topology.Zone
		subsetZone string
		copied     bool
		want       []string
	}{
		{reason: "nothing", zones: []topology.Zone{zone("a", "2", "4Gi")}},
		{reason: "nothing new behind a taint", taints: taint("NoSchedule"),
			want: []string{"the member has the taint maintenance=north:NoSchedule, which ClusterFederationPolicy everywhere " +
				"does not tolerate, so it gets nothing new" + remedy}},
		{reason: "what is to be left", taints: taint("NoExecute"),
			want: []string{"the member has the taint maintenance=north:NoExecute, which ClusterFederationPolicy everywhere " +
				"does not tolerate, so it gets nothing new, and the others get what it has as far as they have room, step by step" +
				remedy}},
		{reason: "the last choice", taints: taint("PreferNoSchedule"),
			want: []string{"the member has the taint maintenance=north:PreferNoSchedule, which ClusterFederationPolicy " +
				"everywhere does not tolerate, so it gets only what no other member takes" + remedy}},
		{reason: "a taint that the policy tolerates", taints: taint("NoSchedule"),
			tolerated: []corev1.Toleration{{Key: "maintenance", Operator: corev1.TolerationOpExists}}},
		{reason: "copies go to tainted and full members too", taints: taint("NoSchedule"),
			zones: []topology.Zone{zone("a", "0", "4Gi")}, copied: true},
		{reason: "no processors", zones: []topology.Zone{zone("a", "500m", "4Gi"), zone("", "1500m", "4Gi")},
			want: []string{"the member has no room for a pod: zone \"a\" has 500m of cpu free, a pod asks for 2; its part " +
				"without a zone has 1500m of cpu free, a pod asks for 2" + add}},
		{reason: "no memory", zones: []topology.Zone{zone("a", "2", "1Gi")},
			want: []string{"the member has no room for a pod: zone \"a\" has 972Mi of memory free, a pod asks for 1Gi" + add}},
		{reason: "no node that is ready", zones: []topology.Zone{down},
			want: []string{"the member has no room for a pod: zone \"c\" has no node that is ready" + add}},
		{reason: "one zone has room", zones: []topology.Zone{zone("a", "500m", "4Gi"), zone("b", "2", "4Gi")}},
		{reason: "the subset may not use that zone", subsetZone: "a",
			zones: []topology.Zone{zone("a", "500m", "4Gi"), zone("b", "2", "4Gi")},
			want:  []string{"the member has no room for a pod: zone \"a\" has 500m of cpu free, a pod asks for 2" + add}},
		{reason: "a zone that does not say what it has",
			zones: []topology.Zone{zone("a", "500m", "4Gi"), {Name: "b", Nodes: 1, Ready: 1}}},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			m := topology.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "north"}}
			m.Spec.Accepted, m.Spec.Taints, m.Status.Zones = true, tc.taints, tc.zones
			for _, condition := range []string{topology.MemberAccepted, topology.MemberReady} {
				meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{Type: condition, Status: metav1.ConditionTrue,
					Reason: "Yes"})
			}
			o := Forecast{members: []topology.MemberCluster{m},
				Policy: &policy.Policy{Ref: topology.PolicyReference{Kind: policy.KindClusterPolicy, Name: "everywhere"}}}
			o.Policy.Spec.Clusters.Tolerations = tc.tolerated
			if tc.copied {
				o.Mode = kinds.Copy
			}
			o.Workload = kinds.Workload{Open: tc.subsetZone == "", Requests: list("2", "1Gi")}
			if tc.subsetZone != "" {
				o.Workload.Subsets = []kinds.Subset{{Term: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{tc.subsetZone}},
				}}}}
			}
			if diff := cmp.Diff(tc.want, o.Blockers("north", "")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestBlockersOfOneMember: a taint keeps a member from starting the jobs of a workload that runs in one member, and not
// from having an object that each member has.
func TestBlockersOfOneMember(t *testing.T) {
	m := topology.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "north"}}
	m.Spec.Accepted, m.Spec.Taints = true, []corev1.Taint{{Key: "drain", Effect: corev1.TaintEffectNoExecute}}
	for _, condition := range []string{topology.MemberAccepted, topology.MemberReady} {
		meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{Type: condition, Status: metav1.ConditionTrue,
			Reason: "Yes"})
	}
	o := Forecast{members: []topology.MemberCluster{m}, Mode: kinds.PerMember, Policy: &policy.Policy{}}
	if got := o.Blockers("north", ""); len(got) != 0 {
		t.Errorf("each member: %q", got)
	}
	o.Workload.Alone = true
	if got := o.Blockers("north", ""); len(got) != 1 || !strings.Contains(got[0], "the taint drain:NoExecute") {
		t.Errorf("one member: %q", got)
	}
}
