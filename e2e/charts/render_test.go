//go:build e2e

package charts

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/flotilla-dev/flotilla/apis/crds"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/hub/inventory/capi"
	"github.com/flotilla-dev/flotilla/hub/inventory/registration"
	hubrights "github.com/flotilla-dev/flotilla/hub/rights"
	noderights "github.com/flotilla-dev/flotilla/member-agent/nodedaemon/rights"
	agentrights "github.com/flotilla-dev/flotilla/member-agent/rights"
)

// update writes the golden files anew: go test ./e2e/charts -update.
var update = flag.Bool("update", false, "write the golden files anew")

// namespace is the one that the charts of programs are for.
const namespace = "flotilla-system"

// everything turns on what is off by default.
const everything = `
image: {registry: registry.example.org/flotilla, tag: v1.2.3}
imagePullSecrets: [{name: registry}]
serviceAccount: {annotations: {example.org/team: platform}}
networkPolicy: {metricsFrom: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]}
metrics: {serviceMonitor: {enabled: true, labels: {release: prometheus}}}
prometheusRule: {enabled: true, labels: {release: prometheus}}
dashboards: {enabled: true, labels: {example.org/team: platform}}
tracing: {endpoint: "http://collector.observability:4318"}
`

// capiValues are those without which flotilla-capi is not installed, capiEverything turns on what is off by default.
const (
	capiValues     = `hub: {server: "https://hub.example.org:6443"}`
	capiEverything = `
hub: {server: "https://hub.example.org:6443", authority: system}
management: {kubeconfigSecret: management}
drainTimeout: 1h
agentValues: {image: {repository: our-agent}, agent: {replicas: 3}, resourceDistribution: {enabled: true}}
image: {registry: registry.example.org/flotilla, tag: v1.2.3}
imagePullSecrets: [{name: registry}]
serviceAccount: {annotations: {example.org/team: platform}}
metrics: {serviceMonitor: {enabled: true, labels: {release: prometheus}}}
capi: {extraVolumes: [{name: own, emptyDir: {}}]}
`
)

// nodeEverything turns on what is off by default in the chart of the node daemon.
const nodeEverything = `
image: {registry: registry.example.org/flotilla, tag: v1.2.3}
imagePullSecrets: [{name: registry}]
runtime: {endpoint: /run/k3s/containerd/containerd.sock}
node: {hostNetwork: true, seLinuxOptions: {type: spc_t}, imagePullWorkers: 2, maxUnavailable: 50%,
  nodeSelector: {pool: web}}
serviceAccount: {annotations: {example.org/team: platform}}
networkPolicy: {metricsFrom: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]}
metrics: {serviceMonitor: {enabled: true, labels: {release: prometheus}}}
prometheusRule: {enabled: true, labels: {release: prometheus}}
`

// narrow lets the hub bring some kinds into some namespaces alone.
const narrow = "hub: {allowKinds: [CloneSet, ConfigMap], allowNamespaces: [shop, team-*]}"

// onKarmada is what the chart of the hub alone can turn on.
const onKarmada = "inventory: karmada\nclusterProfiles: {namespace: fleet}\nhub: {runsWorkloads: false}\n"

// chart returns the folder of a chart.
func chart(name string) string { return filepath.Join("..", "..", "charts", name) }

// helm runs helm with the arguments, and returns what it prints on standard output; its error has the other.
func helm(t *testing.T, kubeconfig, values string, args ...string) (string, error) {
	t.Helper()
	bin, err := fleet.FindBinaries()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(bin, "helm")
	if _, err := os.Stat(program); err != nil {
		t.Fatal("helm is not built: run make charts")
	}
	if values != "" {
		args = append(args, "--values=-")
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home,
		"KUBECONFIG="+kubeconfig)
	cmd.Stdin = strings.NewReader(values)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("helm %s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String(), nil
}

// render returns what helm template prints.
func render(t *testing.T, name, values string) string {
	t.Helper()
	out, err := helm(t, "", values, "template", name, chart(name), "--namespace="+namespace)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// objectsOf parses manifests.
func objectsOf(t *testing.T, manifests string) []*unstructured.Unstructured {
	t.Helper()
	var all []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifests), len(manifests)+1)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		if len(object.Object) > 0 {
			all = append(all, object)
		}
	}
}

