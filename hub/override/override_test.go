package override

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

const cloneSet = `
apiVersion: apps.kruise.io/v1beta1
kind: CloneSet
metadata: {name: web, namespace: shop, annotations: {note: a}}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  updateStrategy: {type: InPlaceIfPossible, rollingUpdate: {partition: 1, maxUnavailable: 1}}
  template:
    metadata: {labels: {app: web}}
    spec:
      initContainers: [{name: init, image: "busybox:1"}]
      containers:
      - {name: web, image: "docker.io/library/nginx:1.27", env: [{name: REGION, value: none}, {name: KEEP, value: it}]}
      - {name: proxy, image: "team/proxy@sha256:abc"}
`

const unitedDeployment = `
apiVersion: apps.kruise.io/v1beta1
kind: UnitedDeployment
metadata: {name: web, namespace: shop, annotations: {topology.flotilla.dev/subset-limits: "{}"}}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  template:
    cloneSetTemplate:
      spec:
        updateStrategy: {rollingUpdate: {maxUnavailable: 1}}
        template: {spec: {containers: [{name: web, image: "localhost/web:1"}]}}
  topology:
    subsets:
    - {name: a, replicas: 2, patch: {spec: {containers: [{name: web, image: "registry:5000/web:2"}]}}}
`

// TestApply carries out one override on a manifest; want is what differs, by path, or what the misfit says.
func TestApply(t *testing.T) {
	tests := []struct {
		name, manifest, override string
		want                     map[string]any
		misfit                   []string
	}{
		{name: "registry", manifest: cloneSet, override: `{imageRegistry: "mirror.example:5000/hub"}`, want: map[string]any{
			"spec.template.spec.initContainers.0.image": "mirror.example:5000/hub/busybox:1",
			"spec.template.spec.containers.0.image":     "mirror.example:5000/hub/library/nginx:1.27",
			"spec.template.spec.containers.1.image":     "mirror.example:5000/hub/team/proxy@sha256:abc",
		}},
		{name: "registry, also in the patch of a subset", manifest: unitedDeployment, override: `{imageRegistry: m.example}`,
			want: map[string]any{
				"spec.template.cloneSetTemplate.spec.template.spec.containers.0.image": "m.example/web:1",
				"spec.topology.subsets.0.patch.spec.containers.0.image":                "m.example/web:2",
			}},
		{name: "env of all containers", manifest: cloneSet, override: `{env: [{name: REGION, value: eu}]}`,
			want: map[string]any{
				"spec.template.spec.initContainers.0.env": []any{map[string]any{"name": "REGION", "value": "eu"}},
				"spec.template.spec.containers.0.env": []any{map[string]any{"name": "REGION", "value": "eu"},
					map[string]any{"name": "KEEP", "value": "it"}},
				"spec.template.spec.containers.1.env": []any{map[string]any{"name": "REGION", "value": "eu"}},
			}},
		{name: "env of one container", manifest: cloneSet, override: `{env: [{container: proxy, name: A}]}`,
			want: map[string]any{
				"spec.template.spec.containers.1.env": []any{map[string]any{"name": "A", "value": ""}},
			}},
		{name: "labels and annotations", manifest: cloneSet, override: `{labels: {team: shop}, annotations: {note: b}}`,
			want: map[string]any{
				"metadata.labels": map[string]any{"team": "shop"}, "metadata.annotations.note": "b",
			}},
		{name: "patch", manifest: cloneSet, override: `{patch: [{op: test, path: /spec/replicas, value: 4}, {op: add, path: /spec/template/spec/priorityClassName, value: high}]}`,
			want: map[string]any{"spec.template.spec.priorityClassName": "high"}},
		{name: "patch after the rest", manifest: cloneSet,
			override: `{imageRegistry: a, patch: [{op: replace, path: /spec/template/spec/containers/0/image, value: "own:1"}, {op: remove, path: /spec/template/spec/initContainers}]}`,
			want: map[string]any{"spec.template.spec.containers.0.image": "own:1",
				"spec.template.spec.containers.1.image": "a/team/proxy@sha256:abc", "spec.template.spec.initContainers": nil}},
		{name: "a test that fails", manifest: cloneSet, override: `{patch: [{op: test, path: /spec/replicas, value: 5}]}`,
			misfit: []string{"patch[0] (test /spec/replicas) does not fit", "correct the path or the value"}},
		{name: "a path that is not there", manifest: cloneSet,
			override: `{patch: [{op: remove, path: /spec/template/spec/nodeName}]}`,
			misfit:   []string{"patch[0] (remove /spec/template/spec/nodeName) does not fit"}},
		{name: "a pointer that is none", manifest: cloneSet,
			override: `{patch: [{op: replace, path: "/spec/template/spec/containers/seven/image", value: a}]}`,
			misfit:   []string{"patch[0] (replace"}},
		{name: "replicas by their parent", manifest: cloneSet,
			override: `{patch: [{op: replace, path: /spec, value: {replicas: 9}}]}`,
			misfit:   []string{"changes spec.replicas", "take that out"}},
		{name: "partition", manifest: cloneSet, override: `{patch: [{op: replace, path: /spec/updateStrategy/rollingUpdate/partition, value: 0}]}`, misfit: []string{"rollingUpdate.partition"}},
		{name: "pause by its parent", manifest: cloneSet,
			override: `{patch: [{op: add, path: /spec/updateStrategy, value: {rollingUpdate: {partition: 1, maxUnavailable: 1, paused: true}}}]}`, misfit: []string{"rollingUpdate.paused"}},
		{name: "the type of update is open", manifest: cloneSet,
			override: `{patch: [{op: replace, path: /spec/updateStrategy/type, value: ReCreate}]}`,
			want:     map[string]any{"spec.updateStrategy.type": "ReCreate"}},
		{name: "limits of children", manifest: unitedDeployment,
			override: `{patch: [{op: replace, path: /spec/template/cloneSetTemplate/spec/updateStrategy/rollingUpdate/maxUnavailable, value: 9}]}`, misfit: []string{"rollingUpdate.maxUnavailable"}},
		{name: "numbers of subsets", manifest: unitedDeployment,
			override: `{patch: [{op: replace, path: /spec/topology/subsets/0/replicas, value: 9}]}`,
			misfit:   []string{"spec.topology"}},
		{name: "a mark of the hub", manifest: unitedDeployment,
			override: `{patch: [{op: remove, path: /metadata/annotations}]}`,
			misfit:   []string{"metadata.annotations of topology.flotilla.dev"}},
		{name: "the name", manifest: cloneSet, override: `{patch: [{op: replace, path: /metadata/name, value: other}]}`,
			misfit: []string{"metadata.name"}},
		{name: "the whole", manifest: cloneSet, override: `{patch: [{op: replace, path: "", value: [1]}]}`,
			misfit: []string{"no object"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			manifest := toJSON(t, test.manifest)
			entries := []Entry{{Index: 3, Override: parse(t, test.override)}}
			got, misfit, err := applyGuarded(manifest, entries)
			if err != nil {
				t.Fatal(err)
			}
			if (misfit != nil) != (test.misfit != nil) {
				t.Fatalf("misfit %+v, want %q", misfit, test.misfit)
			}
			for _, words := range test.misfit {
				if misfit.Index != 3 || !strings.Contains(misfit.Problem, words) {
					t.Errorf("misfit %+v lacks %q", misfit, words)
				}
			}
			if misfit != nil {
				return
			}
			before, _ := read(manifest)
			after, err := read(got)
			if err != nil {
				t.Fatal(err)
			}
			for path, value := range test.want {
				if diff := cmp.Diff(value, dig(after, path)); diff != "" {
					t.Errorf("%s: %s", path, diff)
				}
				put(before, path, nil)
				put(after, path, nil)
			}
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("something else changed: %s", diff)
			}
			again, _, err := applyGuarded(manifest, entries)
			if err != nil || string(again) != string(got) {
				t.Errorf("the same input gives other bytes: %s", again)
			}
		})
	}
}

