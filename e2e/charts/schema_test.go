//go:build e2e

package charts

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// wrong returns what a value of the chart cannot be: of another type, or no quantity.
func wrong(value any, path []string) any {
	if _, text := value.(string); text && !slices.Contains(path, "resources") {
		return 7
	}
	return "wrong"
}

// wrongs returns, by its path as helm names it, each way to give a chart's values one of a wrong type or name.
func wrongs(at map[string]any, path []string) map[string]map[string]any {
	all := map[string]map[string]any{}
	put := func(name string, value any) {
		into := map[string]any{name: value}
		for _, outer := range slices.Backward(path) {
			into = map[string]any{outer: into}
		}
		all["/"+strings.Join(append(slices.Clone(path), name), "/")] = into
	}
	for _, name := range slices.Sorted(maps.Keys(at)) {
		put(name, wrong(at[name], path))
		if inner, ok := at[name].(map[string]any); ok && len(inner) > 0 {
			maps.Copy(all, wrongs(inner, append(slices.Clone(path), name)))
		}
	}
	// there are more resources than those that the chart names
	if !slices.Contains(path, "requests") && !slices.Contains(path, "limits") {
		put("unknown", "wrong")
	}
	return all
}

// TestSchema holds that each value of each chart is refused where it is of another type, and so is each name that there
// is not, both with the path.
func TestSchema(t *testing.T) {
	for _, name := range []string{"flotilla-crds", "flotilla-hub", "flotilla-agent", "flotilla-capi", "flotilla-node"} {
		text, err := os.ReadFile(filepath.Join(chart(name), "values.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		values := map[string]any{}
		if err := yaml.Unmarshal(text, &values); err != nil {
			t.Fatal(err)
		}
		cases := wrongs(values, nil)
		t.Logf("%s: %d cases", name, len(cases))
		for path, values := range cases {
			t.Run(name+path, func(t *testing.T) {
				t.Parallel()
				text, err := yaml.Marshal(values)
				if err != nil {
					t.Fatal(err)
				}
				// Helm names the object in which a name is not known.
				says := path
				if outer, found := strings.CutSuffix(path, "/unknown"); found {
					says = "at '" + outer + "': additional properties 'unknown' not allowed"
				}
				if _, err := helm(t, "", string(text), "template", "a", chart(name), "--namespace="+namespace); err == nil ||
					!strings.Contains(err.Error(), says) {
					t.Errorf("%s is not refused with %q: %v", text, says, err)
				}
			})
		}
	}
}
