package plan

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"
)

// folder writes files by their paths, and returns their folder.
func folder(t *testing.T, texts map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range texts {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

const chart = "apiVersion: v2\nname: web\nversion: 1.0.0\n"

// TestCase16FilesOfOtherToolsInAFolderAreLeftOut: each file beside a CloneSet is left out with a note, and the CloneSet
// is planned.
func TestCase16FilesOfOtherToolsInAFolderAreLeftOut(t *testing.T) {
	const patch = "apiVersion: apps.kruise.io/v1beta1\nkind: CloneSet\nmetadata: {name: api}\nspec: {replicas: 9}\n"
	tests := []struct {
		name  string
		files map[string]string
		notes []string // parts of one note each; DIR is the folder
	}{
		{"kustomization", map[string]string{
			"kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [web.yaml]\n",
		}, []string{"DIR/kustomization.yaml, line 1: left out", "kubectl kustomize DIR | flotilla plan -f -"}},
		{"kustomization without kind", map[string]string{
			"kustomization.yml": "resources: [web.yaml]\npatches: [{path: more.yaml}]\n", "more.yaml": patch,
		}, []string{"DIR/more.yaml: left out", "kubectl kustomize DIR |"}},
		{"kustomization without extension", map[string]string{
			"Kustomization": "resources: [web.yaml]\npatches: [{path: more.yaml}]\n", "more.yaml": patch,
		}, []string{"DIR/more.yaml: left out", "kubectl kustomize DIR |"}},
		{"component with a name", map[string]string{
			"kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nmetadata: {name: x}\n",
		}, []string{"DIR/kustomization.yaml, line 1: left out: this is a kustomization", "kubectl kustomize DIR |"}},
		{"patches of a kustomization", map[string]string{
			"kustomization.yaml": "resources: [web.yaml]\npatches: [{path: more.yaml}]\npatchesJson6902: [{path: steps.json}]\n",
			"more.yaml":          patch,
			"steps.json":         `[{"op": "replace", "path": "/spec/replicas", "value": 9}]`,
		}, []string{"DIR/more.yaml: left out", "DIR/steps.json: left out", "kubectl kustomize DIR |"}},
		{"a patch without kustomization", map[string]string{
			"more.yaml":  strings.ReplaceAll(patch, "9}", "9, template: {spec: {$patch: replace}}}"),
			"steps.yaml": "- {op: remove, path: /spec/replicas}\n",
		}, []string{"DIR/more.yaml, line 1: left out", "DIR/steps.yaml, line 1: left out: this is no object, but a JSON " +
			"patch"}},
		{"chart", map[string]string{"Chart.yaml": chart, "values.yaml": "replicas: 3\nimage: {tag: x}\n",
			"values-prod.yml":   "replicas: 9\n",
			"requirements.yaml": "dependencies: []\n", "values.schema.json": `{"type": "object"}`, "Chart.lock": "digest: x\n"},
			[]string{"DIR/Chart.yaml, line 1: left out: this describes a Helm chart",
				"DIR/values.yaml, line 1: left out: the object has no apiVersion or no kind", "DIR/values-prod.yml, line 1",
				"DIR/requirements.yaml, line 1",
				"DIR/values.schema.json, line 1", "helm template DIR | flotilla plan -f -"}},
		{"kustomization beside a chart", map[string]string{"Chart.yaml": chart, "values.yaml": "a: b\n",
			"kustomization.yaml": "resources: [web.yaml]\n"},
			[]string{"DIR/values.yaml, line 1: left out", "kubectl kustomize DIR |", "helm template DIR |"}},
		{"template", map[string]string{"t.yaml": "{{- if .Values.on }}\napiVersion: apps.kruise.io/v1beta1\nkind: " +
			"CloneSet\n{{- end }}\n"},
			[]string{"DIR/t.yaml, line 1: left out: this is a template", "render it first"}},
		{"template in valid YAML", map[string]string{"t.yaml": strings.ReplaceAll(cloneSet("x", 1, ""), "name: x,",
			`name: "{{ .Release.Name }}",`)},
			[]string{`DIR/t.yaml, line 1: left out: this is a template, "{{ .Release.Name }}" is not filled in`}},
		{"value of a template, beside a mistake", map[string]string{
			"t.yaml": strings.ReplaceAll(cloneSet("x", 1, "  minReadySeconds: soon\n"), "replicas: 1",
				`replicas: "{{ .Values.replicas }}"`),
		}, []string{"DIR/t.yaml, line 5: left out"}},
		{"settings of other programs", map[string]string{
			"docker-compose.yaml": "version: '3'\nservices: {web: {image: web}}\n", "ci.yml": "name: ci\non: [push]\njobs: {}\n",
			"skaffold.yaml": "apiVersion: skaffold/v4beta6\nkind: Config\nmetadata: {}\n", "mkdocs.yml": "site_name: x\n",
			"drone.yml": "kind: pipeline\ntype: docker\nname: default\n", "package.json": "{\n\t\"name\": \"web\"\n}\n",
			"list.yaml": "- a\n- b\n",
			"text.yaml": "hello\n", "tsconfig.json": "{ // comment\n}\n", "dev.yaml": "version: v2beta1\nname: x\n",
			"kubeconfig.yaml": "apiVersion: v1\nkind: Config\nclusters: []\n",
			"tool.yaml":       "apiVersion: tool.example/v1\nsettings: {}\n",
		}, []string{"docker-compose.yaml, line 1", "ci.yml, line 1", "skaffold.yaml, line 1", "mkdocs.yml, line 1",
			"drone.yml, line 1", "package.json, line 1", "list.yaml, line 1", "text.yaml, line 1", "tsconfig.json, line 1",
			"dev.yaml, line 1", "kubeconfig.yaml, line 1", "tool.yaml, line 1"}},
		{"nothing to say", map[string]string{"empty.yaml": "", "comment.yaml": "# a\n---\n# b\n", "mark.yaml": "\ufeff",
			"README.md": "x: [", "run.sh": "{{"}, nil},
		{"hidden", map[string]string{".gitlab-ci.yml": "stages: []\n"}, []string{"DIR/.gitlab-ci.yml: left out"}},
		{"other objects", map[string]string{"in.yaml": "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: " +
			"api}\n",
			"crd.yaml":  "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: xs.y}\n",
			"list.yaml": "apiVersion: traefik.io/v1alpha1\nkind: IPAllowList\nmetadata: {name: x}\nspec: {}\n"},
			[]string{"in.yaml, line 1: Ingress api is left out", "crd.yaml, line 1: CustomResourceDefinition xs.y is left out",
				"IPAllowList x is left out"}},
	}
	members := file(t, fleet)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.files["web.yaml"] = cloneSet("api", 3, "")
			root := folder(t, test.files)
			out, talk, err := run(t, NewCommand(), "--members", members, "-f", root)
			if err != nil || !strings.Contains(out, "CloneSet shop/api: 3 replicas, 3 placed") {
				t.Fatalf("%v: %s", err, out)
			}
			for _, want := range test.notes {
				if !strings.Contains(talk, strings.ReplaceAll(want, "DIR", root)) {
					t.Errorf("notes lack %q:\n%s", want, talk)
				}
			}
			if len(test.notes) == 0 && strings.Contains(talk, root) {
				t.Errorf("notes without need:\n%s", talk)
			}
		})
	}
}

