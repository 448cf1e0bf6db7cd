package console

import (
	"strings"
	"testing"
)

// TestKindsThatHubsDoNotPlace: a kind of one cluster, or of Kubernetes, is answered with what to do instead.
func TestKindsThatHubsDoNotPlace(t *testing.T) {
	for text, want := range map[string]string{
		"ephemeraljobs/debug": "a hub sends no ephemeraljobs to members: apply the EphemeralJob in the member that runs",
		"Deployment/web":      "a hub sends no Deployment to members: put the pod template into a UnitedDeployment",
		"cronjob.batch/tick":  "apply the CronJob in the members that are to run it",
		"pod/web-1":           `"pod" is no kind that the hub places; the kinds are`,
	} {
		if _, err := Workload(text, "shop"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

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
