package hub_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// patch merges the text into the spec of a workload.
func (f *fleet) patch(object client.Object, spec string) {
	f.t.Helper()
	must(f.t, f.client.Patch(f.ctx, object, client.RawPatch("application/merge-patch+json", []byte(`{"spec":`+spec+`}`))))
}

// TestRaisedPartitionGoesBack raises the partition in the middle of a rollout, with one pod that may be unavailable:
// the updated pods above it come back one member after the other, and the status says so until they have.
func TestRaisedPartitionGoesBack(t *testing.T) {
	t.Parallel() // most of its time is waiting
	f := newFleet(t, threeMembers)
	f.policy("all")
	f.ledger()
	cs := f.cloneSet("web", 12)
	f.cloneSetIs("web", "Ready", ready)
	f.patch(cs, `{"updateStrategy":{"rollingUpdate":{"partition":3,"maxUnavailable":1}},"template":{"spec":{"containers":[{"name":"main","image":"web:2"}]}}}`)
	updated := func(n int32) func(*apps.CloneSet) bool {
		return func(cs *apps.CloneSet) bool {
			return ready(cs) && cs.Status.UpdatedReplicas == n && cs.Status.ExpectedUpdatedReplicas == n &&
				conditionIs(cs, "Ready", corev1.ConditionTrue, "AllAvailable",
					fmt.Sprintf("the partition asks for %d to be updated", n))
		}
	}
	f.cloneSetIs("web", "9 of 12 are updated", updated(9))

	for _, a := range f.agents {
		a.hush(true)
	}
	f.patch(cs, `{"updateStrategy":{"rollingUpdate":{"partition":10}}}`)
	f.cloneSetIs("web", "7 are to go back", func(cs *apps.CloneSet) bool {
		return cs.Status.ObservedGeneration == cs.Generation &&
			conditionIs(cs, "Ready", corev1.ConditionFalse, "Updating", "7 updated pods are to go back") &&
			conditionIs(cs, "Reconciling", corev1.ConditionTrue, "Updating", "")
	})
	for _, a := range f.agents {
		a.hush(false)
	}
	f.cloneSetIs("web", "2 of 12 are updated", updated(2))
	f.patch(cs, `{"updateStrategy":{"rollingUpdate":{"partition":0}}}`)
	f.cloneSetIs("web", "all are updated", func(cs *apps.CloneSet) bool {
		return ready(cs) && cs.Status.UpdatedReplicas == 12
	})

	f.patch(cs, `{"updateStrategy":{"rollingUpdate":{"partition":6}}}`)
	f.cloneSetIs("web", "none of them can go back", func(cs *apps.CloneSet) bool {
		return ready(cs) && cs.Status.UpdatedReplicas == 12 && cs.Status.ExpectedUpdatedReplicas == 6 &&
			conditionIs(cs, "Ready", corev1.ConditionTrue, "AllAvailable",
				"6 more are updated, and have no old revision to go back to")
	})
	f.rest()
	if wrote, _ := f.about(f.quiet()); len(wrote) > 0 {
		t.Errorf("at rest the hub wrote %v", wrote)
	}
}

// TestRaisedPartitionOfASubset is the same for one subset that lies in two members, of which one has updated all its
// pods: the other one comes back for both.
func TestRaisedPartitionOfASubset(t *testing.T) {
	t.Parallel() // most of its time is waiting
	f := newFleet(t, threeMembers)
	f.policy("all")
	f.ledger()
	ud := f.unitedDeployment("web", 8, "b")
	f.placed("UnitedDeployment", "web", map[string]int32{"b/east": 4, "b/west": 4})
	updated := func(n int32) {
		t.Helper()
		f.eventually(fmt.Sprintf("%d of 8 are updated", n), func() error {
			if err := f.client.Get(f.ctx, client.ObjectKeyFromObject(ud), ud); err != nil {
				return err
			}
			for _, c := range ud.Status.Conditions {
				if string(c.Type) == "Ready" && c.Status == corev1.ConditionTrue && ud.Status.ObservedGeneration == ud.Generation &&
					ud.Status.UpdatedReplicas == n {
					return nil
				}
			}
			return fmt.Errorf("status %+v", ud.Status)
		})
	}
	updated(8)
	f.patch(ud, `{"updateStrategy":{"manualUpdate":{"partitions":{"b":1}}},
		"template":{"cloneSetTemplate":{"spec":{"updateStrategy":{"rollingUpdate":{"maxUnavailable":1}},"template":{"spec":{"containers":[{"name":"main","image":"web:2"}]}}}}}}`)
	updated(7)
	f.patch(ud, `{"updateStrategy":{"manualUpdate":{"partitions":{"b":3}}}}`)
	updated(5)
	f.patch(ud, `{"updateStrategy":{"manualUpdate":{"partitions":{"b":7}}}}`)
	updated(4) // those of the member that has updated all of its pods
	f.rest()
	if wrote, _ := f.about(f.quiet()); len(wrote) > 0 {
		t.Errorf("at rest the hub wrote %v", wrote)
	}
}