func TestLint(t *testing.T) {
	for _, name := range []string{"flotilla-crds", "flotilla-hub", "flotilla-agent", "flotilla-capi", "flotilla-node"} {
		if out, err := helm(t, "", "", "lint", "--strict", "--namespace="+namespace, chart(name)); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
}

// TestGolden holds what the charts render: a change of a template shows in testdata.
func TestGolden(t *testing.T) {
	for _, test := range []struct{ golden, chart, values string }{
		{"hub", "flotilla-hub", ""},
		{"hub-everything", "flotilla-hub", everything + onKarmada},
		{"agent", "flotilla-agent", ""},
		{"agent-everything", "flotilla-agent", everything + "resourceDistribution: {enabled: true}\n"},
		{"agent-narrow", "flotilla-agent", narrow},
		{"agent-alone", "flotilla-agent", "hub: {enabled: false}"},
		{"capi", "flotilla-capi", capiValues},
		{"capi-everything", "flotilla-capi", capiEverything},
		{"node", "flotilla-node", ""},
		{"node-everything", "flotilla-node", nodeEverything},
	} {
		t.Run(test.golden, func(t *testing.T) {
			got := render(t, test.chart, test.values)
			golden := filepath.Join("testdata", test.golden+".golden.yaml")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s renders other objects than %s (-want +got):\n%s", test.chart, golden, diff)
			}
		})
	}
}

// TestDefinitions holds that the chart has every CustomResourceDefinition as it is generated, kept on uninstall, with
// the converter that is asked for.
func TestDefinitions(t *testing.T) {
	for _, converter := range []string{"flotilla-agent", "flotilla-hub"} {
		got := map[string]*unstructured.Unstructured{}
		for _, object := range objectsOf(t, render(t, "flotilla-crds", "converter: "+converter)) {
			if object.GetKind() == "CustomResourceDefinition" {
				got[object.GetName()] = object
			}
		}
		want, err := crds.All()
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(want) {
			t.Errorf("%d definitions, want %d", len(got), len(want))
		}
		for _, crd := range want {
			annotations := crd.GetAnnotations()
			annotations["helm.sh/resource-policy"] = "keep"
			crd.SetAnnotations(annotations)
			service := []string{"spec", "conversion", "webhook", "clientConfig", "service", "name"}
			if _, has, _ := unstructured.NestedString(crd.Object, service...); has {
				if err := unstructured.SetNestedField(crd.Object, converter, service...); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(crd, got[crd.GetName()]); diff != "" {
				t.Errorf("%s for %s is another one (-want +got):\n%s", crd.GetName(), converter, diff)
			}
		}
	}
}

// TestDefinitionsLeftOut holds that a chart of definitions that has none says so: what leaves symbolic links out, as
// Flux does of what it takes from git, would install nothing.
func TestDefinitionsLeftOut(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "flotilla-crds")
	for _, file := range []string{"Chart.yaml", "values.yaml", "values.schema.json", "templates/crds.yaml",
		"templates/roles.yaml"} {
		data, err := os.ReadFile(filepath.Join(chart("flotilla-crds"), file))
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(folder, file)), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, file), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := helm(t, "", "", "template", "flotilla-crds", folder); err == nil ||
		!strings.Contains(err.Error(), "the chart has no definitions") {
		t.Errorf("it says %v", err)
	}
}

