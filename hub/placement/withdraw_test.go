package placement

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/decision"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/policy"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// TestAMisspeltWithdrawalRemovesNothing: of the two words one ends pods and the other does not; any other word freezes
// what is placed.
func TestAMisspeltWithdrawalRemovesNothing(t *testing.T) {
	for value, want := range map[string]struct {
		remove bool
		reason string
	}{
		"":         {},
		"false":    {},
		"true":     {remove: true, reason: decision.Withdrawn},
		"orphan":   {remove: true, reason: decision.Withdrawn},
		"Orphan":   {reason: decision.InvalidWithdraw},
		"orphaned": {reason: decision.InvalidWithdraw},
		"yes":      {reason: decision.InvalidWithdraw},
	} {
		set := &apps.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "web",
			Annotations: map[string]string{topology.AnnotationWithdraw: value}}}
		set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
		set.Spec.Template.Labels = map[string]string{"app": "web"}
		s := &State{key: wire.Key{Group: "apps.kruise.io", Kind: apps.CloneSetKind.Kind, Namespace: "shop", Name: "web"},
			Object: set, federated: true, Placement: &topology.WorkloadPlacement{}}
		s.Placement.Spec.Workload.UID = set.UID
		s.Policies = []policy.Policy{{Ref: topology.PolicyReference{Kind: "FederationPolicy", Name: "all"},
			Spec: topology.FederationPolicySpec{
				Workloads: []topology.WorkloadSelector{{Kind: apps.CloneSetKind.Kind}},
			}}}
		next := Decide(s, kinds.Workloads())
		if next.Remove != want.remove {
			t.Errorf("%q: what is placed is removed: %t", value, next.Remove)
		}
		if want.reason == "" {
			if next.Outcome != nil && (next.Outcome.Reason == decision.Withdrawn ||
				next.Outcome.Reason == decision.InvalidWithdraw) {
				t.Errorf("%q: %+v", value, next.Outcome)
			}
			continue
		}
		if next.Outcome == nil || next.Outcome.Reason != want.reason || next.Spec != nil {
			t.Errorf("%q: %+v, want %s", value, next.Outcome, want.reason)
		}
		if want.reason == decision.InvalidWithdraw && (!next.Outcome.Stalled ||
			!strings.Contains(next.Outcome.Message, `"`+value+`"`)) {
			t.Errorf("%q: %+v", value, next.Outcome)
		}
	}
}
