package placement

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
)

const guard, otherGuard = "example.com/guard", "example.com/backup"

// deleted is a CloneSet that was deleted, with its placement.
func deleted(finalizers ...string) *state {
	set := &apps.CloneSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "held", UID: "held", Generation: 2, Finalizers: finalizers, DeletionTimestamp: new(metav1.NewTime(time.Unix(1, 0))),
	}}
	s := &state{key: wire.Key{Group: "apps.kruise.io", Kind: apps.CloneSetKind.Kind, Namespace: "shop", Name: "held"}, object: set, federated: true, placement: &topology.WorkloadPlacement{}}
	s.placement.Spec.Workload.UID = set.UID
	s.placement.OwnerReferences = []metav1.OwnerReference{{UID: set.UID}}
	return s
}

// TestCase3DeletionKeepsWhatABackgroundDeletionKeeps goes through all combinations of what can hold or hasten a deletion.
func TestCase3DeletionKeepsWhatABackgroundDeletionKeeps(t *testing.T) {
	type fact struct {
		name  string
		apply func(*state)
	}
	hold := []fact{
		{"guard", func(s *state) { s.object.SetFinalizers(append(s.object.GetFinalizers(), guard)) }},
		{"another guard", func(s *state) { s.object.SetFinalizers(append(s.object.GetFinalizers(), otherGuard)) }},
	}
	hasten := []fact{
		{"foreground", func(s *state) {
			s.object.SetFinalizers(append(s.object.GetFinalizers(), metav1.FinalizerDeleteDependents))
		}},
		{"orphan", func(s *state) {
			s.object.SetFinalizers(append(s.object.GetFinalizers(), metav1.FinalizerOrphanDependents))
		}},
		{"released by the garbage collector", func(s *state) { s.placement.OwnerReferences = nil }},
		{"placement of an earlier object", func(s *state) { s.placement.Spec.Workload.UID = "earlier" }},
		{"terminating namespace", func(s *state) { s.terminating = true }},
		{"withdrawn", func(s *state) { s.object.SetAnnotations(map[string]string{topology.AnnotationWithdraw: "true"}) }},
	}
	all := slices.Concat(hold, hasten)
	for mask := range 1 << len(all) {
		s := deleted()
		var names []string
		for i, f := range all {
			if mask&(1<<i) != 0 {
				f.apply(s)
				names = append(names, f.name)
			}
		}
		kept := mask&3 != 0 && mask>>len(hold) == 0
		t.Run(strings.Join(names, ","), func(t *testing.T) {
			next := decide(s, kinds.Divided())
			if next.remove == kept || next.spec != nil {
				t.Errorf("removed: %t, decided anew: %t", next.remove, next.spec != nil)
			}
			if next.verdict == nil {
				t.Fatal("nothing says that it is being deleted")
			}
			want := conditions.ReasonDeleting
			if s.terminating {
				want = conditions.ReasonNamespaceTerminating
			}
			if next.verdict.Reason != want || next.verdict.Stalled || next.verdict.Federated != metav1.ConditionFalse {
				t.Errorf("verdict %+v", next.verdict)
			}
			for _, finalizer := range conditions.Guards(s.object) {
				if !strings.Contains(next.verdict.Message, finalizer) {
					t.Errorf("%q does not name %s", next.verdict.Message, finalizer)
				}
			}
		})
	}
}

// TestCase3DeletedWithoutPlacement: an object that was never placed is told of only where the hub places its kind.
func TestCase3DeletedWithoutPlacement(t *testing.T) {
	rules := kinds.All(kinds.MembersRunBuiltIns)
	for kind, rule := range rules {
		for _, federated := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s,%t", kind, federated), func(t *testing.T) {
				s := deleted(guard)
				s.key.Group, s.key.Kind, s.federated, s.placement = kind.Group, kind.Kind, federated, nil
				next := decide(s, rules)
				if told := next.verdict != nil; told != (federated && rule.Mode != kinds.Copy) || next.remove || next.spec != nil {
					t.Errorf("%+v", next)
				}
			})
		}
	}
}

// TestCase14NothingIsPlacedInATerminatingNamespace: no decision is made, so that no placement is created or changed.
func TestCase14NothingIsPlacedInATerminatingNamespace(t *testing.T) {
	rules := kinds.All(kinds.MembersRunBuiltIns)
	for kind, rule := range rules {
		for _, placed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s,%t", kind, placed), func(t *testing.T) {
				s := deleted()
				s.object.SetDeletionTimestamp(nil)
				s.key.Group, s.key.Kind, s.terminating = kind.Group, kind.Kind, true
				s.policies = []Policy{{Ref: topology.PolicyReference{Kind: KindPolicy, Name: "all"}, Spec: topology.FederationPolicySpec{
					Workloads: []topology.WorkloadSelector{{APIVersion: rule.GVK.GroupVersion().String(), Kind: kind.Kind}},
				}}}
				if !placed {
					s.placement = nil
				}
				next := decide(s, rules)
				if next.spec != nil || next.remove {
					t.Errorf("%+v", next)
				}
				if told := next.verdict != nil; told != (placed || rule.Mode != kinds.Copy) {
					t.Fatalf("verdict %+v", next.verdict)
				}
				if next.verdict != nil && (next.verdict.Reason != conditions.ReasonNamespaceTerminating || next.verdict.Stalled) {
					t.Errorf("verdict %+v", next.verdict)
				}
			})
		}
	}
}
