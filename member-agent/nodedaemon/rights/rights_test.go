package rights

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// update writes the golden file anew: go test ./member-agent/nodedaemon/rights -update.
var update = flag.Bool("update", false, "write the golden file anew")

// TestRules holds the rights as the chart takes them up and as they are reviewed. None of them has a *, and none is for
// Secrets.
func TestRules(t *testing.T) {
	got, err := yaml.Marshal(Rules())
	if err != nil {
		t.Fatal(err)
	}
	if text := string(got); strings.Contains(text, "*") || strings.Contains(text, "secrets") {
		t.Errorf("a right has a *, or is for Secrets:\n%s", got)
	}
	const golden = "testdata/node.golden.yaml"
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the rights are others than in %s (-want +got):\n%s", golden, cmp.Diff(string(want), string(got)))
	}
}
