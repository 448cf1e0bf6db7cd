package policy

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

func TestSelectorsThatCannotBeRead(t *testing.T) {
	wrong := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "stage", Operator: "Is",
		Values: []string{"live"}}}}
	cases := map[string]struct {
		spec    topology.FederationPolicySpec
		freezes bool
	}{
		"": {topology.FederationPolicySpec{}, false},
		"spec.workloads[1].selector": {topology.FederationPolicySpec{Workloads: []topology.WorkloadSelector{{},
			{Selector: wrong}}}, false},
		"spec.clusters.selector": {topology.FederationPolicySpec{Clusters: topology.ClusterSelector{Selector: wrong}},
			true},
		"spec.rollout.waves[0].clusters.selector": {topology.FederationPolicySpec{Rollout: topology.Rollout{
			Waves: []topology.Wave{{Clusters: topology.WaveClusters{Selector: wrong}}},
		}}, true},
	}
	for want, tc := range cases {
		if got := unreadableAny(&tc.spec); !strings.HasPrefix(got, want) || want == "" && got != "" || want != "" &&
			!strings.Contains(got, `"Is"`) {
			t.Errorf("%q, want %q", got, want)
		}
		if got := Unreadable(&tc.spec); got != "" != tc.freezes {
			t.Errorf("%s: placing stops: %q", want, got)
		}
		facts := facts{key: Key{Kind: KindPolicy, Name: "p"}, federated: true, wrong: unreadableAny(&tc.spec)}
		status := facts.status(&topology.FederationPolicyStatus{}, 1, metav1.Time{})
		if c := status.Conditions[0]; (c.Reason == topology.PolicyInvalidSelector) != (want != "") ||
			!strings.HasPrefix(c.Message, facts.wrong) {
			t.Errorf("%s: %s: %s", want, c.Reason, c.Message)
		}
	}
}
