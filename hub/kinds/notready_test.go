package kinds

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// reported returns a Work with a report to hub.
func reported(missing int32, reasons ...work.PodReason) *work.Work {
	return &work.Work{Status: work.WorkStatus{
		Conditions: []metav1.Condition{{Type: work.ConditionApplied, Status: metav1.ConditionTrue}},
		Report: &work.Report{HubID: "hub", NotReady: reasons,
			InUse: []work.SubsetUse{{Desired: 5, Total: 5 - missing}}}}}
}

func TestPodReasonsOfMembers(t *testing.T) {
	pull := func(n int32, pod string) work.PodReason {
		return work.PodReason{Reason: "ImagePullBackOff", Container: "app", Message: "cannot pull image x", Count: n,
			Pod: pod}
	}
	nodes := func(n int32, message string) work.PodReason {
		return work.PodReason{Reason: work.ReasonUnschedulable, Message: message, Count: n, Pod: "p"}
	}
	refused := reported(2)
	refused.Status.ManifestStatuses = []work.ManifestStatus{{Status: &runtime.RawExtension{Raw: []byte(
		`{"conditions":[{"type":"FailedScale","status":"True","message":"exceeded quota: pods"}]}`)}}}
	foreign := reported(0, pull(9, "z"))
	foreign.Status.Report.HubID = "other"
	works := map[string]*work.Work{
		"east":  reported(0, pull(3, "e-1"), nodes(1, "0/3 nodes")),
		"west":  reported(0, nodes(4, "0/7 nodes"), pull(1, "w-1")),
		"south": refused, "north": foreign, "full": reported(0),
	}
	table := Workloads()
	got := table.PodReasons(table[apps.CloneSetKind.GroupKind()], "hub", works)
	want := []string{
		"Unschedulable: 0/3 nodes (5 pods: west 4, east 1; see pod p in east)",
		"ImagePullBackOff: container app cannot pull image x (4 pods: east 3, west 1; see pod e-1 in east)",
		"FailedCreate: exceeded quota: pods (2 pods: south 2)",
	}
	if len(got) != len(want) {
		t.Fatalf("%v", got)
	}
	for i := range want {
		if got[i].String() != want[i] {
			t.Errorf("%s\nwant %s", got[i], want[i])
		}
	}
}

// TestRefusedPodsOfJobs holds that the pods that a member may not create are its nodes without one.
func TestRefusedPodsOfJobs(t *testing.T) {
	w := reported(0)
	w.Status.Report.InUse[0] = work.BroadcastJobUse(&apps.BroadcastJobStatus{Desired: 5,
		NodeCounts: &apps.BroadcastJobNodeCounts{Active: 1, Touched: 3}})
	w.Status.ManifestStatuses = []work.ManifestStatus{{Status: &runtime.RawExtension{Raw: []byte(
		`{"conditions":[{"type":"FailedCreatePod","status":"True","message":"exceeded quota: pods"}]}`)}}}
	table := Workloads()
	got := table.PodReasons(table[apps.BroadcastJobKind.GroupKind()], "hub", map[string]*work.Work{"east": w})
	if want := "[FailedCreate: exceeded quota: pods (2 pods: east 2)]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}

// TestRefusedPodsOfChildren: pods that the children of a UnitedDeployment may not create are a reason, and another
// failure of its subsets is none.
func TestRefusedPodsOfChildren(t *testing.T) {
	for reason, want := range map[string]string{
		"ChildFailed": `[FailedCreate: CloneSet web-a of subset "a": exceeded quota (2 pods: east 2)]`,
		"WriteFailed": "[]",
	} {
		w := reported(2)
		w.Status.ManifestStatuses = []work.ManifestStatus{{Status: &runtime.RawExtension{Raw: []byte(
			`{"conditions":[{"type":"SubsetFailure","status":"True","reason":"` + reason +
				`","message":"CloneSet web-a of subset \"a\": exceeded quota"}]}`)}}}
		table := Workloads()
		got := table.PodReasons(table[apps.UnitedDeploymentKind.GroupKind()], "hub", map[string]*work.Work{"east": w})
		if fmt.Sprint(got) != want {
			t.Errorf("%s: %v, want %s", reason, got, want)
		}
	}
}

// TestPodReasonsAreBounded holds that 1 000 members with reasons of their own are few reasons, and few names in a
// text.
func TestPodReasonsAreBounded(t *testing.T) {
	works := map[string]*work.Work{}
	for i := range 1000 {
		works[fmt.Sprintf("m%04d", i)] = reported(0,
			work.PodReason{Reason: "ImagePullBackOff", Message: "cannot pull image x", Count: 1, Pod: "p"},
			work.PodReason{Reason: "CrashLoopBackOff", Message: fmt.Sprintf("ends with exit code %d", i), Count: 1})
	}
	table := Workloads()
	got := table.PodReasons(table[apps.CloneSetKind.GroupKind()], "hub", works)
	if len(got) != mostReasons || got[0].Count != 1000 {
		t.Fatalf("%d reasons, the first of %d pods", len(got), got[0].Count)
	}
	want := "m0000 1, m0001 1, m0002 1, 997 more members; see pod p in m0000"
	if !strings.Contains(got[0].String(), want) {
		t.Errorf("%s\nlacks %s", got[0], want)
	}
}

// TestPodReasonsThatCannotBeTrue holds that a member cannot write reasons or numbers that no member has.
func TestPodReasonsThatCannotBeTrue(t *testing.T) {
	w := reported(0, work.PodReason{Reason: "Not A Reason", Count: 1},
		work.PodReason{Reason: "Fine", Count: wire.MaxPods + 1})
	report, nonsense := Workloads().ReportOf(w)
	if nonsense == "" || len(report.NotReady) != 1 || report.NotReady[0].Count != wire.MaxPods {
		t.Errorf("%q: %v", nonsense, report.NotReady)
	}
}
