package aggregate

import (
	"testing"

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
