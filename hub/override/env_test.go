package override

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// kindsOf are manifests with one pod template; %s is its spec.
func kindsOf() map[string]string {
	const workload = `{"apiVersion": %q, "kind": %q, "metadata": {"name": "web"}, "spec": {"template": `
	kindsOf := map[string]string{}
	for kind, version := range map[string]string{
		"CloneSet": "apps.kruise.io/v1beta1", "Deployment": "apps/v1", "StatefulSet": "apps/v1", "DaemonSet": "apps/v1",
		"Job": "batch/v1",
	} {
		kindsOf[kind] = fmt.Sprintf(workload, version, kind) + `{"spec": %s}}}`
	}
	for _, child := range []string{"cloneSetTemplate", "deploymentTemplate", "statefulSetTemplate"} {
		kindsOf["UnitedDeployment of "+child] = fmt.Sprintf(workload, "apps.kruise.io/v1beta1", "UnitedDeployment") +
			`{"` + child + `": {"spec": {"template": {"spec": %s}}}}}}`
	}
	kindsOf["CronJob"] = `{"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "web"},
		"spec": {"jobTemplate": {"spec": {"template": {"spec": %s}}}}}`
	return kindsOf
}

// effective is the environment that a kubelet gives a container: entries in their order, a later one of a name wins,
// and $(NAME) is the value that NAME has by then.
func effective(env []corev1.EnvVar) map[string]string {
	values, reference := map[string]string{}, regexp.MustCompile(`\$\([A-Z]\)`)
	for _, e := range env {
		values[e.Name] = reference.ReplaceAllStringFunc(e.Value, func(text string) string {
			if value, ok := values[text[2:len(text)-1]]; ok {
				return value
			}
			return text
		})
	}
	return values
}

func randomEnv(r *rand.Rand, n int) []corev1.EnvVar {
	env := make([]corev1.EnvVar, 0, n)
	for i := range n {
		e := corev1.EnvVar{Name: string(rune('A' + r.IntN(4))), Value: fmt.Sprint("v", i)}
		if r.IntN(3) == 0 {
			e.Value = "$(" + string(rune('A'+r.IntN(4))) + ")"
		}
		env = append(env, e)
	}
	return env
}

// withLast returns the list with the last entry of a name replaced, or with a new one at its end.
func withLast(env []corev1.EnvVar, e corev1.EnvVar) []corev1.EnvVar {
	env = append([]corev1.EnvVar{}, env...)
	for i := len(env) - 1; i >= 0; i-- {
		if env[i].Name == e.Name {
			env[i] = e
			return env
		}
	}
	return append(env, e)
}

func TestCase16OverrideOfAVariableHoldsWhereItsNameIsListedTwice(t *testing.T) {
	for kind, manifest := range kindsOf() {
		t.Run(kind, func(t *testing.T) {
			r := rand.New(rand.NewPCG(16, 24))
			for range 300 {
				lists := map[string][]corev1.EnvVar{"web": randomEnv(r, r.IntN(7)), "init": randomEnv(r, r.IntN(7))}
				spec := corev1.PodSpec{
					InitContainers: []corev1.Container{{Name: "init", Env: lists["init"]}},
					Containers:     []corev1.Container{{Name: "web", Env: lists["web"]}},
				}
				var entry topology.Override
				for _, e := range randomEnv(r, 1+r.IntN(3)) {
					only := []string{"", "web", "init"}[r.IntN(3)]
					entry.Env = append(entry.Env, topology.EnvOverride{Container: only, Name: e.Name, Value: e.Value})
					for name := range lists {
						if only == "" || only == name {
							lists[name] = withLast(lists[name], e)
						}
					}
				}
				after := podSpec(t, manifest, spec, entry)
				for _, c := range append(after.InitContainers, after.Containers...) {
					if diff := cmp.Diff(effective(lists[c.Name]), effective(c.Env)); diff != "" {
						t.Fatalf("%+v over container %s, now %+v: %s", entry.Env, c.Name, c.Env, diff)
					}
					raw := map[string]string{}
					for _, e := range c.Env {
						raw[e.Name] = e.Value
					}
					want := map[string]string{}
					for _, e := range entry.Env {
						if e.Container == "" || e.Container == c.Name {
							want[e.Name] = e.Value
						}
					}
					for name, value := range want {
						if raw[name] != value {
							t.Fatalf("%s of container %s is %q, want %q of the override", name, c.Name, raw[name], value)
						}
					}
				}
			}
		})
	}
}

// podSpec returns the spec of the manifest's pod template after the override.
func podSpec(t *testing.T, manifest string, spec corev1.PodSpec, entry topology.Override) *corev1.PodSpec {
	t.Helper()
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	out, misfit, err := applyGuarded(fmt.Appendf(nil, manifest, text), []Entry{{Override: entry}})
	if err != nil || misfit != nil {
		t.Fatal(misfit, err)
	}
	tree, err := read(out)
	if err != nil {
		t.Fatal(err)
	}
	return findPodSpec(t, tree)
}

func findPodSpec(t *testing.T, v any) *corev1.PodSpec {
	tree, _ := v.(map[string]any)
	if tree["containers"] != nil {
		text, err := json.Marshal(tree)
		if err != nil {
			t.Fatal(err)
		}
		spec := &corev1.PodSpec{}
		if err := json.Unmarshal(text, spec); err != nil {
			t.Fatal(err)
		}
		return spec
	}
	for _, part := range tree {
		if found := findPodSpec(t, part); found != nil {
			return found
		}
	}
	return nil
}

