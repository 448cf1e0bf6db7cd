package console

import "testing"

// TestDaemonSetNames takes every name that kubectl takes for a DaemonSet of this group.
func TestDaemonSetNames(t *testing.T) {
	for _, name := range []string{"ads", "daemon", "daemonset", "daemonsets.apps.kruise.io"} {
		key, err := Workload(name+"/log", "shop")
		if err != nil || key.Kind != "DaemonSet" || key.Name != "log" {
			t.Errorf("%s: %+v, %v", name, key, err)
		}
	}
}

// TestClusterScopedNames: a namespace says nothing about an object without one.
func TestClusterScopedNames(t *testing.T) {
	key, err := Workload("sidecarset/logs", "shop")
	if err != nil || key.Namespace != "" || key.Sentence() != "SidecarSet logs" {
		t.Errorf("%+v, %v", key, err)
	}
}
