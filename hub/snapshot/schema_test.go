package snapshot

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// TestPoliciesAreHeldToTheirSchema holds that a value that an API server would refuse by the schema of a policy is refused in a file, too,
// with the same words.
func TestPoliciesAreHeldToTheirSchema(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := topology.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	reader, err := NewReader(scheme, "shop")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, spec, want string }{
		{"all is right", `{workloads: [{kind: CloneSet}], spread: {by: Zone}, rollout: {strategy: Waves, waves: [{name: one, size: 20%}]}}`, ""},
		{"a strategy", `{rollout: {strategy: Wave}}`, `FederationPolicy p: spec.rollout.strategy: Unsupported value: "Wave": supported values: "Proportional", "Waves"; correct the field`},
		{"within a list", `{rollout: {waves: [{name: one, approval: Never}]}}`, `spec.rollout.waves[0].approval: Unsupported value: "Never": supported values: "Automatic", "Required"`},
		{"a name is missing", `{rollout: {waves: [{size: 1}]}}`, "spec.rollout.waves[0].name: Required value"},
		{"too long", `{rollout: {waves: [{name: ` + strings.Repeat("a", 64) + `}]}}`, "spec.rollout.waves[0].name: Invalid value: it has 64 characters, and may have at most 63"},
		{"two mistakes", `{failover: {mode: Maybe}, spread: {by: Moon}}`, "spec.spread.by: Unsupported value"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, _, err := reader.Read("p.yaml", []byte("apiVersion: topology.flotilla.dev/v1alpha1\nkind: FederationPolicy\nmetadata: {name: p}\nspec: "+tc.spec+"\n"))
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
