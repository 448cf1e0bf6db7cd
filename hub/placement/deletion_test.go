package placement

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/capacity"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/policy"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
)

const guard, otherGuard = "example.com/guard", "example.com/backup"

// deleted is a CloneSet that was deleted, with its placement.
func deleted(finalizers ...string) *State {
	set := &apps.CloneSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "held", UID: "held", Generation: 2, Finalizers: finalizers,
		DeletionTimestamp: new(metav1.NewTime(time.Unix(1, 0))),
	}}
	s := &State{key: wire.Key{Group: "apps.kruise.io", Kind: apps.CloneSetKind.Kind, Namespace: "shop", Name: "held"},
		Object: set, federated: true, Placement: &topology.WorkloadPlacement{}}
	s.Placement.Spec.Workload.UID = set.UID
	s.Placement.OwnerReferences = []metav1.OwnerReference{{UID: set.UID}}
	return s
}

// TestCase3DeletionKeepsWhatABackgroundDeletionKeeps goes through all combinations of what can hold or hasten a
// deletion.
func TestCase3DeletionKeepsWhatABackgroundDeletionKeeps(t *testing.T) {
	type fact struct {
		name  string
		apply func(*State)
	}
	hold := []fact{
		{"guard", func(s *State) { s.Object.SetFinalizers(append(s.Object.GetFinalizers(), guard)) }},
		{"another guard", func(s *State) { s.Object.SetFinalizers(append(s.Object.GetFinalizers(), otherGuard)) }},
	}
	hasten := []fact{
		{"foreground", func(s *State) {
			s.Object.SetFinalizers(append(s.Object.GetFinalizers(), metav1.FinalizerDeleteDependents))
		}},
		{"orphan", func(s *State) {
			s.Object.SetFinalizers(append(s.Object.GetFinalizers(), metav1.FinalizerOrphanDependents))
		}},
		{"released by the garbage collector", func(s *State) { s.Placement.OwnerReferences = nil }},
		{"placement of an earlier object", func(s *State) { s.Placement.Spec.Workload.UID = "earlier" }},
		{"terminating namespace", func(s *State) { s.terminating = true }},
		{"withdrawn", func(s *State) { s.Object.SetAnnotations(map[string]string{topology.AnnotationWithdraw: "true"}) }},
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
			next := Decide(s, kinds.Workloads())
			if next.Remove == kept || next.Spec != nil {
				t.Errorf("removed: %t, decided anew: %t", next.Remove, next.Spec != nil)
			}
			if next.Outcome == nil {
				t.Fatal("nothing says that it is being deleted")
			}
			want := conditions.ReasonDeleting
			if s.terminating {
				want = conditions.ReasonNamespaceTerminating
			}
			if next.Outcome.Reason != want || next.Outcome.Stalled || next.Outcome.Federated != metav1.ConditionFalse {
				t.Errorf("verdict %+v", next.Outcome)
			}
			for _, finalizer := range conditions.Guards(s.Object) {
				if !strings.Contains(next.Outcome.Message, finalizer) {
					t.Errorf("%q does not name %s", next.Outcome.Message, finalizer)
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
				s.key.Group, s.key.Kind, s.federated, s.Placement = kind.Group, kind.Kind, federated, nil
				next := Decide(s, rules)
				if told := next.Outcome != nil; told != (federated && rule.Mode != kinds.Copy) || next.Remove || next.Spec != nil {
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
				s.Object.SetDeletionTimestamp(nil)
				s.key.Group, s.key.Kind, s.terminating = kind.Group, kind.Kind, true
				s.Policies = []policy.Policy{{Ref: topology.PolicyReference{Kind: policy.KindPolicy, Name: "all"},
					Spec: topology.FederationPolicySpec{
						Workloads: []topology.WorkloadSelector{{APIVersion: rule.GVK.GroupVersion().String(), Kind: kind.Kind}},
					}}}
				if !placed {
					s.Placement = nil
				}
				next := Decide(s, rules)
				if next.Spec != nil || next.Remove {
					t.Errorf("%+v", next)
				}
				if told := next.Outcome != nil; told != (placed || rule.Mode != kinds.Copy) {
					t.Fatalf("verdict %+v", next.Outcome)
				}
				if next.Outcome != nil && (next.Outcome.Reason != conditions.ReasonNamespaceTerminating || next.Outcome.Stalled) {
					t.Errorf("verdict %+v", next.Outcome)
				}
			})
		}
	}
}

// TestCase14ARefusedPlacementIsNoError creates a placement while the cache does not show yet that its namespace is
// being deleted.
func TestCase14ARefusedPlacementIsNoError(t *testing.T) {
	refusal := func(cause metav1.CauseType) error {
		err := apierrors.NewForbidden(schema.GroupResource{Resource: "workloadplacements"}, "web", errors.New("no"))
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: cause}}
		return err
	}
	east := &topology.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}}
	east.Spec.Accepted, east.Status.Zones = true, []topology.Zone{{Name: "a"}}
	for _, c := range []string{topology.MemberAccepted, topology.MemberReady} {
		meta.SetStatusCondition(&east.Status.Conditions, metav1.Condition{Type: c, Status: metav1.ConditionTrue, Reason: c})
	}
	for cause, ends := range map[metav1.CauseType]bool{
		corev1.NamespaceTerminatingCause: true, metav1.CauseTypeForbidden: false,
	} {
		t.Run(string(cause), func(t *testing.T) {
			c := hubWith(t, interceptor.Funcs{
				Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
					return refusal(cause)
				},
			}, cloneSet(), east, &topology.FederationPolicy{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "all"},
				Spec:       topology.FederationPolicySpec{Workloads: []topology.WorkloadSelector{{Kind: "CloneSet"}}},
			})
			outcomes := NewOutcomes()
			clock := clocktesting.NewFakePassiveClock(time.Unix(100, 0))
			r := NewReconciler(c, c, events.NewFakeRecorder(1), clock, nil, "hub", outcomes, nil, capacity.NewReservations(),
				kinds.Workloads())
			key := wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: "ns", Name: "web"}
			_, err := r.Reconcile(t.Context(), key)
			if (err == nil) != ends {
				t.Fatalf("error %v", err)
			}
			if o, told := outcomes.Get(key); told != ends || ends && o.Reason != conditions.ReasonNamespaceTerminating {
				t.Errorf("outcome %+v", o)
			}
		})
	}
}
