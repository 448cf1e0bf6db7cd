package rights

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// update writes the golden files anew: go test ./hub/rights -update.
var update = flag.Bool("update", false, "write the golden files anew")

// TestRights holds the rights as they are reviewed: each change of them shows in testdata. None of them has a *.
func TestRights(t *testing.T) {
	for name, rules := range map[string][]rbacv1.PolicyRule{"hub": Rules(), "hub-namespace": NamespaceRules(),
		"hub-karmada": KarmadaRules(), "hub-clusterprofiles": ClusterProfileRules(), "hub-workloads": WorkloadRules()} {
		t.Run(name, func(t *testing.T) {
			got, err := yaml.Marshal(rules)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(got), "*") {
				t.Errorf("a right has a *:\n%s", got)
			}
			golden := "testdata/" + name + ".golden.yaml"
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
		})
	}
}
