package rights

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/flotilla-dev/flotilla/member-agent/admission"
)

// update writes the golden file anew: go test ./member-agent/rights -update.
var update = flag.Bool("update", false, "write the golden file anew")

// TestRights holds the rights as they are reviewed: each change of them shows in testdata. None of them has a *.
func TestRights(t *testing.T) {
	var got []byte
	for _, object := range Objects("flotilla-system") {
		data, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		got = append(append(got, "---\n"...), data...)
	}
	if strings.Contains(string(got), "*") {
		t.Errorf("a right has a *:\n%s", got)
	}
	const golden = "testdata/rights.golden.yaml"
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

// TestRules holds the same rules as the chart takes them up: those of a kind that is carried only where the hub may
// bring it.
func TestRules(t *testing.T) {
	for name, rules := range map[string]any{"agent": OwnRules(), "agent-carried": CarriedRules(),
		"agent-distribution": DistributionRules(), "agent-pull-secrets": PullSecretRules(),
		"agent-namespace": NamespaceRules()} {
		t.Run(name, func(t *testing.T) {
			got, err := yaml.Marshal(rules)
			if err != nil {
				t.Fatal(err)
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

// TestWebhookName holds that the one webhook that may be changed is the agent's.
func TestWebhookName(t *testing.T) {
	if webhook != admission.ConfigurationName {
		t.Errorf("the rights are for %s, and the webhook is %s", webhook, admission.ConfigurationName)
	}
}