// TestRights holds that the roles of the charts have the rules that the programs say they need, and no *.
func TestRights(t *testing.T) {
	want := map[string][]rbacv1.PolicyRule{
		"ClusterRole flotilla-hub": hubrights.Rules(), "Role flotilla-hub": hubrights.NamespaceRules(),
		"ClusterRole flotilla-hub-karmada":           hubrights.KarmadaRules(),
		"ClusterRole flotilla-hub-workloads":         hubrights.WorkloadRules(),
		"Role flotilla-hub-clusterprofiles in fleet": hubrights.ClusterProfileRules(),
		"ClusterRole flotilla-approver":              registration.ApproverRules(),
		"Role flotilla-approver":                     registration.ApproverNamespaceRules(),
		"Role flotilla-approver in flotilla-members": registration.ApproverMembersRules(),
		"ClusterRole flotilla-agent":                 agentrights.Rules(),
		"Role flotilla-agent":                        agentrights.NamespaceRules(),
		"ClusterRole flotilla-capi":                  capi.Rules(), "Role flotilla-capi": capi.NamespaceRules(),
		"ClusterRole flotilla-capi-management": capi.ManagementRules(),
		"ClusterRole flotilla-node":            noderights.Rules(),
	}
	got := map[string][]rbacv1.PolicyRule{}
	for name, values := range map[string]string{"flotilla-hub": onKarmada, "flotilla-agent": "",
		"flotilla-capi": capiValues, "flotilla-node": ""} {
		for _, object := range objectsOf(t, render(t, name, values)) {
			if object.GetKind() != "ClusterRole" && object.GetKind() != "Role" {
				continue
			}
			role := &rbacv1.Role{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, role); err != nil {
				t.Fatal(err)
			}
			name := object.GetKind() + " " + object.GetName()
			if role.Namespace != "" && role.Namespace != topology.SystemNamespace {
				name += " in " + role.Namespace
			}
			got[name] = role.Rules
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the roles of the charts are others (-want +got):\n%s", diff)
	}
	for name, rules := range got {
		for _, rule := range rules {
			if strings.Contains(rule.String(), "*") {
				t.Errorf("%s has a *: %s", name, rule.String())
			}
		}
	}
}

// TestValues holds that a wrong value is refused with a sentence that names it.
func TestValues(t *testing.T) {
	for _, test := range []struct {
		name, chart, values string
		says                []string
	}{
		{"an unknown value", "flotilla-hub", "replica: 3", []string{"additional properties 'replica' not allowed"}},
		{"an unknown value inside", "flotilla-hub", "hub: {replica: 3}", []string{"/hub", "'replica' not allowed"}},
		{"replicas as text", "flotilla-hub", `hub: {replicas: "two"}`, []string{"/hub/replicas", "got string, want integer"}},
		{"negative replicas", "flotilla-agent", "agent: {replicas: -1}", []string{"/agent/replicas", "got -1, want 0"}},
		{"a tag that is a number", "flotilla-hub", "image: {tag: 1.2}", []string{"/image/tag", "got number, want string"}},
		{"a digest without its algorithm", "flotilla-agent", "image: {digest: abc}",
			[]string{"/image/digest", "'abc'", "sha256"}},
		{"an unknown level", "flotilla-agent", "log: {level: loud}", []string{"/log/level", "'debug', 'info', 'error'"}},
		{"a kind that no agent carries", "flotilla-agent", "hub: {allowKinds: [CloneSet, Pod]}",
			[]string{"/hub/allowKinds/1", "'CloneSet', 'CloneSet.apps.kruise.io'"}},
		{"a kind that no agent carries, for members of Cluster API", "flotilla-capi", capiValues +
			"\nagentValues: {hub: {allowKinds: [CloneSet, Pod]}}",
			[]string{`hub.allowKinds has "Pod"`, "CloneSet.apps.kruise.io, ConfigMap"}},
		{"what is no namespace", "flotilla-agent", "hub: {allowNamespaces: [shop, Team]}",
			[]string{"/hub/allowNamespaces/1", "'Team'"}},
		{"a flag without its dashes", "flotilla-hub", "approver: {extraArgs: [v]}", []string{"/approver/extraArgs/0", "'v'"}},
		{"an unknown converter", "flotilla-crds", "converter: kruise",
			[]string{"/converter", "'flotilla-agent', 'flotilla-hub'"}},
		{"no address of the hub", "flotilla-capi", "", []string{"hub.server is empty", "https://hub.example.org:6443"}},
		{"no duration", "flotilla-capi", "drainTimeout: soon", []string{"/drainTimeout", "'soon'"}},
		{"a share of no nodes", "flotilla-node", "node: {maxUnavailable: 0%}", []string{"/node/maxUnavailable", "'0%'"}},
		{"a socket without its folder", "flotilla-node", "runtime: {endpoint: containerd.sock}",
			[]string{"/runtime/endpoint", "'containerd.sock'"}},
		{"values of a parent chart", "flotilla-crds", "{global: {a: b}, enabled: true}", nil},
		{"values of a parent chart, hub", "flotilla-hub", "{global: {a: b}, enabled: true}", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := helm(t, "", test.values, "template", "a", chart(test.chart), "--namespace="+namespace)
			if test.says == nil {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil {
				t.Fatal("it renders")
			}
			for _, want := range test.says {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
		})
	}
	for _, name := range []string{"flotilla-hub", "flotilla-agent", "flotilla-node"} {
		_, err := helm(t, "", "", "template", "a", chart(name), "--namespace=other")
		if err == nil || !strings.Contains(err.Error(), `the namespace is "other"`) ||
			!strings.Contains(err.Error(), "--namespace flotilla-system") {
			t.Errorf("%s in another namespace: %v", name, err)
		}
	}
}

// TestAgentOfClusterAPI holds that members get what the chart of the agent renders, but for who made it, also with
// values for it.
func TestAgentOfClusterAPI(t *testing.T) {
	byName := func(manifests string) map[string]any {
		all := map[string]any{}
		for _, object := range objectsOf(t, manifests) {
			labels := object.GetLabels()
			delete(labels, "app.kubernetes.io/managed-by")
			delete(labels, "helm.sh/chart")
			object.SetLabels(labels)
			all[object.GetKind()+" "+object.GetName()] = object.Object
		}
		return all
	}
	for name, values := range map[string]string{"by default": "{}", "for some kinds": "{" + narrow + "}"} {
		t.Run(name, func(t *testing.T) {
			var got string
			for _, object := range objectsOf(t, render(t, "flotilla-capi", capiValues+"\nagentValues: "+values)) {
				if object.GetKind() == "ConfigMap" {
					data, _, err := unstructured.NestedStringMap(object.Object, "data")
					if err != nil {
						t.Fatal(err)
					}
					got = data["agent.yaml"]
				}
			}
			if diff := cmp.Diff(byName(render(t, "flotilla-agent", values)), byName(got)); diff != "" {
				t.Errorf("-chart +members:\n%s", diff)
			}
		})
	}
}
