package uniteddeployment

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kruise "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
)

func TestChildrenTellWhatHoldsThemUp(t *testing.T) {
	with := func(name string, condition kruise.CloneSetConditionType, reason, message string) *child {
		c := fromCloneSet(&kruise.CloneSet{
			ObjectMeta: metav1.ObjectMeta{Name: "web-" + name + "-x", Labels: map[string]string{kruise.LabelSubset: name}},
			Status: kruise.CloneSetStatus{Conditions: []kruise.CloneSetCondition{
				{Type: kruise.ConditionStalled, Status: corev1.ConditionFalse, Reason: "NotStalled"},
				{Type: condition, Status: corev1.ConditionTrue, Reason: reason, Message: message},
			}},
		})
		return &c
	}
	p := &plan{subsets: []subsetPlan{
		{name: "a", live: with("a", kruise.ConditionReady, "AllAvailable", "2 of 2 pods are available")},
		{name: "b", live: with("b", kruise.ConditionStalled, "LifecycleNotSupported", "remove spec.lifecycle")},
		{name: "c", live: with("c", kruise.ConditionStalled, "LifecycleNotSupported", "remove spec.lifecycle")},
		{name: "d"},
		{name: "e", live: with("e", kruise.CloneSetConditionFailedScale, "FailedCreate", "pods are refused: quota")},
	}}
	stalled, failed := causes(p, nil)
	if stalled == nil || stalled.Reason != ReasonChildStalled {
		t.Fatalf("stalled is %v, want %s", stalled, ReasonChildStalled)
	}
	for _, want := range []string{`CloneSet web-b-x of subset "b"`, "LifecycleNotSupported: remove spec.lifecycle",
		"and 1 more"} {
		if !strings.Contains(stalled.Message, want) {
			t.Errorf("the message %q lacks %q", stalled.Message, want)
		}
	}
	if failed == nil || failed.Reason != ReasonChildFailed || !strings.Contains(failed.Message, "quota") {
		t.Errorf("failed is %v, want %s with the child's message", failed, ReasonChildFailed)
	}
	if stalled, failed := causes(&plan{subsets: p.subsets[:1]}, nil); stalled != nil || failed != nil {
		t.Errorf("a healthy child tells %v and %v, want nothing", stalled, failed)
	}
}

// A subset says whether a higher partition brings pods back in it: its child has an old revision.
func TestSubsetsTellWhetherPodsCanGoBack(t *testing.T) {
	child := func(current, update string) *child {
		c := fromCloneSet(&kruise.CloneSet{Status: kruise.CloneSetStatus{CurrentRevision: current, UpdateRevision: update}})
		return &c
	}
	p := &plan{subsets: []subsetPlan{
		{name: "in-a-rollout", live: child("x-1", "x-2")}, {name: "all-updated", live: child("x-2", "x-2")},
		{name: "new", live: child("", "")}, {name: "none"},
	}}
	for _, row := range plannedRows(&observed{ud: &kruise.UnitedDeployment{}}, p, &conditions.Facts{}) {
		if row.CanGoBack != (row.Name == "in-a-rollout") {
			t.Errorf("subset %s: canGoBack %t", row.Name, row.CanGoBack)
		}
	}
}
