package plan

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
	"github.com/flotilla-dev/flotilla/hub"
	"github.com/flotilla-dev/flotilla/hub/snapshot"
)

const fleet = `apiVersion: topology.flotilla.dev/v1alpha1
kind: MemberCluster
metadata: {name: east}
spec: {accepted: true}
status: {zones: [{name: a, nodes: 2, ready: 2}, {name: b, nodes: 2, ready: 2}]}
---
apiVersion: topology.flotilla.dev/v1alpha1
kind: MemberCluster
metadata: {name: west}
spec: {accepted: true}
status: {zones: [{name: b, nodes: 2, ready: 2}, {name: c, nodes: 2, ready: 2}]}
---
apiVersion: topology.flotilla.dev/v1alpha1
kind: ClusterFederationPolicy
metadata: {name: everywhere}
spec: {workloads: [{kind: CloneSet}, {kind: UnitedDeployment}]}
`

// cloneSet is a CloneSet in YAML; more goes into its spec.
func cloneSet(name string, replicas int, more string) string {
	return fmt.Sprintf(`apiVersion: apps.kruise.io/v1beta1
kind: CloneSet
metadata: {name: %s, namespace: shop}
spec:
  replicas: %d
  selector: {matchLabels: {app: %s}}
  template:
    metadata: {labels: {app: %s}}
    spec: {containers: [{name: main, image: web:1}]}
%s`, name, replicas, name, name, more)
}