// TestCase16OverrideHoldsOverThePatchOfASubset merges the patch of a subset as the member does after the override.
func TestCase16OverrideHoldsOverThePatchOfASubset(t *testing.T) {
	tests := []struct{ name, template, patch, want string }{
		{"the patch does not name it", `[{"name": "B", "value": "b"}]`, `{"name": "web", "image": "web:2"}`, "A=new B=b"},
		{"the patch sets it", `[{"name": "A", "value": "old"}]`, `{"name": "web", "env": [{"name": "A", "value": "patch"}]}`,
			"A=new"},
		{"the patch sets it twice", `[]`,
			`{"name": "web", "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}`, "A=new"},
		{"the patch deletes it", `[{"name": "A", "value": "old"}]`,
			`{"name": "web", "env": [{"name": "A", "$patch": "delete"}]}`, "A=new"},
		{"the patch replaces the list", `[{"name": "B", "value": "b"}]`,
			`{"name": "web", "env": [{"$patch": "replace"}, {"name": "C", "value": "c"}]}`, "A=new C=c"},
		{"the patch removes the list", `[{"name": "B", "value": "b"}]`, `{"name": "web", "env": null}`, "A=new"},
		{"the patch gives an order", `[{"name": "B", "value": "b"}]`,
			`{"name": "web", "$setElementOrder/env": [{"name": "C"}], "env": [{"name": "C", "value": "c"}]}`, "A=new B=b C=c"},
		{"the patch retains fields", `[{"name": "B", "value": "b"}]`,
			`{"name": "web", "image": "web:2", "$retainKeys": ["name", "image"]}`, "A=new"},
	}
	entry := topology.Override{Env: []topology.EnvOverride{{Name: "A", Value: "new"}}, ImageRegistry: "mirror.example"}
	for _, test := range tests {
		spec := `{"containers": [{"name": "web", "image": "web:1", "env": ` + test.template + `}]}`
		patch := `{"spec": {"containers": [` + test.patch + `]}}`
		subsets := `[{"name": "a", "patch": ` + patch + `}]`
		quoted, err := json.Marshal(`{"name": "spread", "subsets": ` + subsets + `}`)
		if err != nil {
			t.Fatal(err)
		}
		for kind, manifest := range map[string]string{
			"UnitedDeployment": `{"kind": "UnitedDeployment", "spec": {"topology": {"subsets": ` + subsets + `},
				"template": {"cloneSetTemplate": {"spec": {"template": {"spec": ` + spec + `}}}}}}`,
			"CloneSet with a WorkloadSpread": `{"kind": "CloneSet", "metadata": {"annotations": {"topology.flotilla.dev/spread": ` +
				string(quoted) + `}}, "spec": {"template": {"spec": ` + spec + `}}}`,
		} {
			t.Run(kind+"/"+test.name, func(t *testing.T) {
				out, misfit, err := applyGuarded([]byte(manifest), []Entry{{Override: entry}})
				if err != nil || misfit != nil {
					t.Fatal(misfit, err)
				}
				merged := mergeSubset(t, out)
				var have []string
				for _, name := range []string{"A", "B", "C"} {
					if value, ok := effective(merged.Env)[name]; ok {
						have = append(have, name+"="+value)
					}
				}
				if got := strings.Join(have, " "); got != test.want {
					t.Errorf("environment %q, want %q", got, test.want)
				}
				if merged.Image != "" && !strings.HasPrefix(merged.Image, "mirror.example/web:") {
					t.Errorf("image %q is not of the registry", merged.Image)
				}
			})
		}
	}
}

// mergeSubset returns the container of the manifest with the patch of its subset.
func mergeSubset(t *testing.T, manifest []byte) corev1.Container {
	t.Helper()
	var object struct {
		Metadata struct{ Annotations map[string]string }
		Spec     struct {
			Topology struct {
				Subsets []struct{ Patch json.RawMessage }
			}
			Template json.RawMessage
		}
	}
	if err := json.Unmarshal(manifest, &object); err != nil {
		t.Fatal(err)
	}
	subsets := object.Spec.Topology.Subsets
	if text, ok := object.Metadata.Annotations[topology.AnnotationSpread]; ok {
		var part struct {
			Subsets []struct{ Patch json.RawMessage }
		}
		if err := json.Unmarshal([]byte(text), &part); err != nil {
			t.Fatal(err)
		}
		subsets = part.Subsets
	}
	var template any
	if err := json.Unmarshal(object.Spec.Template, &template); err != nil {
		t.Fatal(err)
	}
	before, err := json.Marshal(corev1.PodTemplateSpec{Spec: *findPodSpec(t, template)})
	if err != nil {
		t.Fatal(err)
	}
	after, err := strategicpatch.StrategicMergePatch(before, subsets[0].Patch, corev1.PodTemplateSpec{})
	if err != nil {
		t.Fatal(err)
	}
	var pods corev1.PodTemplateSpec
	if err := json.Unmarshal(after, &pods); err != nil {
		t.Fatal(err)
	}
	return pods.Spec.Containers[0]
}
