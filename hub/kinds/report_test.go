package kinds

import (
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// TestCase2OverwrittenPodsAreNotUpdated: pods of an object that another writer contests hold their share, and move no
// wave on.
func TestCase2OverwrittenPodsAreNotUpdated(t *testing.T) {
	use := work.SubsetUse{Desired: 3, Total: 3, Ready: 3, Available: 3, Updated: 3, UpdatedReady: 3, UpdatedAvailable: 3}
	w := &work.Work{}
	w.Status.Report = &work.Report{Sequence: 1, InUse: []work.SubsetUse{use}}
	for _, tc := range []struct {
		status metav1.ConditionStatus
		reason string
		want   int32
	}{
		{metav1.ConditionTrue, work.ReasonApplied, 3},
		{metav1.ConditionFalse, work.ReasonApplyFailed, 3},
		{metav1.ConditionFalse, work.ReasonOverwritten, 0},
	} {
		w.Status.Conditions = []metav1.Condition{{Type: work.ConditionApplied, Status: tc.status, Reason: tc.reason}}
		got, nonsense := Workloads().ReportOf(w)
		if u := got.InUse[0]; nonsense != "" || u.Updated != 3 || u.UpdatedReady != tc.want || u.UpdatedAvailable != tc.want {
			t.Errorf("%s: %+v %s", tc.reason, u, nonsense)
		}
		if w.Status.Report.InUse[0] != use {
			t.Errorf("%s: the Work was changed", tc.reason)
		}
	}
}

func TestReportOf(t *testing.T) {
	use := func(u work.SubsetUse) []work.SubsetUse { return []work.SubsetUse{u} }
	ok := work.SubsetUse{Desired: 3, Total: 4, Ready: 4, Available: 3, Updated: 2, UpdatedReady: 2, UpdatedAvailable: 1}
	cases := []struct {
		name     string
		order    string
		report   *work.Report
		want     *work.Report
		nonsense string
	}{
		{"none", "1", nil, nil, ""},
		{"a true one", "1", &work.Report{Sequence: 1, InUse: use(ok)}, &work.Report{Sequence: 1, InUse: use(ok)}, ""},
		{"one of a hub that was restored since", "1", &work.Report{Sequence: 900}, &work.Report{Sequence: 900}, ""},
		{
			"negative pods without a node", "1", &work.Report{Sequence: 1,
				Unschedulable: []work.UnschedulablePods{{Subset: "a", Pods: -5}, {Subset: "b", Pods: 2}}},
			&work.Report{Sequence: 1, Unschedulable: []work.UnschedulablePods{{Subset: "a"}, {Subset: "b", Pods: 2}}},
			"-5 pods that find no node",
		},
		{
			"negative pods", "1", &work.Report{Sequence: 1,
				InUse: use(work.SubsetUse{Subset: "a", Desired: 2, Total: 2, Ready: -5})},
			&work.Report{Sequence: 1, InUse: use(work.SubsetUse{Subset: "a", Desired: 2, Total: 2})},
			"-5 pods (ready) of subset a",
		},
		{
			"more pods than a cluster holds", "1", &work.Report{Sequence: 1,
				InUse: use(work.SubsetUse{Desired: 2, Total: math.MaxInt32, Ready: math.MaxInt32})},
			&work.Report{Sequence: 1, InUse: use(work.SubsetUse{Desired: 2, Total: wire.MaxPods, Ready: wire.MaxPods})},
			"2147483647 pods (total)",
		},
		{
			"more ready pods than pods, as a controller may say for a moment", "1",
			&work.Report{Sequence: 1, InUse: use(work.SubsetUse{Desired: 2, Total: 2, Ready: 3, Updated: 9})},
			&work.Report{Sequence: 1, InUse: use(work.SubsetUse{Desired: 2, Total: 2, Ready: 2, Updated: 2})}, "",
		},
		{"the largest number there is", "4", &work.Report{Sequence: math.MaxInt64}, &work.Report{},
			"order 9223372036854775807, which nobody gave"},
		{"an order that the agent wrote on the Work too", "9223372036854775807", &work.Report{Sequence: math.MaxInt64},
			&work.Report{}, "order 9223372036854775807, which nobody gave"},
		{"the last one that is believed", "1", &work.Report{Sequence: wire.AcceptedSequence},
			&work.Report{Sequence: wire.AcceptedSequence}, ""},
		{"the first one that is not", "1", &work.Report{Sequence: wire.AcceptedSequence + 1}, &work.Report{},
			"order 9008298766368769, which nobody gave"},
		{"a negative order", "4", &work.Report{Sequence: -1}, &work.Report{}, "order -1, which nobody gave"},
		{"a large order that the hub gave", "9007199254740999", &work.Report{Sequence: 9007199254740999},
			&work.Report{Sequence: 9007199254740999}, ""},
		{"the largest epoch and counter count for nothing", "1",
			&work.Report{Sequence: 1, Epoch: math.MaxInt64, Counter: math.MaxInt64},
			&work.Report{Sequence: 1, Epoch: math.MaxInt64, Counter: math.MaxInt64}, ""},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			w := &work.Work{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{topology.AnnotationSequence: tc.order}}}
			w.Status.Report = tc.report
			before := w.DeepCopy()
			got, nonsense := Workloads().ReportOf(w)
			if diff := cmp.Diff(tc.want, got); diff != "" || nonsense != tc.nonsense {
				t.Errorf("nonsense %q, want %q; report (-want +got):\n%s", nonsense, tc.nonsense, diff)
			}
			if diff := cmp.Diff(before, w); diff != "" {
				t.Errorf("the Work was changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestPodsOfLeavesOutWhatEachMemberHas(t *testing.T) {
	divided := wire.Key{Group: "a", Kind: "Rack", Namespace: "ns", Name: "web"}
	whole := wire.Key{Group: "a", Kind: "Beacon", Name: "lamp"}
	table := Table{divided.GroupKind(): {Mode: Divide}, whole.GroupKind(): {Mode: PerMember}}
	var works []work.Work
	for _, key := range []wire.Key{divided, whole} {
		w := work.Work{}
		w.Annotations = map[string]string{topology.AnnotationWorkload: key.String()}
		w.Status.Report = &work.Report{InUse: []work.SubsetUse{{Total: 3}}}
		works = append(works, w)
	}
	if of, sum := table.PodsOf(works); sum != 3 || len(of) != 1 || of[0] != (Pods{Key: divided, Count: 3}) {
		t.Errorf("%d pods: %+v", sum, of)
	}
}

func TestPodsOfHasTheScheduleOfOneMember(t *testing.T) {
	w := work.Work{}
	key := wire.Key{Group: apps.AdvancedCronJobKind.Group, Kind: "AdvancedCronJob", Namespace: "shop", Name: "clean"}
	w.Annotations = map[string]string{topology.AnnotationWorkload: key.String()}
	ordered := func(ticks string) {
		w.Spec.Workload.Manifests = []work.Manifest{{RawExtension: runtime.RawExtension{Raw: fmt.Appendf(nil,
			`{"metadata":{"annotations":{"topology.flotilla.dev/ticks":%q}}}`, ticks)}}}
	}
	w.Status.Report = &work.Report{InUse: []work.SubsetUse{{Total: 1}}}
	for _, tc := range []struct {
		ticks string
		total int32
		want  bool
	}{
		{`{"alone":true}`, 1, true}, {`{"alone":true}`, 0, false}, {`{"at":"2026-03-01T14:30:00Z"}`, 1, false},
		{"", 1, false},
	} {
		ordered(tc.ticks)
		w.Status.Report.InUse[0].Total = tc.total
		of, sum := Workloads().PodsOf([]work.Work{w})
		if sum != 0 || (len(of) == 1 && of[0].Schedule) != tc.want {
			t.Errorf("%s, total %d: %d pods of %+v", tc.ticks, tc.total, sum, of)
		}
	}
}
