package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// rendered is what the chart flotilla-agent renders, as a test of the charts holds it.
const rendered = "../../../../e2e/charts/testdata/agent.golden.yaml"

// TestRead holds that the program takes what the chart renders: all of it, with its own label, and a hash that changes
// with it.
func TestRead(t *testing.T) {
	definitions, err := ReadDefinitions()
	if err != nil {
		t.Fatal(err)
	}
	m, err := Read(rendered, definitions)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, object := range append(m.objects, m.deployment) {
		kinds[object.GetKind()]++
		if object.GetLabels()[managedBy] != ours {
			t.Errorf("%s %s has the labels %v", object.GetKind(), object.GetName(), object.GetLabels())
		}
	}
	for _, kind := range []string{"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Service",
		"Deployment", "PodDisruptionBudget", "NetworkPolicy"} {
		if kinds[kind] != 1 {
			t.Errorf("there are %d of the kind %s", kinds[kind], kind)
		}
	}
	if len(m.definitions) < 7 || m.deployment.GetAnnotations()[installed] != m.hash {
		t.Errorf("%d definitions, annotations %v", len(m.definitions), m.deployment.GetAnnotations())
	}
	text, err := os.ReadFile(rendered)
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "agent.yaml")
	if err := os.WriteFile(other, []byte(strings.ReplaceAll(string(text), "--log-level=info", "--log-level=debug")),
		0o600); err != nil {
		t.Fatal(err)
	}
	if updated, err := Read(rendered, &Definitions{sum: []byte("next")}); err != nil || updated.hash == m.hash {
		t.Errorf("other definitions have the same hash: %v", err)
	}
	if changed, err := Read(other, definitions); err != nil || changed.hash == m.hash {
		t.Errorf("another release has the same hash: %v", err)
	}
}

func TestReadRefuses(t *testing.T) {
	deployment := func(namespace, name string) string {
		return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: " + name + ", namespace: " + namespace + "}\n"
	}
	for name, test := range map[string]struct{ text, says string }{
		"nothing":           {"", "has no Deployment in the namespace flotilla-system"},
		"another namespace": {deployment("default", "flotilla-agent"), "has no Deployment in the namespace flotilla-system"},
		"two": {deployment("flotilla-system", "a") + "---\n" + deployment("flotilla-system", "b"),
			"has the Deployments a and b"},
		"no YAML": {"{", "read the agent's objects from"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "agent.yaml")
			if err := os.WriteFile(file, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Read(file, &Definitions{}); err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v does not say %q", err, test.says)
			}
		})
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none"), &Definitions{}); err == nil {
		t.Error("a file that is not there is read")
	}
}

// TestOthers holds whose objects are left as they are.
func TestOthers(t *testing.T) {
	for _, test := range []struct {
		kind, label string
		want        bool
	}{
		{"ClusterRole", "", false}, // flotilla join made it
		{"ClusterRole", ours, false},
		{"ClusterRole", helm, true},
		{"CustomResourceDefinition", "", true},
		{"CustomResourceDefinition", ours, false},
		{"CustomResourceDefinition", helm, true},
	} {
		if got := others(test.kind, test.label); got != test.want {
			t.Errorf("%s with the label %q: %t", test.kind, test.label, got)
		}
	}
}
