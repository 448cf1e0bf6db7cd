package policy

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// TestMistakesStandTogether: a user who made several mistakes corrects them at once.
func TestMistakesStandTogether(t *testing.T) {
	f := facts{key: Key{Kind: KindPolicy, Namespace: "shop", Name: "all"},
		unknown: []string{"Clonset (apps.kruise.io)"}, kinds: "CloneSet",
		unknownNames: "clusters.names: there is no member eest"}
	ready := f.status(&topology.FederationPolicyStatus{}, 1, metav1.Time{}).Conditions[0]
	const want = "3 mistakes: (1) namespace shop has no label topology.flotilla.dev/federated=true, so nothing in " +
		"it is placed; set it with: kubectl label namespace shop topology.flotilla.dev/federated=true; " +
		"(2) FederationPolicy all names Clonset (apps.kruise.io): not placed on members; the kinds that work are " +
		"CloneSet; " +
		"(3) these names match nothing and are ignored: clusters.names: there is no member eest; " +
		"correct the name, or let that member join"
	if ready.Status != metav1.ConditionFalse || ready.Reason != topology.PolicyNamespaceNotFederated ||
		ready.Message != want {
		t.Errorf("%s %s: %q, want %q", ready.Status, ready.Reason, ready.Message, want)
	}
}

func TestUnknownNamesAloneLeaveAPolicyReady(t *testing.T) {
	f := facts{federated: true, unknownNames: "clusters.names: there is no member eest"}
	status, reason, message := f.ready()
	const want = Holds + "; these names match nothing and are ignored: clusters.names: there is no member eest; " +
		"correct the name, or let that member join"
	if status != metav1.ConditionTrue || reason != topology.PolicyInForce || message != want {
		t.Errorf("%s %s: %q, want %q", status, reason, message, want)
	}
}

// TestMistakesAreBounded holds that a message fits into a condition, whatever a policy says.
func TestMistakesAreBounded(t *testing.T) {
	f := facts{federated: true, unknown: []string{strings.Repeat("é", 40_000)}}
	for range 50 {
		f.checks = append(f.checks, strings.Repeat("x", 3000))
	}
	_, _, message := f.ready()
	if len(message) > 32_768 || !strings.HasSuffix(message, "; and 45 more") {
		t.Errorf("a message of %d bytes that ends in %q", len(message), message[len(message)-20:])
	}
}

func TestChecksThatCanNeverHold(t *testing.T) {
	wave := func(c topology.WaveCheck) *topology.FederationPolicySpec {
		c.Name = "ok"
		return &topology.FederationPolicySpec{Rollout: topology.Rollout{Waves: []topology.Wave{{Name: "canary",
			Checks: []topology.WaveCheck{c}}}}}
	}
	step := &topology.FederationPolicySpec{Rollout: topology.Rollout{Steps: []topology.RolloutStep{{},
		{Checks: []topology.WaveCheck{{Name: "ok", Expression: "objct.spec.replicas > 1"}}}}}}
	for _, tc := range []struct {
		name, want string
		spec       *topology.FederationPolicySpec
	}{
		{"of a workload", "", wave(topology.WaveCheck{Expression: "object.status.readyReplicas >= 9"})},
		{"of pods", "", wave(topology.WaveCheck{Expression: "pods('app.example.com/warm=true') >= 3"})},
		{"of an answer", "", wave(topology.WaveCheck{HTTP: &topology.WaveHTTP{Expression: "status == 200 && json.x < 3"}})},
		{"by default", "", wave(topology.WaveCheck{HTTP: &topology.WaveHTTP{}})},
		{"a Job", "", wave(topology.WaveCheck{Job: &topology.WaveJob{}})},
		{"not CEL", "check ok of wave canary can never hold: its expression is not valid: Syntax error",
			wave(topology.WaveCheck{Expression: "object.status.readyReplicas >="})},
		{"another variable", "check ok of wave canary can never hold: its expression is not valid: undeclared " +
			"reference to 'object'",
			wave(topology.WaveCheck{HTTP: &topology.WaveHTTP{Expression: "object.spec.replicas > 1"}})},
		{"a number", "check ok of wave canary can never hold: pods('a=b') is no true or false; correct the policy",
			wave(topology.WaveCheck{Expression: "pods('a=b')"})},
		{"a step", "check ok of spec.rollout.steps[1] can never hold: its expression is not valid: undeclared reference",
			step},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := strings.Join(invalidChecks(tc.spec), "; ")
			if tc.want == "" && got != "" || !strings.HasPrefix(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
