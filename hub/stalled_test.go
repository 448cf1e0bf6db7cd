package hub_test

import (
	"encoding/json"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// TestStallOfAMemberIsSeen holds that a condition of a member object alone, with no change of its numbers, comes to the
// user's object, goes when it is over, and costs one write each time.
func TestStallOfAMemberIsSeen(t *testing.T) {
	t.Parallel() // most of its time is waiting
	f := newFleet(t, threeMembers)
	f.policy("all")
	f.cloneSet("web", 6)
	f.cloneSetIs("web", "Ready", ready)
	f.rest()

	f.memberSays("east", "web", corev1.ConditionTrue, "InvalidTemplate", "correct the template")
	f.cloneSetIs("web", "stalled", func(cs *apps.CloneSet) bool {
		return conditionIs(cs, "Stalled", corev1.ConditionTrue, "InvalidTemplate", "east: correct the template") &&
			conditionIs(cs, "Reconciling", corev1.ConditionFalse, "InvalidTemplate", "") &&
			conditionIs(cs, "Ready", corev1.ConditionFalse, "InvalidTemplate", "east")
	})
	if wrote, _ := f.about(f.quiet()); len(wrote) != 1 {
		t.Errorf("the hub wrote %v", wrote)
	}
	f.memberSays("east", "web", corev1.ConditionFalse, "NotStalled", "")
	f.cloneSetIs("web", "Ready again", ready)
	if wrote, _ := f.about(f.quiet()); len(wrote) != 1 {
		t.Errorf("the hub wrote %v", wrote)
	}
}

// memberSays reports the condition Stalled of the member object of a CloneSet.
func (f *fleet) memberSays(member, name string, status corev1.ConditionStatus, reason, message string) {
	f.t.Helper()
	raw, err := json.Marshal(apps.CloneSetStatus{Conditions: []apps.CloneSetCondition{{Type: apps.ConditionStalled,
		Status: status, Reason: reason, Message: message}}})
	must(f.t, err)
	w := &work.Work{}
	key := wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: f.namespace, Name: name}
	must(f.t, f.client.Get(f.ctx, key.Work(member), w))
	base := w.DeepCopy()
	w.Status.ManifestStatuses = []work.ManifestStatus{{
		Identifier: work.ResourceIdentifier{Group: "apps.kruise.io", Version: "v1beta1", Kind: "CloneSet",
			Resource: "clonesets", Namespace: f.namespace, Name: name},
		Status: &runtime.RawExtension{Raw: raw},
	}}
	must(f.t, f.client.Status().Patch(f.ctx, w, client.MergeFrom(base)))
}

// TestReasonsOfPodsAreSeen holds that why pods of a member are not Ready comes to the user's object, goes when it is
// over, and costs one write each time.
func TestReasonsOfPodsAreSeen(t *testing.T) {
	t.Parallel() // most of its time is waiting
	f := newFleet(t, threeMembers)
	f.policy("all")
	f.cloneSet("web", 6)
	f.cloneSetIs("web", "Ready", ready)
	f.rest()

	f.memberReports("east", "web", work.PodReason{Reason: "PodTerminating",
		Message: "kept by finalizer x", Count: 1, Pod: "web-a"})
	f.cloneSetIs("web", "PodsNotReady", func(cs *apps.CloneSet) bool {
		return ready(cs) && conditionIs(cs, apps.ConditionPodsNotReady, corev1.ConditionTrue, "PodTerminating",
			"kept by finalizer x (1 pod: east 1; see pod web-a in east)")
	})
	if wrote, _ := f.about(f.quiet()); len(wrote) != 1 {
		t.Errorf("the hub wrote %v", wrote)
	}
	f.memberReports("east", "web")
	f.cloneSetIs("web", "without the condition", func(cs *apps.CloneSet) bool {
		return !slices.ContainsFunc(cs.Status.Conditions, func(c apps.CloneSetCondition) bool {
			return c.Type == apps.ConditionPodsNotReady
		})
	})
	if wrote, _ := f.about(f.quiet()); len(wrote) != 1 {
		t.Errorf("the hub wrote %v", wrote)
	}
}

// memberReports reports why pods of a CloneSet are not Ready in a member.
func (f *fleet) memberReports(member, name string, reasons ...work.PodReason) {
	f.t.Helper()
	w := &work.Work{}
	key := wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: f.namespace, Name: name}
	must(f.t, f.client.Get(f.ctx, key.Work(member), w))
	base := w.DeepCopy()
	w.Status.Report.NotReady = reasons
	must(f.t, f.client.Status().Patch(f.ctx, w, client.MergeFrom(base)))
}
