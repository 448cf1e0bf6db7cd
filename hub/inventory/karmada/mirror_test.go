package karmada

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire/karmada"
)

func resources(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu),
		corev1.ResourceMemory: resource.MustParse(memory)}
}

func TestZonesOf(t *testing.T) {
	for _, test := range []struct {
		name string
		spec karmada.ClusterSpec
		node *karmada.NodeSummary
		want string // name nodes/ready cpu
	}{
		{"no zone", karmada.ClusterSpec{}, &karmada.NodeSummary{TotalNum: 4, ReadyNum: 3}, " 4/3 8"},
		{"the older field", karmada.ClusterSpec{Zone: "a"}, &karmada.NodeSummary{TotalNum: 4, ReadyNum: 3}, "a 4/3 8"},
		{"unsorted and twice", karmada.ClusterSpec{Zones: []string{"b", "a", "b"}},
			&karmada.NodeSummary{TotalNum: 3, ReadyNum: 3}, "a 2/2 4,b 1/1 4"},
		{"fewer nodes than zones", karmada.ClusterSpec{Zones: []string{"a", "b"}},
			&karmada.NodeSummary{TotalNum: 1, ReadyNum: 1}, "a 1/1 4,b 1/1 4"},
		{"none ready", karmada.ClusterSpec{Zones: []string{"a", "b"}}, &karmada.NodeSummary{TotalNum: 2}, "a 1/0 4,b 1/0 4"},
		{"nodes are not counted", karmada.ClusterSpec{Zones: []string{"a", "b"}}, nil, "a 1/1 4,b 1/1 4"},
		{"no name of a zone", karmada.ClusterSpec{Zones: []string{"", "two words", "a"}},
			&karmada.NodeSummary{TotalNum: 1, ReadyNum: 1}, "a 1/1 8"},
	} {
		c := &karmada.Cluster{Spec: test.spec, Status: karmada.ClusterStatus{NodeSummary: test.node,
			ResourceSummary: &karmada.ResourceSummary{Allocatable: resources("8", "16Gi")}}}
		var got []string
		for _, z := range zonesOf(c) {
			got = append(got, fmt.Sprintf("%s %d/%d %s", z.Name, z.Nodes, z.Ready, z.Allocatable.Cpu()))
		}
		if strings.Join(got, ",") != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// TestNear holds that what moves by less than a twentieth of what a zone has is not written.
func TestNear(t *testing.T) {
	zone := func(allocatable, requested string) []topology.Zone {
		return []topology.Zone{{Name: "a", Nodes: 2, Ready: 2, Allocatable: resources(allocatable, "16Gi"),
			Requested: resources(requested, "1Gi")}}
	}
	for _, test := range []struct {
		name string
		b    []topology.Zone
		want bool
	}{
		{"the same", zone("10", "2"), true},
		{"a little more is requested", zone("10", "2400m"), true},
		{"much more is requested", zone("10", "2500m"), false},
		{"much less is requested", zone("10", "1500m"), false},
		{"there is more", zone("11", "2"), false},
		{"another zone", []topology.Zone{{Name: "b", Nodes: 2, Ready: 2}}, false},
		{"no zone", nil, false},
		{"nothing is told any more", []topology.Zone{{Name: "a", Nodes: 2, Ready: 2}}, false},
	} {
		if got := near(zone("10", "2"), test.b); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}

// TestJudge holds the conditions of a mirrored member.
func TestJudge(t *testing.T) {
	now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		name            string
		change          func(*facts)
		accepted, ready string
	}{
		{"as it should be", func(*facts) {}, topology.ReasonAccepted, topology.ReasonReadyInKarmada},
		{"no Cluster", func(f *facts) { f.cluster = nil }, topology.ReasonNotInKarmada, topology.ReasonNeverConnected},
		{"a person took it out", func(f *facts) { f.member.Spec.Accepted = false }, topology.ReasonNotAccepted,
			topology.ReasonReadyInKarmada},
		{"no id", func(f *facts) { f.cluster.Spec.ID = "" }, topology.ReasonNeverConnected, topology.ReasonReadyInKarmada},
		{"the hub itself", func(f *facts) { f.cluster.Spec.ID = "hub" }, topology.ReasonHubIsMember,
			topology.ReasonReadyInKarmada},
		{"another cluster", func(f *facts) { f.member.Spec.ClusterID = "other" }, topology.ReasonClusterIDMismatch,
			topology.ReasonReadyInKarmada},
		{"no namespace", func(f *facts) { f.namespace = false }, topology.ReasonNeverConnected,
			topology.ReasonReadyInKarmada},
		{"unknown", func(f *facts) { f.cluster.Status.Conditions[0].Status = metav1.ConditionUnknown },
			topology.ReasonAccepted, topology.ReasonNotReadyInKarmada},
		{"never told", func(f *facts) { f.cluster.Status.Conditions = nil }, topology.ReasonAccepted,
			topology.ReasonNeverConnected},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := &facts{
				name: "east", namespace: true,
				cluster: &karmada.Cluster{Spec: karmada.ClusterSpec{ID: "id"},
					Status: karmada.ClusterStatus{Conditions: []metav1.Condition{{Type: karmada.ConditionReady,
						Status: metav1.ConditionTrue}}}},
				member: &topology.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"},
					Spec: topology.MemberClusterSpec{Accepted: true, ClusterID: "id"}},
			}
			test.change(f)
			f.judge("hub", now)
			conditions := slices.Clone(f.member.Status.Conditions)
			accepted, ready := meta.FindStatusCondition(conditions, topology.MemberAccepted),
				meta.FindStatusCondition(conditions, topology.MemberReady)
			if accepted.Reason != test.accepted || ready.Reason != test.ready || len(conditions) != 2 {
				t.Errorf("conditions %+v", conditions)
			}
			f.member.Generation++
			if f.judge("hub", now.Add(time.Hour)); !slices.Equal(conditions, f.member.Status.Conditions) {
				t.Errorf("what says the same was written again: %+v", f.member.Status.Conditions)
			}
			f.together = 2
			f.judge("hub", now)
			if !meta.IsStatusConditionTrue(f.member.Status.Conditions, topology.MemberFailoverHeld) {
				t.Error("it is given up with many others")
			}
		})
	}
}

