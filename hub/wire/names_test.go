package wire

import "testing"

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
}