// TestCase16EveryMistakeOfAFolderIsToldAtOnce with its file, line, path and value, and the rest is planned.
func TestCase16EveryMistakeOfAFolderIsToldAtOnce(t *testing.T) {
	root := folder(t, map[string]string{
		"kustomization.yaml": "resources: [a.yaml]\n",
		"Chart.yaml":         chart,
		"values.yaml":        "replicas: 3\n",
		"a.yaml": cloneSet("a", 1, "  replica: 3\n  minReadySeconds: soon\n") + "---\n# the second\n" +
			cloneSet("good", 2, ""),
		"b.yaml": strings.ReplaceAll(cloneSet("b", 1, ""), "image: web:1",
			"image: 7, env: [{name: A, value: 1}, {name: B, value: true}],"+
				" resources: {requests: {cpu: much}}, ports: [{containerPort: \"80\"}]"),
		"c.yaml": strings.ReplaceAll(cloneSet("c", 1, ""), "replicas: 1", "replicas: -1"),
		"d.yaml": "apiVersion: apps.kruise.io/v1beta1\nkind: CloneSet\nmetadata:\n  name: d\n\tnamespace: shop\n",
		"e.yaml": "apiVersion: apps.kruise.io/v1beta1\nkind: CloneSet\nmetadata: {name: ''}\nspec: {}\n",
		"f.json": `{"apiVersion": "v1", "kind": "List", "items": [` + "\n" +
			`{"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "metadata": {"name": 5}}]}`,
		"g.yaml": "kind: CloneSet\nmetadata: {name: g}\n",
		"h.yaml": "apiVersion: apps.kruise.io/v1beta1\nkind: CloneSet\nmetadata:\n  name: h\n  namespace: shop\nspec:\n " +
			"replicas: 1\n  selector: {}\n",
		"i.yaml":    cloneSet("i", 1, "  replicas: 2\n"),
		"crlf.yaml": strings.ReplaceAll(cloneSet("crlf", 1, "  replica: 3\n"), "\n", "\r\n"),
	})
	if err := os.Symlink("nowhere.yaml", filepath.Join(root, "link.yaml")); err != nil {
		t.Fatal(err)
	}
	out, talk, err := run(t, NewCommand(), "--members", file(t, fleet), "-f", root)
	if err == nil || !strings.Contains(out, "CloneSet shop/good: 2 replicas, 2 placed") {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{
		`a.yaml, line 10: CloneSet shop/a has an unknown field "spec.replica"; correct its name, or remove it ` +
			`(its value is 3)`,
		`a.yaml, line 11: CloneSet shop/a cannot be read: spec.minReadySeconds is "soon", but must be a whole number`,
		`b.yaml, line 9: CloneSet shop/b cannot be read: spec.template.spec.containers[0].image is 7, but must be a string`,
		`spec.template.spec.containers[0].env[0].value is 1, but must be a string: write it in quotes`,
		`spec.template.spec.containers[0].env[1].value is true, but must be a string: write it in quotes`,
		`spec.template.spec.containers[0].resources.requests.cpu is "much"`,
		`spec.template.spec.containers[0].ports[0].containerPort is "80", but must be a whole number`,
		`c.yaml, line 5: CloneSet shop/c: spec.replicas: Invalid value: -1`,
		`d.yaml, line 5: this is no valid YAML: a tab indents "namespace: shop"`,
		`e.yaml, line 3: CloneSet has no metadata.name; give it one`,
		`f.json, line 2: CloneSet cannot be read: metadata.name is 5, but must be a string`,
		`g.yaml, line 1: CloneSet g has no apiVersion or no kind; give it both`,
		`h.yaml, line 8: this is no valid YAML`,
		`i.yaml, line 10: this is no valid YAML: key "replicas" already set in line 5 (spec.replicas is 2)`,
		`crlf.yaml, line 10: CloneSet shop/crlf has an unknown field "spec.replica"`,
		"link.yaml",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("mistakes lack %q:\n%v", want, err)
		}
	}
	for _, want := range []string{"kubectl kustomize " + root, "helm template " + root} {
		if !strings.Contains(talk, want) {
			t.Errorf("notes lack %q:\n%s", want, talk)
		}
	}
}

