package placement

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// TestMemberChanged is about which news of a member wake decisions, and that all that a decision knows of one can be
// compared: the comparison panics for fields that it cannot read, and with it the hub.
func TestMemberChanged(t *testing.T) {
	base := &topology.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"},
		Spec: topology.MemberClusterSpec{Accepted: true}}
	base.Status.Zones = []topology.Zone{{Name: "a", Nodes: 2}}
	base.Status.Conditions = []metav1.Condition{{Type: topology.MemberReady, Status: metav1.ConditionTrue}}
	for _, tt := range []struct {
		name   string
		change func(*topology.MemberCluster)
		want   bool
	}{
		{"nothing", func(*topology.MemberCluster) {}, false},
		{"a version of its agent", func(m *topology.MemberCluster) { m.Status.AgentVersion = "v1.2.3" }, false},
		{"a condition", func(m *topology.MemberCluster) { m.Status.Conditions[0].Status = metav1.ConditionFalse }, true},
		{"a zone", func(m *topology.MemberCluster) { m.Status.Zones[0].Name = "b" }, true},
	} {
		after := base.DeepCopy()
		tt.change(after)
		if got := memberChanged().Update(event.UpdateEvent{ObjectOld: base, ObjectNew: after}); got != tt.want {
			t.Errorf("%s: %t, want %t", tt.name, got, tt.want)
		}
	}
}
