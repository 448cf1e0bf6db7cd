package v1alpha1

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestWorkloadKey: kinds of the first release keep their text, and every text leads back to the object.
func TestWorkloadKey(t *testing.T) {
	for _, test := range []struct {
		group, kind, namespace, want string
	}{
		{"apps.kruise.io", "CloneSet", "shop", "CloneSet/shop/web"},
		{"apps.kruise.io", "UnitedDeployment", "shop", "UnitedDeployment/shop/web"},
		{"", "ConfigMap", "shop", "ConfigMap/shop/web"},
		{"apps", "StatefulSet", "shop", "StatefulSet/shop/web"},
		{"apps.kruise.io", "StatefulSet", "shop", "StatefulSet.apps.kruise.io/shop/web"},
		{"apps.kruise.io", "DaemonSet", "shop", "DaemonSet.apps.kruise.io/shop/web"},
		{"policy.kruise.io", "PodUnavailableBudget", "shop", "PodUnavailableBudget.policy.kruise.io/shop/web"},
		{"apps.kruise.io", "SidecarSet", "", "SidecarSet.apps.kruise.io//web"},
	} {
		kind := schema.GroupKind{Group: test.group, Kind: test.kind}
		got := WorkloadKey(kind, test.namespace, "web")
		if got != test.want {
			t.Errorf("%s: %q, want %q", kind, got, test.want)
		}
		if back, namespace, name, ok := ParseWorkloadKey(got); !ok || back != kind || namespace != test.namespace ||
			name != "web" {
			t.Errorf("%q: %s %s/%s, %t", got, back, namespace, name, ok)
		}
	}
	for _, text := range []string{"", "web", "CloneSet/web", "CloneSet/shop/", "/shop/web", "Rollout/shop/web",
		"CloneSet/shop/web/x"} {
		if kind, _, _, ok := ParseWorkloadKey(text); ok {
			t.Errorf("%q is read as %s", text, kind)
		}
	}
}