// TestCase16MistakesThatOthersDependOnStopThePlan: a plan without a policy would mislead, and so would one of half of a
// named file.
func TestCase16MistakesThatOthersDependOnStopThePlan(t *testing.T) {
	const policy = "apiVersion: topology.flotilla.dev/v1alpha1\nkind: FederationPolicy\nmetadata: {name: p}\nspec: " +
		"{workload: []}\n"
	members := file(t, fleet)
	for name, args := range map[string][]string{
		"a policy": {"-f", folder(t, map[string]string{"p.yaml": policy, "web.yaml": cloneSet("api", 3, "")})},
		"a policy without YAML": {"-f", folder(t, map[string]string{"p.yaml": strings.ReplaceAll(policy, "]", ""),
			"web.yaml": cloneSet("api", 3, "")})},
		"a named file":          {"-f", file(t, cloneSet("api", 3, "")+"---\n"+cloneSet("b", 1, "  replica: 3\n"))},
		"a named kustomization": {"-f", file(t, "resources: []\n"), "-f", file(t, cloneSet("api", 3, ""))},
		"a URL":                 {"-f", "https://example.com/web.yaml", "-f", file(t, cloneSet("api", 3, ""))},
	} {
		t.Run(name, func(t *testing.T) {
			if out, _, err := run(t, NewCommand(), append([]string{"--members", members}, args...)...); err == nil || out != "" {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// TestCase16NamedFilesOfOtherToolsSayWhatToDo holds that a file which is named itself is not left out.
func TestCase16NamedFilesOfOtherToolsSayWhatToDo(t *testing.T) {
	root := folder(t, map[string]string{
		"k/kustomization.yaml": "resources: []\n", "web/Chart.yaml": chart,
		"web/templates/api.yaml":   "metadata:\n  name: {{ .Release.Name }}\n",
		"web/charts/db/Chart.yaml": chart, "web/charts/db/values.yaml": "a: b\n",
	})
	for name, want := range map[string]string{
		"k/kustomization.yaml":      "kubectl kustomize ROOT/k | flotilla plan -f -",
		"web/Chart.yaml":            "helm template ROOT/web | flotilla plan -f -",
		"web/templates/api.yaml":    "helm template ROOT/web | flotilla plan -f -",
		"web/charts/db/values.yaml": "helm template ROOT/web | flotilla plan -f -",
	} {
		_, _, err := run(t, NewCommand(), "--members", file(t, fleet), "-f", filepath.Join(root, name))
		if err == nil || !strings.Contains(err.Error(), strings.ReplaceAll(want, "ROOT", root)) ||
			!strings.Contains(err.Error(), name+", line ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCase16FoldersInAFolder are read with -R alone.
func TestCase16FoldersInAFolder(t *testing.T) {
	members := file(t, fleet)
	root := folder(t, map[string]string{
		"base/web.yaml": cloneSet("api", 3, ""), "base/kustomization.yaml": "resources: [web.yaml]\n", ".git/x.yaml": "a: [",
		"prod/kustomization.yaml": "resources: [../base]\npatches: [{path: more.yaml}]\n",
		"prod/more.yaml":          cloneSet("api", 9, ""),
		"chart/Chart.yaml":        chart, "chart/templates/a.yaml": "metadata:\n  name: {{ .Release.Name }}\n",
		"chart/templates/b.yaml": strings.ReplaceAll(cloneSet("b", 1, ""), "image: web:1", `image: "{{ .Values.image }}"`),
	})
	if _, _, err := run(t, NewCommand(), "--members", members, "-f", root); err == nil ||
		!strings.Contains(err.Error(), "-R reads folders in it") {
		t.Errorf("without -R: %v", err)
	}
	out, talk, err := run(t, NewCommand(), "--members", members, "-R", "-f", root)
	if err != nil || !strings.Contains(out, "CloneSet shop/api: 3 replicas, 3 placed") || strings.Contains(out, "shop/b") {
		t.Errorf("%v: %s", err, out)
	}
	for _, want := range []string{"kubectl kustomize " + root + "/base |", "kubectl kustomize " + root + "/prod |",
		"templates/a.yaml", "templates/b.yaml", "helm template " + root + "/chart |"} {
		if !strings.Contains(talk, want) {
			t.Errorf("notes lack %q:\n%s", want, talk)
		}
	}
}

// TestCase16TextsOfEveryForm holds that the form of a text does not matter.
func TestCase16TextsOfEveryForm(t *testing.T) {
	wide := func(text string, big bool) string {
		var out []byte
		for _, unit := range utf16.Encode([]rune("\ufeff" + text)) {
			low, high := byte(unit), byte(unit>>8)
			if big {
				low, high = high, low
			}
			out = append(out, low, high)
		}
		return string(out)
	}
	one, two := cloneSet("api", 3, ""), cloneSet("web", 4, "")
	const object = `{"apiVersion": "apps.kruise.io/v1beta1",` + "\n\t" + `"kind": "CloneSet",
		"metadata": {"name": "NAME", "namespace": "shop"}, "spec": {"replicas": 3, "selector": {"matchLabels": {"a": "b"}},
		"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}}}`
	json := strings.ReplaceAll(object, "NAME", "api") + "\n" + strings.ReplaceAll(object, "NAME", "web")
	list := strings.ReplaceAll(strings.TrimSpace(object), "NAME", "web")
	for name, text := range map[string]string{
		"a byte order mark":   "\ufeff" + one + "---\n\ufeff" + two,
		"CRLF":                strings.ReplaceAll(one+"---\n"+two, "\n", "\r\n"),
		"UTF-16":              wide(one+"---\n"+two, false),
		"UTF-16, big end":     wide(one+"---\n"+two, true),
		"JSON with tabs":      json,
		"a directive":         "%YAML 1.1\n---\n" + one + "---\n" + two,
		"an end mark":         one + "...\n" + two,
		"content on the mark": one + "--- " + strings.ReplaceAll(list, "\n\t", " ") + "\n",
		"a list in a list": `{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "List", "items": [` +
			strings.ReplaceAll(object, "NAME", "api") + "," + list + "]}]}",
		"a comment first":      "# it is\n\n---\n" + one + "--- # next\n" + two,
		"no newline, two ends": "---\n---\n" + one + "\n---\n---\n" + strings.TrimSpace(two),
	} {
		t.Run(name, func(t *testing.T) {
			out, _, err := run(t, NewCommand(), "--members", file(t, fleet), "-f", file(t, text))
			if err != nil || !strings.Contains(out, "CloneSet shop/api: 3 replicas") ||
				!strings.Contains(out, "CloneSet shop/web: ") {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// TestCase16AnObjectInTwoFiles: the later one holds, as with kubectl apply, and a note says so.
func TestCase16AnObjectInTwoFiles(t *testing.T) {
	root := folder(t, map[string]string{"a.yaml": cloneSet("api", 3, ""), "b.yaml": cloneSet("api", 5, ""),
		"c.yaml": cloneSet("web", 1, "")})
	same := filepath.Join(root, "c.yaml")
	out, talk, err := run(t, NewCommand(), "--members", file(t, fleet), "-f", root, "-f", same, "-f", same)
	if err != nil || !strings.Contains(out, "CloneSet shop/api: 5 replicas") {
		t.Errorf("%v: %s", err, out)
	}
	if !strings.Contains(talk, "b.yaml: CloneSet shop/api is in "+root+"/a.yaml too") ||
		strings.Contains(talk, "shop/web is in") {
		t.Errorf("notes: %s", talk)
	}
}
