package aggregate

import (
	"strings"
	"testing"
	"time"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
)

// failing is a report of a member whose pods have reasons.
func failing(sequence int64, ready int32, reasons ...work.PodReason) *work.Work {
	w := report(sequence, 4, 4)
	use := &w.Status.Report.InUse[0]
	use.Ready, use.Available, use.UpdatedReady, use.UpdatedAvailable = ready, ready, ready, ready
	w.Status.Report.NotReady = reasons
	return w
}

// TestReasonsOfPodsInConditions holds what a user reads on a workload whose pods are not Ready in members.
func TestReasonsOfPodsInConditions(t *testing.T) {
	pull := work.PodReason{Reason: "ImagePullBackOff", Container: "app", Message: "cannot pull image x", Count: 2,
		Pod: "web-a"}
	crash := work.PodReason{Reason: "CrashLoopBackOff", Container: "app", Message: "ends with exit code 3", Count: 1,
		Pod: "web-b"}
	const pullText = "ImagePullBackOff: container app cannot pull image x (2 pods: east 2; see pod web-a in east)"
	const crashText = "CrashLoopBackOff: container app ends with exit code 3 (1 pod: east 1; see pod web-b in east)"
	for name, tc := range map[string]struct {
		change       func(*Facts)
		ready, other string
	}{
		"two reasons": {func(f *Facts) { f.Works["east"] = failing(5, 1, pull, crash) },
			"False PodsNotAvailable: 3 of 6 pods are available; " + pullText,
			"True ImagePullBackOff: " + pullText + "; " + crashText},
		"none": {func(*Facts) {}, "True AllAvailable: 6 of 6 pods are available", "none"},
		"a pod that is not gone, of a workload at rest": {func(f *Facts) {
			f.Works["east"] = failing(5, 4, work.PodReason{Reason: "PodTerminating", Message: "kept", Count: 1, Pod: "web-a"})
		}, "True AllAvailable: 6 of 6 pods are available",
			"True PodTerminating: PodTerminating: kept (1 pod: east 1; see pod web-a in east)"},
		"an unreachable member": {func(f *Facts) {
			f.Works["east"], f.NotReady["east"] = failing(5, 1, pull), true
		}, "", "none"},
	} {
		t.Run(name, func(t *testing.T) {
			cs, f := example()
			tc.change(f)
			sum := Summarise(f)
			got := cloneSetStatus(cs, f, &sum, time.Unix(100, 0))
			if is := shown(got, apps.ConditionReady); tc.ready != "" && is != tc.ready {
				t.Errorf("Ready is %q, want %q", is, tc.ready)
			}
			if is := shown(got, apps.ConditionPodsNotReady); is != tc.other {
				t.Errorf("PodsNotReady is %q, want %q", is, tc.other)
			}
		})
	}
}

// TestReasonsThatAreOverGo holds that the condition goes with the last reason.
func TestReasonsThatAreOverGo(t *testing.T) {
	cs, f := example()
	f.Works["east"] = failing(5, 1, work.PodReason{Reason: "ImagePullBackOff", Message: "x", Count: 3})
	sum := Summarise(f)
	cs.Status = cloneSetStatus(cs, f, &sum, time.Unix(100, 0))
	if is := shown(cs.Status, apps.ConditionPodsNotReady); !strings.HasPrefix(is, "True ImagePullBackOff") {
		t.Fatal(is)
	}
	_, f = example()
	sum = Summarise(f)
	if is := shown(cloneSetStatus(cs, f, &sum, time.Unix(200, 0)), apps.ConditionPodsNotReady); is != "none" {
		t.Error(is)
	}
}
