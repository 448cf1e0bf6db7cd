package wire

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

func key(group, kind string) Key { return Key{Group: group, Kind: kind, Namespace: "shop", Name: "db"} }

func TestNamesHaveTheGroupOfOtherKinds(t *testing.T) {
	for _, test := range []struct{ group, kind, placement, work string }{
		{"apps.kruise.io", "StatefulSet", "statefulset-db", "shop.db.statefulset"},
		{"policy.kruise.io", "PodUnavailableBudget", "podunavailablebudget-db", "shop.db.podunavailablebudget"},
		{"", "ConfigMap", "configmap-db", "shop.db.configmap"},
		{"apps", "StatefulSet", "statefulset.apps-db", "shop.db.statefulset.apps"},
		{"batch", "Job", "job.batch-db", "shop.db.job.batch"},
	} {
		k := key(test.group, test.kind)
		if got := k.Placement().Name; got != test.placement {
			t.Errorf("placement of %s %s is %s, want %s", test.group, test.kind, got, test.placement)
		}
		if got := k.Work("east").Name; got != test.work {
			t.Errorf("Work of %s %s is %s, want %s", test.group, test.kind, got, test.work)
		}
	}
	cluster := Key{Group: "apps.kruise.io", Kind: "SidecarSet", Name: "logs"}
	if got := cluster.Work("east").Name; got != "logs.sidecarset" {
		t.Errorf("Work of a cluster-scoped object is %s", got)
	}
	if got := cluster.Placement().String(); got != "flotilla-system/sidecarset-logs" {
		t.Errorf("placement of a cluster-scoped object is %s", got)
	}
	if got := cluster.Sentence(); got != "SidecarSet logs" {
		t.Errorf("messages name a cluster-scoped object %s", got)
	}
	if got, ok := ParseKey(cluster.String()); !ok || got != cluster {
		t.Errorf("the annotation %s is read as %+v", cluster, got)
	}
}

func TestKeyOfPlacementKnowsScope(t *testing.T) {
	p := &topology.WorkloadPlacement{ObjectMeta: metav1.ObjectMeta{Namespace: topology.SystemNamespace}}
	p.Spec.Workload = topology.WorkloadReference{APIVersion: "apps.kruise.io/v1beta1", Kind: "SidecarSet", Name: "logs"}
	want := Key{Group: "apps.kruise.io", Kind: "SidecarSet", Namespace: topology.SystemNamespace, Name: "logs"}
	if got := KeyOfPlacement(p); got != want {
		t.Errorf("of a namespaced object: %+v", got)
	}
	p.Spec.Workload.ClusterScoped, want.Namespace = true, ""
	if got := KeyOfPlacement(p); got != want {
		t.Errorf("of a cluster-scoped object: %+v", got)
	}
}
