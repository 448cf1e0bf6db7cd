package aggregate

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/event"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
)

// says puts a condition into the status of the member object that a Work reports.
func says(t *testing.T, w *work.Work, conditionType string, status corev1.ConditionStatus, reason, message string) {
	t.Helper()
	var object apps.CloneSet
	if len(w.Status.ManifestStatuses) > 0 {
		if err := json.Unmarshal(w.Status.ManifestStatuses[0].Status.Raw, &object.Status); err != nil {
			t.Fatal(err)
		}
	}
	object.Status.Conditions = append(object.Status.Conditions, apps.CloneSetCondition{
		Type: apps.CloneSetConditionType(conditionType), Status: status, Reason: reason, Message: message,
	})
	raw, err := json.Marshal(object.Status)
	if err != nil {
		t.Fatal(err)
	}
	w.Status.ManifestStatuses = []work.ManifestStatus{{Status: &runtime.RawExtension{Raw: raw}}}
}

// shown is what a condition says, "none" where there is none.
func shown(status apps.CloneSetStatus, conditionType string) string {
	for _, c := range status.Conditions {
		if string(c.Type) == conditionType {
			return strings.TrimSuffix(string(c.Status)+" "+c.Reason+": "+c.Message, ": ")
		}
	}
	return "none"
}

