package capi

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// TestHookOf holds that a Machine is kept while its Cluster is deleted and the member has not left, and at no other
// time.
func TestHookOf(t *testing.T) {
	for _, test := range []struct {
		name                      string
		has, going, deleted, left bool
		want                      hook
	}{
		{"a new one", false, false, false, false, setHook},
		{"one that has it", true, false, false, false, keepHook},
		{"one that goes while its Cluster stays", true, true, false, false, dropHook},
		{"one that goes with its Cluster", true, true, true, false, keepHook},
		{"one that went before it had one", false, true, true, false, keepHook},
		{"a new one of a Cluster that goes", false, false, true, false, setHook},
		{"the member has left, and the Cluster goes", true, true, true, true, dropHook},
		{"the member has left, and the Cluster stays", true, false, false, true, dropHook},
		{"none of ours", false, false, false, true, keepHook},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := &clusterv1.Machine{}
			if test.has {
				m.Annotations = map[string]string{topology.MachineHook: "flotilla-capi"}
			}
			if test.going {
				m.DeletionTimestamp = new(metav1.NewTime(now()))
			}
			if got := hookOf(m, test.deleted, test.left); got != test.want {
				t.Errorf("%d, want %d", got, test.want)
			}
		})
	}
}

// TestLost holds that a member is fenced only if it had machines, has none, and is not heard of; once for each loss.
func TestLost(t *testing.T) {
	seen := func(m *topology.MemberCluster) { m.Annotations[topology.AnnotationMachinesSeen] = "true" }
	fencedAt := func(at time.Time) func(*topology.MemberCluster) {
		return func(m *topology.MemberCluster) { m.Spec.Fence = &topology.Fence{LostSince: metav1.NewTime(at)} }
	}
	for _, test := range []struct {
		name     string
		member   topology.MemberCluster
		machines int
		want     bool
	}{
		{"gone", made("east", "site/east", ready(metav1.ConditionFalse), seen), 0, true},
		{"a machine is left", made("east", "site/east", ready(metav1.ConditionFalse), seen), 1, false},
		{"it is heard of", made("east", "site/east", ready(metav1.ConditionTrue), seen), 0, false},
		{"it was never heard of", made("east", "site/east", seen), 0, false},
		{"it never had machines", made("east", "site/east", ready(metav1.ConditionFalse)), 0, false},
		{"fenced already", made("east", "site/east", ready(metav1.ConditionFalse), seen, fencedAt(now())), 0, false},
		{"fenced at an earlier loss", made("east", "site/east", ready(metav1.ConditionFalse), seen,
			fencedAt(now().Add(-time.Hour))), 0, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			since, got := lost(&test.member, test.machines)
			if got != test.want || got && !since.Equal(new(metav1.NewTime(now()))) {
				t.Errorf("%t since %s, want %t", got, since, test.want)
			}
		})
	}
}

// TestSeen holds that a node of a Machine or of a MachinePool is what a cluster is known to have had.
func TestSeen(t *testing.T) {
	machine, pool := clusterv1.Machine{}, clusterv1.MachinePool{}
	f := eastern(nil)
	f.machines, f.pools = []clusterv1.Machine{machine}, []clusterv1.MachinePool{pool}
	if f.seen() {
		t.Error("machines without nodes were seen")
	}
	f.pools[0].Status.NodeRefs = []corev1.ObjectReference{{Name: "n1"}}
	if !f.seen() {
		t.Error("the node of a MachinePool was not seen")
	}
	f.pools = nil
	f.machines[0].Status.NodeRef.Name = "n1"
	if !f.seen() {
		t.Error("the node of a Machine was not seen")
	}
}

func TestZones(t *testing.T) {
	machine := func(node, asked, chosen string) clusterv1.Machine {
		m := clusterv1.Machine{Spec: clusterv1.MachineSpec{FailureDomain: asked}}
		m.Status.NodeRef.Name, m.Status.FailureDomain = node, chosen
		return m
	}
	f := eastern(nil)
	f.machines = []clusterv1.Machine{machine("n1", "a", ""), machine("n2", "a", "b"), machine("n3", "", ""),
		machine("", "c", "")}
	if diff := cmp.Diff(map[string]string{"n1": "a", "n2": "b"}, f.zones()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