// file writes a file and returns its name.
func file(t testing.TB, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// run runs the verb and returns what it printed to its output and to its error output.
func run(t *testing.T, command *cobra.Command, args ...string) (string, string, error) {
	t.Helper()
	var out, talk bytes.Buffer
	command.SetArgs(args)
	command.SetOut(&out)
	command.SetErr(&talk)
	command.SilenceErrors, command.SilenceUsage = true, true
	err := command.ExecuteContext(t.Context())
	return out.String(), talk.String(), err
}

func TestPlan(t *testing.T) {
	members := file(t, fleet)
	tests := []struct {
		name, file string
		out        []string // lines that the output has, with single spaces
		err        string   // part of the error
	}{
		{"a CloneSet over all members", cloneSet("api", 5, ""), []string{
			"CloneSet shop/api: 5 replicas, 5 placed: placed on 2 clusters by ClusterFederationPolicy everywhere",
			"CLUSTER ZONE SUBSET NOW PLAN WHY",
			"east - - 0 3 Even: that is an even share",
			"west - - 0 2 Even: that is an even share",
		}, ""},
		{"subsets by zone", strings.ReplaceAll(`apiVersion: apps.kruise.io/v1beta1
kind: UnitedDeployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  template:
    cloneSetTemplate:
      metadata: {labels: {app: web}}
      spec:
        selector: {matchLabels: {app: web}}
        template:
          metadata: {labels: {app: web}}
          spec: {containers: [{name: main, image: web:1}]}
  topology:
    subsets:
    - {name: one, nodeSelectorTerm: {matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [a]}]}, replicas: 25%}
    - {name: two, nodeSelectorTerm: {matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [c]}]}}
`, "\t", "  "), []string{"east a one 0 1 Even: that is an even share", "west c two 0 3 Even: that is an even share"}, ""},
		{"a selector that does not fit is refused with its reason, and the exit code is not 0",
			strings.ReplaceAll(cloneSet("api", 5, ""), "matchLabels: {app: api}", "matchLabels: {app: other}"), []string{
				`CloneSet shop/api: not placed anew (InvalidSelector): the selector "app=other" of CloneSet shop/api does not match the labels "app=api" of its pod template; make them agree`,
			}, "1 of 1 workloads would not be placed"},
		{"an older version", strings.Replace(cloneSet("api", 2, ""), "v1beta1", "v1alpha1", 1),
			[]string{"east - - 0 1 Even: that is an even share"}, ""},
		{"a List", "apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(cloneSet("api", 2, ""), "\n", "\n  "),
			[]string{"west - - 0 1 Even: that is an even share"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, talk, err := run(t, NewCommand(), "--members", members, "-f", file(t, tt.file))
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
			var lines []string
			for line := range strings.Lines(out) {
				lines = append(lines, strings.Join(strings.Fields(line), " "))
			}
			for _, want := range tt.out {
				if !strings.Contains("\n"+strings.Join(lines, "\n")+"\n", "\n"+want+"\n") {
					t.Errorf("the output has no line %q:\n%s", want, out)
				}
			}
			if !strings.Contains(talk, "MemberCluster east has no conditions of a hub") ||
				!strings.Contains(talk, "namespace shop is not given") {
				t.Errorf("notes %q", talk)
			}
		})
	}
}

// TestMistakes holds that each mistake in a file is one sentence with the file, the line, the object and what to do.
func TestMistakes(t *testing.T) {
	members := file(t, fleet)
	tests := []struct {
		name, file string
		want       []string
	}{
		{"unknown fields", "# a comment\n" + cloneSet("api", 1, "  replica: 3\n  maxSurge: 1\n"), []string{
			`line 11: CloneSet shop/api has an unknown field "spec.replica"; correct its name, or remove it (its value is 3)`,
			`line 12: CloneSet shop/api has an unknown field "spec.maxSurge"; correct its name, or remove it (its value is 1)`,
		}},
		{"a value of another type, in the second document",
			cloneSet("api", 1, "") + "---\n" + cloneSet("web", 1, "  minReadySeconds: soon\n"), []string{
				`line 20: CloneSet shop/web cannot be read: spec.minReadySeconds is "soon", but must be a whole number`,
			}},
		{"no name", "apiVersion: apps.kruise.io/v1beta1\nkind: CloneSet\n",
			[]string{"line 1: CloneSet has no metadata.name; give it one"}},
		{"no kind", "metadata: {name: x}\n", []string{"line 1: the object x has no apiVersion or no kind; give it both"}},
		{"no object", "- 1\n", []string{"line 1: this is no object"}},
		{"no YAML", "a: [\n", []string{"line 1: this is no valid YAML"}},
		{"a key twice", "a: 1\na: 2\n", []string{"line 2: this is no valid YAML", `key "a" already set in line 1`}},
		{"a namespace where there is none", strings.Replace(fleet, "{name: east}", "{name: east, namespace: x}", 1), []string{
			`line 3: MemberCluster x/east has metadata.namespace "x", but a MemberCluster has none; remove it`,
		}},
		{"nothing", "# nothing\n", []string{"no workload is in the files"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, _, err := run(t, NewCommand(), "--members", members, "-f", file(t, tt.file))
			if err == nil || out != "" {
				t.Fatalf("it is taken: %s", out)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q lacks %q", err, want)
				}
			}
		})
	}
	if _, _, err := run(t, NewCommand(), "--members", members, "-f", "/nowhere.yaml"); err == nil ||
		err.Error() != "/nowhere.yaml: no such file or directory" {
		t.Errorf("a file that is not there: %v", err)
	}
	for _, args := range [][]string{{}, {"--members", members, "-o", "xml"}} {
		if _, _, err := run(t, NewCommand(), args...); !errors.Is(err, console.ErrUsage) {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// TestLeftOut holds that an object of another kind is no mistake, but is named.
func TestLeftOut(t *testing.T) {
	text := cloneSet("api", 1, "") + "---\napiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: api}\n" +
		"---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: old, namespace: shop}\n" +
		"---\napiVersion: apps.kruise.io/v1alpha1\nkind: NodeImage\nmetadata: {name: node-1}\n"
	out, talk, err := run(t, NewCommand(), "--members", file(t, fleet), "-f", file(t, text), "-o", "json")
	if err != nil || !strings.Contains(out, `"placed": 1`) {
		t.Errorf("%v: %s", err, out)
	}
	for _, want := range []string{
		"line 11: Ingress api is left out: the hub decides nothing by a Ingress of networking.k8s.io/v1",
		"line 15: Deployment shop/old is left out: the hub's own cluster runs a Deployment of apps/v1, and nothing of it " +
			"goes to members",
		"line 19: NodeImage node-1 is left out: no hub places a NodeImage, which names a node of one cluster: apply the " +
			"NodeImage in the member that has it",
	} {
		if !strings.Contains(talk, want) {
			t.Errorf("notes %q lack %q", talk, want)
		}
	}
}

// TestNothingOfTheHub holds that files without anything for the hub change nothing: workloads of the fleet are not
// planned, and what is wrong with them is no error of the files.
func TestNothingOfTheHub(t *testing.T) {
	base := file(t, fleet+"---\n"+cloneSet("api", 4, "")+
		"---\n"+strings.ReplaceAll(cloneSet("lost", 1, ""), "shop", "lab"))
	out, talk, err := run(t, NewCommand(), "--members", base, "-f", file(t,
		"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: old, namespace: shop}\n"))
	if err != nil || strings.Contains(out, "CloneSet") || !strings.Contains(talk, "no workload of the fleet changes") {
		t.Errorf("%v: %q, %q", err, out, talk)
	}
}

// TestChanges holds that a plan over what is placed tells what changes, also of workloads that the files do not name.
func TestChanges(t *testing.T) {
	placed := `---
apiVersion: topology.flotilla.dev/v1alpha1
kind: WorkloadPlacement
metadata: {name: cloneset-api, namespace: shop, uid: p}
spec:
  workload: {apiVersion: apps.kruise.io/v1beta1, kind: CloneSet, name: api, uid: "", generation: 1}
  policy: {kind: ClusterFederationPolicy, name: everywhere}
  revision: x
  replicas: 4
  placed: 4
  sequence: 1
  revisionSequence: 1
  cells:
  - {cluster: east, replicas: 2, sequence: 1, reason: {code: Even}, share: {update: 2, break: 1, add: 0}, held: {update: 2, break: 1, add: 0}}
  - {cluster: west, replicas: 2, sequence: 1, reason: {code: Even}, share: {update: 2, break: 1, add: 0}, held: {update: 2, break: 1, add: 0}}
`
	base := file(t, fleet+"---\n"+cloneSet("api", 4, "")+placed)
	narrow := `apiVersion: topology.flotilla.dev/v1alpha1
kind: ClusterFederationPolicy
metadata: {name: everywhere}
spec: {workloads: [{kind: CloneSet}], clusters: {names: [west]}}
`
	out, _, err := run(t, NewCommand(), "--members", base, "-f", file(t, narrow))
	if err != nil || !strings.Contains(out, "4 replicas, 3 placed") ||
		!strings.Contains(out, "others stand in for 2 replicas of member east") ||
		!strings.Contains(out, "Excluded: the policy no longer selects the member") {
		t.Errorf("%v\n%s", err, out)
	}
}

// BenchmarkPlan plans 1 000 workloads on ten members; it is to take less than a second.
func BenchmarkPlan(b *testing.B) {
	scheme, err := hub.Scheme()
	if err != nil {
		b.Fatal(err)
	}
	reader, err := snapshot.NewReader(scheme, "shop")
	if err != nil {
		b.Fatal(err)
	}
	var text strings.Builder
	text.WriteString(fleet)
	for i := range 1000 {
		fmt.Fprintf(&text, "---\n%s", cloneSet(fmt.Sprintf("web-%d", i), 10+i%90, ""))
	}
	objects, _, err := reader.Read("fleet", []byte(text.String()))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		s := snapshot.New(scheme)
		if err := s.Put(objects...); err != nil {
			b.Fatal(err)
		}
		if _, err := s.Complete(); err != nil {
			b.Fatal(err)
		}
		f := foresight{fleet: s, before: s.Clone(), all: true}
		results, err := f.workloads(b.Context())
		if err != nil || len(results) != 1000 || !results[999].Complete {
			b.Fatalf("%d results, %v", len(results), err)
		}
	}
}

// TestPolicies holds that a policy of the files which would not hold is told, with the reason that it would have on the
// hub.
func TestPolicies(t *testing.T) {
	policy := func(spec string) string {
		return "---\napiVersion: topology.flotilla.dev/v1alpha1\nkind: FederationPolicy\nmetadata: {name: mine, namespace: " +
			"shop}\nspec: " + spec + "\n"
	}
	const placed = `---
apiVersion: topology.flotilla.dev/v1alpha1
kind: FederationPolicy
metadata: {name: first, namespace: shop}
spec: {workloads: [{kind: CloneSet}]}
---
apiVersion: topology.flotilla.dev/v1alpha1
kind: WorkloadPlacement
metadata: {name: cloneset-api, namespace: shop}
spec:
  workload: {apiVersion: apps.kruise.io/v1beta1, kind: CloneSet, name: api, uid: "", generation: 0}
  policy: {kind: FederationPolicy, name: first}
  revision: x
  replicas: 2
  placed: 0
  sequence: 1
  revisionSequence: 1
`
	for name, test := range map[string]struct{ fleet, policy, want string }{
		"good": {fleet, policy("{workloads: [{kind: CloneSet}]}"), ""},
		"no such kind": {fleet, policy("{workloads: [{kind: ClonSet}]}"),
			"FederationPolicy mine would not be Ready (UnknownKind): "},
		"no apiVersion": {fleet, policy("{workloads: [{kind: Deployment}]}"),
			"would not be Ready (RunsOnHub): FederationPolicy mine names Deployment (apps)"},
		"another group": {fleet, policy("{workloads: [{apiVersion: apps.kruise.io/v1beta1, kind: Deployment}]}"),
			"would not be Ready (UnknownKind): FederationPolicy mine names Deployment (apps.kruise.io; for the Deployment of " +
				"apps/v1 write apiVersion: apps/v1)"},
		"a kind of the hub": {fleet, policy("{workloads: [{apiVersion: apps/v1, kind: Deployment}]}"),
			"would not be Ready (RunsOnHub): FederationPolicy mine names Deployment (apps)"},
		"no such zone": {fleet, policy("{workloads: [{kind: CloneSet}], spread: {by: Zone, places: [{zone: q, max: " +
			"1}]}}"), "no member has zone q"},
		"held by another": {fleet + placed, policy("{workloads: [{kind: CloneSet, name: api}]}"),
			"would not be Ready (Conflicted): FederationPolicy mine selects CloneSet shop/api, which FederationPolicy first " +
				"holds already"},
		"no such member too": {fleet, policy("{workloads: [{kind: CloneSet}], spread: {places: [{cluster: north, max: 1}]}}"),
			"north"},
	} {
		t.Run(name, func(t *testing.T) {
			// Whether all replicas get a place is not the question here.
			_, talk, err := run(t, NewCommand(), "--members", file(t, test.fleet), "-f",
				file(t, cloneSet("api", 2, "")+test.policy))
			said := ""
			if err != nil {
				said = err.Error()
			}
			if !strings.Contains(said, test.want) || test.want == "" && strings.Contains(said+talk, "mine") {
				t.Errorf("said %q, want %q", said, test.want)
			}
		})
	}
}

// TestPlanOnABareHub holds that plan says nothing else of a Deployment than a hub whose cluster runs none.
func TestPlanOnABareHub(t *testing.T) {
	const deployment = "---\n{apiVersion: apps/v1, kind: Deployment, metadata: {name: native, namespace: shop}, spec: " +
		"{}}\n" +
		"---\n{apiVersion: topology.flotilla.dev/v1alpha1, kind: FederationPolicy, metadata: {name: mine, namespace: " +
		"shop}, spec: {workloads: [{apiVersion: apps/v1, kind: Deployment}]}}\n"
	for flag, want := range map[string]string{"--hub-runs-workloads": "RunsOnHub",
		"--hub-runs-workloads=false": "each member that a policy selects gets the whole of it"} {
		_, talk, err := run(t, NewCommand(), "--members", file(t, fleet), "-f", file(t, cloneSet("api", 2, "")+deployment),
			flag)
		said := talk
		if err != nil {
			said += err.Error()
		}
		if !strings.Contains(talk, "Deployment shop/native is left out") || !strings.Contains(said, want) ||
			strings.Contains(said, "RunsOnHub") != (flag == "--hub-runs-workloads") {
			t.Errorf("%s: said %q", flag, said)
		}
	}
}