func TestWhatMembersTell(t *testing.T) {
	long := strings.Repeat("ü", 2*maxMessage)
	tests := []struct {
		name   string
		change func(t *testing.T, f *Facts)
		want   map[string]string
	}{
		{"pods of a member wait for a hook", func(t *testing.T, f *Facts) {
			f.Works["east"] = report(5, 0, 0)
			says(t, f.Works["east"], apps.ConditionReady, "False", "WaitingForHook",
				"pod web-a waits: lifecycle.preNormal: label a=b is not on the pod yet")
		}, map[string]string{
			"Ready":   "False WaitingForHook: east: pod web-a waits: lifecycle.preNormal: label a=b is not on the pod yet",
			"Stalled": "False NotStalled",
		}},
		{"a member is stalled and pods miss", func(t *testing.T, f *Facts) {
			f.Works["east"] = report(5, 0, 0)
			says(t, f.Works["east"], apps.ConditionStalled, "True", "InvalidTemplate", "correct the template")
		}, map[string]string{
			"Stalled":     "True InvalidTemplate: east: correct the template",
			"Ready":       "False InvalidTemplate: east: correct the template",
			"Reconciling": "False InvalidTemplate", "Progressing": "True CloneSetUpdated: CloneSet is progressing",
		}},
		{"Case4: a member past its deadline waits for a person", func(t *testing.T, f *Facts) {
			f.Works["east"] = report(5, 3, 3)
			says(t, f.Works["east"], apps.ConditionProgressing, "False", "ProgressDeadlineExceeded", "3 of 4 pods are available")
			says(t, f.Works["east"], apps.ConditionStalled, "True", "ProgressDeadlineExceeded", "ContainerFailing: pod web-a")
		}, map[string]string{
			"Stalled":     "True ProgressDeadlineExceeded: east: ContainerFailing: pod web-a",
			"Progressing": "False ProgressDeadlineExceeded: CloneSet revision web-new has timed out progressing",
		}},
		{"Case4: a stall with the reason of a deadline, and no deadline", func(t *testing.T, f *Facts) {
			f.Works["east"] = report(5, 3, 3)
			says(t, f.Works["east"], apps.ConditionStalled, "True", "ProgressDeadlineExceeded", "pod web-a waits")
		}, map[string]string{"Progressing": "True CloneSetUpdated: CloneSet is progressing",
			"Ready": "False ProgressDeadlineExceeded: east: pod web-a waits"}},
		{"two are: the first by name speaks, the other one is counted", func(t *testing.T, f *Facts) {
			says(t, f.Works["west"], apps.ConditionStalled, "True", "InvalidTemplate", "in the west")
			says(t, f.Works["east"], apps.ConditionStalled, "True", "LifecycleNotSupported", "in the east")
		}, map[string]string{"Stalled": "True LifecycleNotSupported: east: in the east; and 1 more"}},
		{"an object that stands in the way counts like that", func(t *testing.T, f *Facts) {
			f.Works["east"].Status.Conditions[0] = metav1.Condition{Type: work.ConditionApplied, Status: metav1.ConditionFalse,
				Reason: work.ReasonConflict, Message: "not ours"}
			says(t, f.Works["west"], apps.ConditionStalled, "True", "InvalidTemplate", "in the west")
		}, map[string]string{"Stalled": "True Conflict: east: not ours; and 1 more"}},
		{"a long message is cut", func(t *testing.T, f *Facts) {
			says(t, f.Works["east"], apps.ConditionStalled, "True", "InvalidTemplate", long)
		}, map[string]string{"Stalled": "True InvalidTemplate: east: " + long[:maxMessage*len("ü")] + " …"}},
		{"what is tried again is no stall", func(t *testing.T, f *Facts) {
			f.Works["east"] = report(5, 0, 0)
			says(t, f.Works["east"], "FailedScale", "True", "Retrying", "exceeded quota")
		}, map[string]string{
			"Stalled": "False NotStalled", "Ready": "False FailedScale: east: exceeded quota",
			"Reconciling": "True FailedScale: east: exceeded quota",
			"FailedScale": "True Retrying: east: exceeded quota", "FailedUpdate": "none",
		}},
		{"updates that fail", func(t *testing.T, f *Facts) {
			f.Works["west"] = report(4, 2, 0)
			says(t, f.Works["west"], "FailedUpdate", "True", "Retrying", "refused")
		}, map[string]string{"FailedUpdate": "True Retrying: west: refused", "Ready": "False FailedUpdate: west: refused",
			"Stalled": "False NotStalled"}},
		{"conditions that are not True say nothing", func(t *testing.T, f *Facts) {
			says(t, f.Works["east"], apps.ConditionStalled, "False", "NotStalled", "")
			says(t, f.Works["east"], "FailedScale", "False", "Retrying", "over")
		}, map[string]string{"Stalled": "False NotStalled", "Ready": "True AllAvailable: 6 of 6 pods are available",
			"FailedScale": "none"}},
		{"the member has not answered its newest order: the stall is of before", func(t *testing.T, f *Facts) {
			f.Works["east"] = report(4, 4, 4)
			says(t, f.Works["east"], apps.ConditionStalled, "True", "InvalidTemplate", "old")
		}, map[string]string{"Stalled": "False NotStalled"}},
		{"the agent has not applied the newest manifest yet", func(t *testing.T, f *Facts) {
			f.Works["east"].Generation = 7
			f.Works["east"].Status.Conditions[0].ObservedGeneration = 6
			says(t, f.Works["east"], apps.ConditionStalled, "True", "InvalidTemplate", "old")
		}, map[string]string{"Stalled": "False NotStalled"}},
		{"the report is of another hub", func(t *testing.T, f *Facts) {
			f.Works["east"].Status.Report.HubID = "other"
			says(t, f.Works["east"], apps.ConditionStalled, "True", "InvalidTemplate", "old")
		}, map[string]string{"Stalled": "False NotStalled"}},
		{"a member is stalled and another one is not Ready", func(t *testing.T, f *Facts) {
			says(t, f.Works["east"], apps.ConditionStalled, "True", "InvalidTemplate", "correct it")
			f.NotReady["west"] = true
		}, map[string]string{
			"Stalled": "True InvalidTemplate: east: correct it", "Reconciling": "False InvalidTemplate",
			"Ready": "False InvalidTemplate: east: correct it; member west not ready: their numbers are the last that they " +
				"reported",
		}},
		{"the numbers are right by chance while a member is stalled", func(t *testing.T, f *Facts) {
			f.Works["east"], f.Works["west"] = report(5, 3, 3), report(4, 3, 3)
			says(t, f.Works["west"], apps.ConditionStalled, "True", "InvalidTemplate", "correct it")
		}, map[string]string{"Stalled": "True InvalidTemplate: west: correct it", "Reconciling": "False InvalidTemplate"}},
		{"nothing moves in two members", func(t *testing.T, f *Facts) {
			f.Works["east"], f.Works["west"] = report(5, 3, 3), report(4, 1, 1)
			says(t, f.Works["east"], apps.ConditionProgressing, "False", "ProgressDeadlineExceeded",
				"CloneSet revision web-1 has timed out progressing")
			says(t, f.Works["west"], apps.ConditionProgressing, "False", "ProgressDeadlineExceeded",
				"CloneSet revision web-2 has timed out progressing")
		}, map[string]string{
			"Progressing": "False ProgressDeadlineExceeded: CloneSet revision web-new has timed out progressing",
			"Ready": "False Scaling: 4 pods exist, 6 are wanted; east: CloneSet revision web-1 has timed out " +
				"progressing; and 1 more",
			"Reconciling": "True Scaling: 4 pods exist, 6 are wanted; east: CloneSet revision web-1 has timed out " +
				"progressing; and 1 more", "Stalled": "False NotStalled",
		}},
		{"a member does not progress for another reason", func(t *testing.T, f *Facts) {
			f.Works["east"] = report(5, 3, 3)
			says(t, f.Works["east"], apps.ConditionProgressing, "False", "InvalidTemplate", "correct it")
		}, map[string]string{"Progressing": "True CloneSetUpdated: CloneSet is progressing"}},
		{"what is complete has no deadline", func(t *testing.T, f *Facts) {
			says(t, f.Works["east"], apps.ConditionProgressing, "False", "ProgressDeadlineExceeded", "of before")
		}, map[string]string{"Progressing": "True CloneSetAvailable: CloneSet is available"}},
		{"a status that cannot be read says nothing", func(_ *testing.T, f *Facts) {
			f.Works["east"].Status.ManifestStatuses = []work.ManifestStatus{{Status: &runtime.RawExtension{Raw: []byte(`{"conditions":3}`)}}}
		}, map[string]string{"Stalled": "False NotStalled"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cs, f := example()
			tt.change(t, f)
			sum := Summarise(f)
			got := cloneSetStatus(cs, f, &sum, time.Unix(100, 0))
			for conditionType, want := range tt.want {
				if is := shown(got, conditionType); is != want {
					t.Errorf("%s is %q, want %q", conditionType, is, want)
				}
			}
		})
	}
}

