package console

import (
	"errors"
	"strings"
	"testing"
)

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

// TestKindsThatNoHubTakes says what to use instead of kinds that a hub does not place.
func TestKindsThatNoHubTakes(t *testing.T) {
	for name, want := range map[string]string{
		"deploy/web":                  "use a CloneSet, or a UnitedDeployment with a deploymentTemplate",
		"deployments.apps/web":        "use a CloneSet, or a UnitedDeployment with a deploymentTemplate",
		"sts/db":                      "use a StatefulSet of apps.kruise.io (asts/NAME)",
		"cronjob/clean":               "use an AdvancedCronJob (acj/NAME)",
		"pod/web-1":                   "flotilla logs and flotilla exec take pods",
		"nodeimage/node-1":            "apply the NodeImage in the member that has it",
		"imagelistpulljob/web":        "apply an ImagePullJob for each image",
		"nodeimages.apps.kruise.io/n": "apply the NodeImage in the member that has it",
		"gateway/web":                 "the kinds are acj (AdvancedCronJob)",
	} {
		_, err := Workload(name, "shop")
		if !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}
