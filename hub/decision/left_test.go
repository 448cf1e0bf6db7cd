package decision

import (
	"testing"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/topology/division"
)

// TestADrainedMemberThatIsDismissed holds that a member which is drained keeps its cell, to come back to, until it is
// selected no more: then the cell goes with its last replica, and with it the order, which a member that leaves is
// waited for.
func TestADrainedMemberThatIsDismissed(t *testing.T) {
	var last *topology.WorkloadPlacementSpec
	decide := func(workload kinds.Workload, selected bool, taint division.Effect) string {
		f := Facts{Workload: workload, Members: members("east west"), Last: last}
		f.Members[0].Selected, f.Members[0].Taint = selected, taint
		if last != nil {
			f.Reports = reports(last, 0)
		}
		d := plan(t, f)
		last = &d.Spec
		return show(d.Spec.Cells)
	}
	for _, workload := range []kinds.Workload{open(4), subsets(4, "all:")} {
		last = nil
		decide(workload, true, "")
		// More decisions than a drain of two pods, one at a time, needs.
		const enough = 12
		var drained string
		for range enough {
			drained = decide(workload, true, division.NoExecute)
		}
		var left string
		for range 2 {
			left = decide(workload, false, division.NoExecute)
		}
		at := ""
		if !workload.Open {
			at = "all/"
		}
		if drained != at+"east:0 "+at+"west:4" || left != at+"west:4" {
			t.Errorf("drained it is %q, and dismissed then %q", drained, left)
		}
	}
}
