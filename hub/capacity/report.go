package capacity

import (
	"cmp"
	"time"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
)

// Report is the newest report of a member about this placement.
type Report struct {
	Sequence int64
	// At is when the agent saw it, by its own clock.
	At time.Time
	// Applied: the member object stands as some order of this placement said.
	Applied bool
	// Use is by subset, "" for a kind without subsets.
	Use map[string]work.SubsetUse
	// Unschedulable are the pods that find no node, by subset and zone.
	Unschedulable []work.UnschedulablePods
	// HandOver are the last values of the pods, nil for none, and HandedOver the ordinals whose pods got some.
	HandOver   *topology.HandOverValues
	HandedOver []int32
	// States are the pods in states of probes, by label as key=value or condition as type=status.
	States []work.PodState
	// Halted says why a job halted or failed there, nil if it did neither.
	Halted *work.JobHalt
}

// Waiting returns how many pods of a subset find no node, in all zones of the member; with "" those of a kind without
// subsets, in all subsets of the object that divides the workload.
func (r *Report) Waiting(subset string) int32 {
	var n int32
	for _, u := range r.Unschedulable {
		if u.Subset == subset || subset == "" {
			n += u.Pods
		}
	}
	return n
}

// WaitingIn returns how many pods of a cell find no node. A subset's cell is one, whatever zones its member has.
func (r *Report) WaitingIn(c *topology.Cell) int32 {
	var n int32
	subset := cmp.Or(c.Subset, c.SpreadSubset)
	for _, u := range r.Unschedulable {
		if u.Subset == subset && (subset != "" || c.Zone == "" || c.Zone == u.Zone) {
			n += u.Pods
		}
	}
	return n
}
