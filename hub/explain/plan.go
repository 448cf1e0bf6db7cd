package explain

import (
	"cmp"
	"slices"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/decision"
	"github.com/flotilla-dev/flotilla/hub/forecast"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// Planned is what the hub would do about a workload.
type Planned struct {
	Key       wire.Key `json:"-"`
	Kind      string   `json:"kind"`
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	// PerMember: a member has the whole object, and decides how many pods that are. The numbers are what it reported.
	PerMember bool   `json:"perMember,omitempty"`
	Replicas  int32  `json:"replicas"`
	Placed    int32  `json:"placed"`
	Policy    string `json:"policy,omitempty"`
	// Reason and Message are those that the condition Federated would have. Both are empty where the workload is not the
	// hub's.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Decided: the hub makes a decision; else what is placed stays, or is removed.
	Decided bool `json:"decided"`
	// Complete: every replica has a cell, or gets one as the pods that it replaces go, and nothing needs a person.
	Complete bool `json:"complete"`
	// Removed: what is placed would be removed from the members.
	Removed bool `json:"removed,omitempty"`
	// Cells are those of the decision; where none is made, those that stay.
	Cells    []PlannedCell    `json:"cells"`
	Unplaced []UnplacedAnswer `json:"unplaced,omitempty"`
	// Changes say how the replicas of cells change against the present placement, as "east/a 3 → 4".
	Changes []string `json:"changes,omitempty"`
	// Moved is how many replicas leave a cell for another one.
	Moved int32 `json:"moved"`
}

// PlannedCell is one cell of a plan.
type PlannedCell struct {
	Cluster  string `json:"cluster"`
	Zone     string `json:"zone,omitempty"`
	Subset   string `json:"subset,omitempty"`
	Replicas int32  `json:"replicas"`
	// Present is how many the cell has by the present placement.
	Present int32           `json:"present"`
	Reason  topology.Reason `json:"reason"`
	// Passed: the reason is of a time that is over, such as a taint that is taken away. A number that stays keeps its
	// reason.
	Passed bool   `json:"passed,omitempty"`
	Why    string `json:"why"`
}

// Plan tells an outcome in words. It is pure.
func Plan(key wire.Key, o *forecast.Forecast) Planned {
	p := Planned{
		Key:       key,
		Kind:      key.Kind,
		Namespace: key.Namespace,
		Name:      key.Name,
		PerMember: o.Mode == kinds.PerMember,
		Replicas:  o.Workload.Replicas,
		Removed:   o.Remove,
		Cells:     []PlannedCell{},
	}
	if v := o.Outcome; v != nil {
		p.Reason, p.Message, p.Decided = v.Reason, v.Message, v.Decided
	}
	var present, next []topology.Cell
	var unplaced []topology.Unplaced
	var policy *topology.PolicyReference
	if o.Present != nil {
		present, unplaced, policy = o.Present.Spec.Cells, o.Present.Spec.Unplaced, o.Present.Spec.Policy
		next = present
	}
	switch {
	case o.Next != nil:
		next, unplaced, policy = o.Next.Cells, o.Next.Unplaced, o.Next.Policy
	case o.Remove:
		next, unplaced = nil, nil
	}
	if policy != nil {
		p.Policy = policy.Kind + " " + policy.Name
	}
	had := map[[3]string]int32{}
	for i := range present {
		had[placeOf(&present[i])] += present[i].Replicas
	}
	for i := range next {
		c := &next[i]
		why, _ := Cell(c.Reason)
		over := had[placeOf(c)] == c.Replicas && passed(c.Reason.Code, o.Blockers(c.Cluster, c.Subset))
		if over {
			why += "; " + isOver
		}
		p.Cells = append(
			p.Cells,
			PlannedCell{c.Cluster, c.Zone, subsetOf(c), c.Replicas, had[placeOf(c)], c.Reason, over, why},
		)
		p.Placed += c.Replicas - c.Replaced
	}
	for _, u := range unplaced {
		why, _ := Unplaced(u.Reason)
		p.Unplaced = append(p.Unplaced, UnplacedAnswer{u.Subset, u.Replicas, u.Reason, why, Anchor(u.Reason.Code)})
	}
	if p.PerMember {
		p.Replicas = p.Placed
	}
	p.Complete = p.Decided && !o.Outcome.Stalled &&
		!slices.ContainsFunc(unplaced, func(u topology.Unplaced) bool { return u.Reason.Code != decision.UnplacedMoving })
	if len(present) > 0 {
		p.Changes = Moves(present, next)
		p.Moved = moved(present, next)
	}
	return p
}

func placeOf(c *topology.Cell) [3]string { return [3]string{subsetOf(c), c.Cluster, c.Zone} }

// subsetOf is the subset of a cell, be it the workload's own or that of a WorkloadSpread.
func subsetOf(c *topology.Cell) string { return cmp.Or(c.Subset, c.SpreadSubset) }

// moved is how many replicas cells give up while others gain them.
func moved(before, after []topology.Cell) int32 {
	change := map[[3]string]int32{}
	for i := range before {
		change[placeOf(&before[i])] -= before[i].Replicas
	}
	for i := range after {
		change[placeOf(&after[i])] += after[i].Replicas
	}
	var up, down int32
	for _, n := range change {
		up, down = up+max(n, 0), down+max(-n, 0)
	}
	return min(up, down)
}
