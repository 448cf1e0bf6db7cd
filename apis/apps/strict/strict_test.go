package strict_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flotilla-dev/flotilla/apis/apps/strict"
)

const good = `{
  "metadata": {"labels": {"app": "web"}, "creationTimestamp": null},
  "spec": {
    "terminationGracePeriodSeconds": 30,
    "volumes": [
      {"name": "a", "emptyDir": {"sizeLimit": "1Gi"}}, {"name": "b", "configMap": {"name": "c", "optional": true}}
    ],
    "containers": [{
      "name": "web", "image": "web:1", "ports": [{"containerPort": 80}], "args": ["a"],
      "env": [{"name": "A", "value": "5"}],
      "livenessProbe": {"httpGet": {"port": 80}}, "resources": {"limits": {"cpu": 0.5, "memory": "1Gi"}}
    }]
  }
}`

var template = field.NewPath("spec", "template")

func TestMistakesHavePathAndValue(t *testing.T) {
	for _, row := range []struct{ data, want string }{
		{`5`, `spec.template: Invalid value: 5: must be of type object`},
		{`{"metadata": {"labels": {"app": 5}}}`,
			`spec.template.metadata.labels[app]: Invalid value: 5: must be of type string`},
		{`{"metadata": {"creationTimestamp": "yesterday"}}`,
			`spec.template.metadata.creationTimestamp: Invalid value: "yesterday": parsing time`},
		{`{"spec": {"containers": "x"}}`, `spec.template.spec.containers: Invalid value: "x": must be of type array`},
		{`{"spec": {"containers": [{}, {"args": "a"}]}}`,
			`spec.template.spec.containers[1].args: Invalid value: "a": must be of type array`},
		{`{"spec": {"containers": [{"tty": "yes"}]}}`,
			`spec.template.spec.containers[0].tty: Invalid value: "yes": must be of type boolean`},
		{`{"spec": {"containers": [{"ports": [{"containerPort": 99999999999}]}]}}`,
			`ports[0].containerPort: Invalid value: 99999999999: must be of type integer, of 32 bits`},
		{`{"spec": {"containers": [{"livenessProbe": {"tcpSocket": {"port": true}}}]}}`,
			`tcpSocket.port: Invalid value: true: json: cannot unmarshal`},
		{`{"spec": {"containers": [{"resources": {"limits": {"memory": "lots"}}}]}}`,
			`resources.limits[memory]: Invalid value: "lots": quantities must match`},
		{`{"spec": {"nodeName": {"a": 1}}}`, `spec.template.spec.nodeName: Invalid value: {"a":1}: must be of type string`},
		{`{"spec": {"nodeName": ["` + strings.Repeat("x", 100) + `"]}}`,
			`spec.template.spec.nodeName: Invalid value: "[\"` + strings.Repeat("x", 62) + `..."`},
		{`{"spec": `, `spec.template: Invalid value: "{\"spec\": ": must be JSON: unexpected EOF`},
	} {
		mistakes := strict.Check[corev1.PodTemplateSpec](template, []byte(row.data)).Mistakes
		if len(mistakes) != 1 || !strings.Contains(mistakes[0].Error(), row.want) {
			t.Errorf("%s: got %v, want %s", row.data, mistakes, row.want)
		}
	}
}

func TestUnknownFieldsHavePaths(t *testing.T) {
	found := strict.Check[corev1.PodTemplateSpec](template, []byte(`{"meta": 1, "spec": {
		"nodename": "a", "containers": [{"imagee": "a", "livenessProbe": {"exec": null, "port": 1}}]
	}}`))
	want := []string{
		"spec.template.meta", "spec.template.spec.containers[0].imagee",
		"spec.template.spec.containers[0].livenessProbe.port", "spec.template.spec.nodename",
	}
	if len(found.Mistakes) > 0 || !slices.Equal(found.Unknown, want) {
		t.Errorf("got %v and %q, want %q", found.Mistakes, found.Unknown, want)
	}
}

func TestFindingsAreBounded(t *testing.T) {
	var many []string
	for i := range 1000 {
		many = append(many, fmt.Sprintf(`{"name": 5, "unknown%d": 1}`, i))
	}
	data := `{"spec": {"containers": [` + strings.Join(many, ",") + `]}}`
	found := strict.Check[corev1.PodTemplateSpec](template, []byte(data))
	if len(found.Mistakes) != 16 || len(found.Unknown) > 16 {
		t.Errorf("got %d mistakes and %d unknown fields", len(found.Mistakes), len(found.Unknown))
	}
}

// TestMistakesAreWhatDecodingRefuses replaces values in a template at random: each way must judge it alike.
func TestMistakesAreWhatDecodingRefuses(t *testing.T) {
	values := []any{
		nil, "", "5", "1Gi", "x y", 5, -1, 1.5, 1e20, true, []any{}, []any{1}, []any{nil},
		map[string]any{}, map[string]any{"a": 1}, map[string]any{"name": nil},
	}
	random := rand.New(rand.NewPCG(1, 1))
	refused := 0
	for range 5000 {
		var tree any
		if err := json.Unmarshal([]byte(good), &tree); err != nil {
			t.Fatal(err)
		}
		tree = replace(random, tree, values)
		data, err := json.Marshal(tree)
		if err != nil {
			t.Fatal(err)
		}
		var decoded corev1.PodTemplateSpec
		err = json.Unmarshal(data, &decoded)
		mistakes := strict.Check[corev1.PodTemplateSpec](template, data).Mistakes
		if (err != nil) != (len(mistakes) > 0) {
			t.Fatalf("decoding says %v, the check %v of\n%s", err, mistakes, data)
		}
		if err != nil {
			refused++
		}
	}
	if refused < 250 {
		t.Errorf("only %d templates were refused", refused)
	}
}

// replace puts one of the values somewhere into the tree.
func replace(random *rand.Rand, tree any, values []any) any {
	switch node := tree.(type) {
	case map[string]any:
		if len(node) > 0 && random.IntN(6) > 0 {
			keys := make([]string, 0, len(node))
			for key := range node {
				keys = append(keys, key)
			}
			slices.Sort(keys)
			key := keys[random.IntN(len(keys))]
			node[key] = replace(random, node[key], values)
			return node
		}
	case []any:
		if len(node) > 0 && random.IntN(6) > 0 {
			i := random.IntN(len(node))
			node[i] = replace(random, node[i], values)
			return node
		}
	}
	return values[random.IntN(len(values))]
}
