package console

import (
	"errors"
	"strings"
	"testing"

	"github.com/flotilla-dev/flotilla/e2e/wording"
)

// TestKindsThatHubsDoNotPlace: a kind of one cluster, or of Kubernetes, is answered with what to do instead.
func TestKindsThatHubsDoNotPlace(t *testing.T) {
	for text, want := range map[string]string{
		"ephemeraljobs/debug": "a hub sends no ephemeraljobs to members: apply the EphemeralJob in the member that runs",
		"Deployment/web":      "a hub divides no Deployment: put the pod template into a UnitedDeployment",
		"statefulset.apps/db": "; on a hub with --hub-runs-workloads=false name it in a policy instead",
		"cronjob.batch/tick":  "apply the CronJob in the members that are to run it",
		"daemonset.apps/log":  "a hub divides no daemonset.apps: make it a DaemonSet of apps.kruise.io",
		"pod/web-1":           `"pod" is no kind that the hub places: name the workload`,
	} {
		_, err := Workload(text, "shop")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
		if wrong := wording.Wrong(message(err)); wrong != "" && text != "pod/web-1" {
			t.Errorf("%s: %s", text, wrong)
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

// TestKindsThatNoHubTakes says what to use instead of kinds that a hub does not place.
func TestKindsThatNoHubTakes(t *testing.T) {
	for name, want := range map[string]string{
		"deploy/web":                  "use a CloneSet, or a UnitedDeployment with a deploymentTemplate",
		"deployments.apps/web":        "or use a CloneSet",
		"sts/db":                      "use a StatefulSet of apps.kruise.io (asts/NAME)",
		"cronjob/clean":               "apply the CronJob in the members that are to run it",
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
