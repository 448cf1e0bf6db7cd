package snapshot

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// TestPoliciesAreHeldToTheirSchema holds that a value that an API server would refuse by the schema of a policy is
// refused in a file, too, with the same words.
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
		{"a null is as nothing", `{workloads: [{kind: CloneSet, name: web, selector: null}], reschedule: null, failover: {mode: Fence}}`, ""},
		{"and in a list", `{workloads: [{kind: CloneSet}], rollout: {strategy: Waves, waves: [{name: one, size: null}]}}`,
			""},
		{"but not where a value has to be", `{rollout: {waves: [{name: null}]}}`,
			"spec.rollout.waves[0].name: Required value"},
		{"a strategy", `{rollout: {strategy: Wave}}`, `FederationPolicy p: spec.rollout.strategy: Unsupported value: "Wave": supported values: "Proportional", "Waves"; correct the field`},
		{"within a list", `{rollout: {waves: [{name: one, approval: Never}]}}`,
			`spec.rollout.waves[0].approval: Unsupported value: "Never": supported values: "Automatic", "Required"`},
		{"a name is missing", `{rollout: {waves: [{size: 1}]}}`, "spec.rollout.waves[0].name: Required value"},
		{"too long", `{rollout: {waves: [{name: ` + strings.Repeat("a", 64) + `}]}}`,
			"spec.rollout.waves[0].name: Invalid value: it has 64 characters, and may have at most 63"},
		{"a duration", `{rollout: {strategy: Waves, waves: [{name: one, soak: soon}]}}`,
			"spec.rollout.waves[0].soak: Invalid value: soak soon is no duration of up to 720h: write hours, minutes and " +
				"seconds, such as 10m or 1h30m"},
		{"a percentage", `{rollout: {strategy: Waves, waves: [{name: one, size: 110%}]}}`,
			"spec.rollout.waves[0].size: Invalid value: size is 110%: it must be a number of pods from 1, or a percentage " +
				"from 1% to 100%"},
		{"a number", `{rollout: {strategy: Waves, waves: [{name: one, size: 0}]}}`,
			"spec.rollout.waves[0].size: Invalid value: size is 0: it must be"},
		{"fields that contradict each other", `{rollout: {waves: [{name: one}]}}`,
			"spec.rollout.waves: Invalid value: waves are listed and strategy is not Waves"},
		{"a selector", `{clusters: {selector: {matchExpressions: [{key: zone, operator: In}]}}}`,
			"values are missing, which the operators In and NotIn need"},
		{"two mistakes", `{failover: {mode: Maybe}, spread: {by: Moon}}`, "spec.spread.by: Unsupported value"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, _, err := reader.Read("p.yaml", []byte("apiVersion: topology.flotilla.dev/v1alpha1\nkind: "+
				"FederationPolicy\nmetadata: {name: p}\nspec: "+tc.spec+"\n"))
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// TestRulesOfPoliciesAreUnderstood: what a rule of a policy says is checked in a file, but for what only API servers
// know.
func TestRulesOfPoliciesAreUnderstood(t *testing.T) {
	reader, err := NewReader(runtime.NewScheme(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	var collect func(any)
	collect = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if list, ok := v["x-kubernetes-validations"].([]any); ok {
				for _, item := range list {
					rule, _ := item.(map[string]any)
					for _, field := range []string{"rule", "messageExpression"} {
						if text, ok := rule[field].(string); ok {
							all[text] = true
						}
					}
				}
			}
			for _, field := range v {
				collect(field)
			}
		case []any:
			for _, item := range v {
				collect(item)
			}
		}
	}
	for gvk, openAPI := range reader.schemas {
		if gvk.Kind == "FederationPolicy" {
			collect(openAPI)
		}
	}
	if len(all) < 30 {
		t.Fatalf("only %d expressions were found", len(all))
	}
	for expression := range all {
		known := reader.rulesOf.program(expression) != nil
		if server := strings.Contains(expression, "isURL(") || strings.Contains(expression, ".sum()"); known == server {
			t.Errorf("understood: %t, %s", known, expression)
		}
	}
}