func TestAFailureThatIsOverGoes(t *testing.T) {
	cs, f := example()
	says(t, f.Works["east"], "FailedScale", "True", "Retrying", "exceeded quota")
	sum := Summarise(f)
	cs.Status = cloneSetStatus(cs, f, &sum, time.Unix(100, 0))
	if is := shown(cs.Status, "FailedScale"); is != "True Retrying: east: exceeded quota" {
		t.Fatal(is)
	}
	_, f = example()
	sum = Summarise(f)
	if is := shown(cloneSetStatus(cs, f, &sum, time.Unix(200, 0)), "FailedScale"); is != "none" {
		t.Error(is)
	}
}

// A UnitedDeployment that refuses its order never answers it, and is stalled by it all the same.
func TestStalledUnitedDeploymentOfAMember(t *testing.T) {
	_, f := example()
	f.Key.Kind = apps.UnitedDeploymentKind.Kind
	f.observe(&apps.UnitedDeployment{})
	f.Works["east"] = report(0, 0, 0)
	says(t, f.Works["east"], apps.ConditionStalled, "True", "ChildRefused", "correct the patch")
	says(t, f.Works["west"], string(apps.SubsetFailure), "True", "WriteFailed", "no answer")
	sum := Summarise(f)
	ud := &apps.UnitedDeployment{}
	got := map[string]string{}
	for _, c := range unitedDeploymentStatus(ud, f, &sum, time.Unix(100, 0)).Conditions {
		got[string(c.Type)] = string(c.Status) + " " + c.Reason + ": " + c.Message
	}
	for conditionType, want := range map[string]string{
		"Stalled": "True ChildRefused: east: correct the patch", "Reconciling": "False ChildRefused: ",
		"SubsetFailure": "True ChildRefused: east: correct the patch",
	} {
		if got[conditionType] != want {
			t.Errorf("%s is %q, want %q", conditionType, got[conditionType], want)
		}
	}
	if sum.Failed == nil || sum.Failed.Message != "west: no answer" {
		t.Errorf("failed: %+v", sum.Failed)
	}
}

func TestNewsOfMembersAreSeen(t *testing.T) {
	before := report(5, 4, 4)
	says(t, before, apps.ConditionStalled, "False", "NotStalled", "")
	after := before.DeepCopy()
	says(t, after, apps.ConditionReady, "True", "AllAvailable", "")
	if statusChanged(nil).Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}) {
		t.Error("a condition that the hub does not read wakes it")
	}
	after = report(5, 4, 4)
	says(t, after, apps.ConditionStalled, "True", "InvalidTemplate", "")
	if !statusChanged(nil).Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}) {
		t.Error("a stall of a member wakes nobody")
	}
}
