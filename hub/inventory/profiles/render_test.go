package profiles

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// TestStatusOf holds what a profile says of zones, of capacity and of a member that is not heard of, and since when.
func TestStatusOf(t *testing.T) {
	then := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	amount := func(cpu string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	}
	m := &topology.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "east"},
		Spec:       topology.MemberClusterSpec{ClusterID: "id", Region: "north"},
		Status: topology.MemberClusterStatus{
			KubernetesVersion: "v1.36.3", Region: "by its nodes", ZoneNames: "a", Nodes: "3/4",
			Zones: []topology.Zone{{Name: "a", Nodes: 3, Ready: 2, Allocatable: amount("8"), Requested: amount("1500m")},
				{Nodes: 1, Ready: 1}},
			Conditions: []metav1.Condition{
				{Type: topology.MemberReady, Status: metav1.ConditionTrue, Reason: "LeaseFresh",
					Message: "the agent renews its Lease"},
				{Type: topology.MemberAccepted, Status: metav1.ConditionTrue, Reason: topology.ReasonAccepted},
			},
		},
	}
	first, err := statusOf(m, Status{}, then)
	if err != nil {
		t.Fatal(err)
	}
	values, since := map[string]string{}, map[string]time.Time{}
	for _, p := range first.Properties {
		values[p.Name], since[p.Name] = p.Value, p.LastObservedTime.UTC()
	}
	if diff := cmp.Diff(map[string]string{
		PropertyID: "east", PropertyClusterID: "id", PropertyRegion: "north", PropertyZones: "a", PropertyNodes: "3/4",
		PropertyZone + "a": `{"nodes":3,"ready":2,"allocatable":{"cpu":"8"},"requested":{"cpu":"1500m"}}`,
		PropertyNoZone:     `{"nodes":1,"ready":1}`,
	}, values); diff != "" {
		t.Errorf("properties, -want +got:\n%s", diff)
	}
	if !meta.IsStatusConditionTrue(first.Conditions, ConditionControlPlaneHealthy) ||
		!meta.IsStatusConditionTrue(first.Conditions, ConditionJoined) || first.Version.Kubernetes != "v1.36.3" {
		t.Errorf("it says %+v", first)
	}

	// Later it is not heard of, and one of its zones has more room: what is the same keeps its time.
	later := then.Add(time.Hour)
	m.Status.Conditions[0].Status = metav1.ConditionFalse
	m.Status.Zones[0].Allocatable = amount("16")
	second, err := statusOf(m, first, later)
	if err != nil {
		t.Fatal(err)
	}
	if c := meta.FindStatusCondition(second.Conditions,
		ConditionControlPlaneHealthy); c.Status != metav1.ConditionUnknown || !c.LastTransitionTime.Time.Equal(later) {
		t.Errorf("of a member that is not heard of it says %+v", c)
	}
	for _, p := range second.Properties {
		want := since[p.Name]
		if p.Name == PropertyZone+"a" {
			want = later
		}
		if !p.LastObservedTime.Time.Equal(want) {
			t.Errorf("%s has its value since %s, want %s", p.Name, p.LastObservedTime, want)
		}
	}
}