// TestMirrorKeepsWhatIsAPersons holds that labels and taints with Flotilla's own keys stay, and those that Karmada took
// away go.
func TestMirrorKeepsWhatIsAPersons(t *testing.T) {
	c := &karmada.Cluster{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"env": "prod"}},
		Spec: karmada.ClusterSpec{ID: "id", Provider: "two words", Taints: []corev1.Taint{
			{Key: karmada.TaintUnschedulable, Effect: corev1.TaintEffectNoSchedule},
			{Key: "cluster.karmada.io/unreachable", Effect: corev1.TaintEffectNoExecute},
		}}}
	m := &topology.MemberCluster{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"gone": "1",
		"topology.flotilla.dev/tier": "gold"}}, Spec: topology.MemberClusterSpec{
		ClusterID: "pinned", Taints: []corev1.Taint{{Key: "gone"},
			{Key: topology.TaintDrain, Effect: corev1.TaintEffectNoExecute}},
	}}
	mirror(c, m)
	if fmt.Sprint(m.Labels) != "map[env:prod topology.flotilla.dev/inventory:karmada topology.flotilla.dev/tier:gold]" {
		t.Errorf("labels %v", m.Labels)
	}
	if len(m.Spec.Taints) != 2 || m.Spec.Taints[0].Key != karmada.TaintUnschedulable ||
		m.Spec.Taints[1].Key != topology.TaintDrain || m.Spec.ClusterID != "pinned" {
		t.Errorf("spec %+v", m.Spec)
	}
}