func TestFor(t *testing.T) {
	member := func(name string, zones ...string) topology.MemberCluster {
		m := topology.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"stage": "prod"}}}
		for _, zone := range zones {
			m.Status.Zones = append(m.Status.Zones, topology.Zone{Name: zone, Nodes: 1})
		}
		return m
	}
	overrides := []topology.Override{
		parse(t, `{imageRegistry: all}`),
		parse(t, `{clusters: {names: [east]}, imageRegistry: east}`),
		parse(t, `{clusters: {selector: {matchLabels: {stage: prod}}}, zones: [a], imageRegistry: a}`),
		parse(t, `{clusters: {selector: {matchLabels: {stage: test}}}, imageRegistry: none}`),
	}
	for _, test := range []struct {
		member topology.MemberCluster
		want   []int
	}{
		{member("east", "a"), []int{0, 1, 2}},
		{member("east", "a", "b"), []int{0, 1}},
		{member("west", "a"), []int{0, 2}},
		{member("west"), []int{0}},
		{member("west", ""), []int{0}},
	} {
		var have []int
		for _, e := range For(overrides, &test.member) {
			have = append(have, e.Index)
		}
		if diff := cmp.Diff(test.want, have); diff != "" {
			t.Errorf("%s %v: %s", test.member.Name, test.member.Status.Zones, diff)
		}
	}
	said := Partly(overrides, []topology.MemberCluster{member("west", "b", "c"), member("south", "a", "d")})
	if len(said) != 1 || !strings.Contains(said[0], `overrides[2] names zone "a", and member south has zone "d" too`) {
		t.Errorf("said %q", said)
	}
}

