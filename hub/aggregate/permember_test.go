package aggregate

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/decision"
	"github.com/flotilla-dev/flotilla/hub/kinds"
)

// perMember is an object that each member has whole, at rest on order 5: 4 pods in east, 2 in west.
func perMember() *Facts {
	_, f := example()
	f.Kind, f.Observed = kinds.Kind{Mode: kinds.PerMember}, kinds.Observed{}
	for i := range f.Placement.Spec.Cells {
		f.Placement.Spec.Cells[i].Granted.Updated = f.Placement.Spec.Cells[i].Replicas
	}
	return f
}

// outdated leaves one of the two pods in west on the previous revision.
func outdated(f *Facts) {
	u := &f.Works["west"].Status.Report.InUse[0]
	u.Updated, u.UpdatedReady, u.UpdatedAvailable = 1, 1, 1
}

func TestPerMemberSum(t *testing.T) {
	for name, tt := range map[string]struct {
		change             func(*Facts)
		desired, available int32
		done               bool
	}{
		"at rest":                             {func(*Facts) {}, 6, 6, true},
		"a member got a node and a pod on it": {func(f *Facts) { f.Works["west"] = report(5, 3, 3) }, 7, 7, true},
		"a member got a node and has no pod on it yet": {func(f *Facts) {
			f.Works["west"].Status.Report.InUse[0].Desired = 3
		}, 7, 6, false},
		"a member has not reported": {func(f *Facts) {
			f.Placement.Spec.Cells[1].Replicas, f.Works["west"] = 0, &work.Work{}
		}, 4, 4, false},
		"a member is on its way out": {func(f *Facts) {
			c := &f.Placement.Spec.Cells[1]
			c.Replicas, c.Granted, c.Sequence, c.Reason.Code = 0, topology.Budget{}, 6, decision.CellDeselected
			f.Placement.Spec.Limits[0].Updated = 4
		}, 4, 4, true},
		"the kind has no limits": {func(f *Facts) {
			f.Placement.Spec.Limits = nil
		}, 6, 6, true},
		"some nodes cannot be updated": {func(f *Facts) {
			outdated(f)
			f.Works["west"].Status.Report.InUse[0].NotUpdatable = 1
		}, 6, 6, true},
		"a node that can be updated is lost": {func(f *Facts) {
			outdated(f)
			f.Works["west"].Status.Report.InUse[0].LostOutdated = 1
		}, 6, 6, false},
		"nodes have no pod by choice": {func(f *Facts) {
			u := &f.Works["west"].Status.Report.InUse[0]
			u.Desired, u.Withheld = 4, 2
		}, 6, 6, true},
		"nothing is placed": {func(f *Facts) {
			f.Placement, f.Works = nil, nil
		}, 0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := perMember()
			tt.change(f)
			s := Summarise(f)
			if s.Whole.Desired != tt.desired || s.Whole.Available != tt.available || s.Done() != tt.done {
				t.Errorf("done %t with %+v", s.Done(), s)
			}
			if got := statusSum(f, &s); f.desired(&s) != tt.desired || got.Whole.Desired != tt.desired {
				t.Errorf("the status has %+v", got.Whole)
			}
		})
	}
}

// TestHeldByAMember: what holds a workload in a member is the reason on the hub while it is not complete.
func TestHeldByAMember(t *testing.T) {
	f := perMember()
	f.Kind.Held = []string{"NodesLost"}
	f.Works["west"].Status.Report.InUse[0].Available = 1
	says(t, f.Works["west"], apps.ConditionReady, "False", "NodesLost", "1 of 2 pods are available")
	s := Summarise(f)
	for _, c := range statusSum(f, &s).Conditions {
		if c.Type == apps.ConditionReady && (c.Reason != "NodesLost" || c.Message != "west: 1 of 2 pods are available") {
			t.Errorf("%+v", c)
		}
	}
	if s.Held == nil {
		t.Error("nothing holds it")
	}
}

