package registration

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// update writes the golden files anew: go test ./hub/inventory/registration -run TestRights -update.
var update = flag.Bool("update", false, "write the golden files anew")

// TestRights holds the rights as they are reviewed: each change of them shows in testdata. None of them has a *.
func TestRights(t *testing.T) {
	for name, rules := range map[string][]rbacv1.PolicyRule{
		"token": JoinRules("east"), "member": MemberRules("east"), "member-namespace": NamespaceRules("east"),
		"approver": ApproverRules(), "approver-namespace": ApproverNamespaceRules(),
		"approver-members": ApproverMembersRules(),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := yaml.Marshal(rules)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(got), "*") {
				t.Errorf("a right has a *:\n%s", got)
			}
			golden := filepath.Join("testdata", name+".golden.yaml")
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
