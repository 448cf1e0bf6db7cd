package placement

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// TestAMisspeltWithdrawalRemovesNothing: of the two words one ends pods and the other does not; any other word freezes what is placed.
func TestAMisspeltWithdrawalRemovesNothing(t *testing.T) {
	for value, want := range map[string]struct {
		remove bool
		reason string
	}{
		"":         {},
		"false":    {},
		"true":     {remove: true, reason: Withdrawn},
		"orphan":   {remove: true, reason: Withdrawn},
		"Orphan":   {reason: InvalidWithdraw},
		"orphaned": {reason: InvalidWithdraw},
		"yes":      {reason: InvalidWithdraw},
	} {
		set := &apps.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "web", Annotations: map[string]string{topology.AnnotationWithdraw: value}}}
		set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
		set.Spec.Template.Labels = map[string]string{"app": "web"}
		s := &state{key: wire.Key{Group: "apps.kruise.io", Kind: apps.CloneSetKind.Kind, Namespace: "shop", Name: "web"}, object: set, federated: true, placement: &topology.WorkloadPlacement{}}
		s.placement.Spec.Workload.UID = set.UID
		s.policies = []Policy{{Ref: topology.PolicyReference{Kind: "FederationPolicy", Name: "all"}, Spec: topology.FederationPolicySpec{
			Workloads: []topology.WorkloadSelector{{Kind: apps.CloneSetKind.Kind}},
		}}}
		next := decide(s, kinds.Divided())
		if next.remove != want.remove {
			t.Errorf("%q: what is placed is removed: %t", value, next.remove)
		}
		if want.reason == "" {
			if next.verdict != nil && (next.verdict.Reason == Withdrawn || next.verdict.Reason == InvalidWithdraw) {
				t.Errorf("%q: %+v", value, next.verdict)
			}
			continue
		}
		if next.verdict == nil || next.verdict.Reason != want.reason || next.spec != nil {
			t.Errorf("%q: %+v, want %s", value, next.verdict, want.reason)
		}
		if want.reason == InvalidWithdraw && (!next.verdict.Stalled || !strings.Contains(next.verdict.Message, `"`+value+`"`)) {
			t.Errorf("%q: %+v", value, next.verdict)
		}
	}
}