// TestOneMemberAlone: the workload is at rest while one member runs it, and not before the next one does; what a fenced
// member reported last does not count.
func TestOneMemberAlone(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*Facts)
		done   bool
		stale  int
	}{
		"one runs it": {func(*Facts) {}, true, 0},
		"it moves": {func(f *Facts) {
			f.Placement.Spec.Placed, f.Placement.Spec.Cells[0].Replicas = 0, 0
			f.Works["east"] = report(5, 0, 0)
		}, false, 0},
		"the one on standby is unreachable":   {func(f *Facts) { f.NotReady["west"] = true }, true, 0},
		"the one that runs it is unreachable": {func(f *Facts) { f.NotReady["east"] = true }, true, 1},
		"a fenced one": {func(f *Facts) {
			f.NotReady["west"], f.Works["west"] = true, report(4, 1, 1)
			f.Placement.Spec.Cells[1].Reason.Code = decision.CellTicksMoved
		}, true, 0},
	} {
		f := perMember()
		spec := &f.Placement.Spec
		spec.Limits, spec.Replicas, spec.Placed = nil, 1, 1
		for i := range spec.Cells {
			spec.Cells[i].Granted, spec.Cells[i].Ticks = topology.Budget{}, &topology.Ticks{Alone: true}
		}
		spec.Cells[0].Replicas, spec.Cells[0].Reason.Code = 1, decision.CellAlone
		spec.Cells[1].Replicas, spec.Cells[1].Reason.Code = 0, decision.CellStandby
		f.Works["east"], f.Works["west"] = report(5, 1, 0), report(5, 0, 0)
		tt.change(f)
		s := Summarise(f)
		if s.Done() != tt.done || len(s.Stale) != tt.stale || s.Whole.Available > 1 {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// TestWhatHappenedIsNoFailure: a condition about the past is passed on, and nothing waits for it.
func TestWhatHappenedIsNoFailure(t *testing.T) {
	f := perMember()
	f.Kind.Failures = []kinds.Failure{{Type: "TicksMissed", Past: true}}
	f.Works["west"].Status.ManifestStatuses = []work.ManifestStatus{{Status: &runtime.RawExtension{
		Raw: []byte(`{"conditions":[{"type":"TicksMissed","status":"True","reason":"TooLate","message":"1 tick"}]}`)}}}
	s := Summarise(f)
	if cause := s.Failures["TicksMissed"]; cause == nil || cause.Message != "west: 1 tick" || s.Failed != nil || !s.Done() {
		t.Errorf("%+v", s)
	}
}

// TestJobSum: the newest halt of the members counts, and none of a member that is on its way out, nor after the end.
func TestJobSum(t *testing.T) {
	halt := func(seconds int64, message string) *work.JobHalt {
		return &work.JobHalt{Time: metav1.Unix(seconds, 0), Reason: "CheckFailed", Message: message}
	}
	for name, tt := range map[string]struct {
		change func(*Facts)
		want   string
	}{
		"none":    {func(*Facts) {}, ""},
		"one":     {func(f *Facts) { f.Works["west"].Status.Report.Halted = halt(1, "a") }, "west: a"},
		"two":     {func(f *Facts) { f.Works["west"].Status.Report.Halted = halt(9, "later") }, "west: later"},
		"it left": {func(f *Facts) { f.Placement.Spec.Cells[1].Reason.Code = decision.CellDeselected }, ""},
		"the end": {func(f *Facts) { f.Placement.Spec.End = &topology.JobEnd{} }, ""},
		"a job that failed": {func(f *Facts) {
			f.Works["west"].Status.Report.Halted = halt(1, "a")
			f.Works["west"].Status.Report.Halted.Failed = true
		}, ""},
	} {
		f := perMember()
		switch name {
		case "two":
			f.Works["east"].Status.Report.Halted = halt(3, "sooner")
		case "it left", "the end":
			f.Works["west"].Status.Report.Halted = halt(1, "a")
		}
		tt.change(f)
		s := Summarise(f)
		sum := statusSum(f, &s)
		got := ""
		if sum.Job.Halted != nil {
			got = sum.Job.Halted.Message
		}
		if got != tt.want || sum.Job.End != f.Placement.Spec.End {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
	f := perMember()
	s := Summarise(f)
	if !statusSum(f, &s).Job.Proven {
		t.Error("all nodes are proven")
	}
	f.Works["west"].Status.Report.InUse[0].UpdatedAvailable = 0
	if s = Summarise(f); statusSum(f, &s).Job.Proven {
		t.Error("a node is not proven")
	}
}