func TestHash(t *testing.T) {
	hash := func(overrides ...string) string {
		var entries []Entry
		for i, o := range overrides {
			entries = append(entries, Entry{i, parse(t, o)})
		}
		h, err := Hash(entries)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	if hash() != "" {
		t.Error("no override has a hash")
	}
	a := hash(`{imageRegistry: a}`)
	if a == "" || a != hash(`{clusters: {names: [east]}, imageRegistry: a}`) {
		t.Error("whom else an override holds for changes its hash")
	}
	if a == hash(`{imageRegistry: b}`) || hash(`{imageRegistry: a}`, `{imageRegistry: b}`) == hash(`{imageRegistry: b}`,
		`{imageRegistry: a}`) {
		t.Error("the content or the order does not change the hash")
	}
}

func TestCheck(t *testing.T) {
	wrong := parse(t, `{imageRegistry: a}`)
	wrong.Clusters.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a",
		Operator: "Equals", Values: []string{"b"}}}}
	if misfit := Check([]topology.Override{{}, wrong}); misfit == nil || misfit.Index != 1 ||
		!strings.Contains(misfit.Problem, "clusters.selector cannot be read") {
		t.Errorf("misfit %+v", misfit)
	}
	for text, words := range map[string]string{
		`{labels: {"a b": x}}`:                       `its label "a b" with the value "x" is none`,
		`{labels: {team: "shop and more"}}`:          `its label "team" with the value "shop and more" is none`,
		`{annotations: {"a b": x}}`:                  `its annotation "a b" is none`,
		`{env: [{name: OK}, {name: A=B, value: x}]}`: `correct env[1].name`,
	} {
		if misfit := Check([]topology.Override{{}, parse(t, text)}); misfit == nil || misfit.Index != 1 ||
			!strings.Contains(misfit.Problem, words) {
			t.Errorf("%s: misfit %+v lacks %q", text, misfit, words)
		}
	}
	fine := parse(t, `{labels: {example.com/team: ""}, annotations: {example.com/note: "any text, also this"}, env: [{name: my.variable-1}]}`)
	if misfit := Check([]topology.Override{{}, fine}); misfit != nil {
		t.Errorf("misfit %+v", misfit)
	}
}

// FuzzPatch holds that no patch changes what is guarded, and that none panics.
func FuzzPatch(f *testing.F) {
	for _, seed := range [][3]string{{"replace", "/spec/replicas", "9"}, {"add", "/spec", `{"replicas":4}`},
		{"remove", "/metadata", ""}, {"add", "/spec/template/spec/containers/-", "{}"}} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, op, path, value string) {
		manifest := toJSON(t, cloneSet)
		o := topology.Override{Patch: []topology.PatchOperation{{Op: topology.PatchOp(op), Path: path,
			Value: runtime.RawExtension{Raw: []byte(value)}}}}
		got, misfit, err := applyGuarded(manifest, []Entry{{Override: o}})
		if err != nil || misfit != nil {
			return
		}
		before, _ := read(manifest)
		after, err := read(got)
		if err != nil {
			t.Fatal(err)
		}
		if path := touched(before, after, guardedIn(manifest)); path != "" {
			t.Errorf("%s changed", path)
		}
	})
}

func parse(t testing.TB, text string) topology.Override {
	t.Helper()
	var o topology.Override
	if err := yaml.UnmarshalStrict([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

func toJSON(t testing.TB, text string) []byte {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// dig returns what stands at a path, put sets it; numbers are places in lists.
func dig(v any, path string) any {
	for _, key := range strings.Split(path, ".") {
		switch t := v.(type) {
		case map[string]any:
			v = t[key]
		case []any:
			v = t[key[0]-'0']
		}
	}
	return v
}

func put(v any, path string, value any) {
	at := strings.LastIndex(path, ".")
	if tree, ok := dig(v, path[:at]).(map[string]any); ok {
		delete(tree, path[at+1:])
		if value != nil {
			tree[path[at+1:]] = value
		}
	}
}
