package arch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/flotilla-dev/flotilla/apis/crds"
)

// TestKindsPage holds that the page of all kinds has a row for each published kind, with the versions that are served:
// the stored one first, others in brackets.
func TestKindsPage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "kinds", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	all, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for _, definition := range all {
		group, _, _ := unstructured.NestedString(definition.Object, "spec", "group")
		if !strings.HasSuffix(group, ".kruise.io") {
			continue
		}
		kind, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "kind")
		versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
		stored, others := "", ""
		for _, v := range versions {
			version, ok := v.(map[string]any)
			switch {
			case !ok || version["served"] != true:
			case version["storage"] == true:
				stored, _ = version["name"].(string)
			default:
				name, _ := version["name"].(string)
				others += " (" + name + ")"
			}
		}
		row := "| [" + kind + "](" + strings.ToLower(kind) + ".md) | " + stored + others + " | "
		if rows++; !strings.Contains(string(text), row) {
			t.Errorf("docs/kinds/README.md has no row that begins with %q", row)
		}
	}
	if rows != 18 {
		t.Errorf("%d kinds are served, want 18", rows)
	}
}
