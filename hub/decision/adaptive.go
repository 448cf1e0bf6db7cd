package decision

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/topology/division"
)

// adoptStrategy makes the times of the strategy hold for the whole decision. A divider has a strategy of its
// own for pods without a node, also that of leaving them where they are. With Fence nothing moves: a pod that waits
// can find a node just when another one takes its place.
func adoptStrategy(d *draft) *kinds.Rejection {
	if d.facts.Division != nil {
		d.workload.Adaptive, d.reschedule = d.facts.Division.Adaptive, nil
	}
	a := d.workload.Adaptive
	switch {
	case a == nil:
	case d.facts.Failover.Mode == topology.FailoverFence:
		d.workload.Adaptive = nil
		d.workload.Remarks = append(
			slices.Clone(d.workload.Remarks),
			"scheduleStrategy Adaptive is not carried out with failover.mode Fence; pods that find no node wait",
		)
	default:
		d.reschedule = &topology.Reschedule{After: a.Critical.String()}
	}
	return nil
}

// divideAdaptive divides over subsets that are filled in their order, as far as their cells take what they get; the
// next subsets get the rest. What runs stays where it is, also where an earlier subset may have it again. Where no
// subset takes the rest it stays unplaced in the first one that its numbers allow it to.
func (d *draft) divideAdaptive(in division.Input) (division.Plan, error) {
	subsets, seen := in.Subsets, d.seenIn(&in)
	in.Subsets = make([]division.Subset, len(subsets))
	for {
		shares, err := division.Overflow(in.Replicas, subsets, seen)
		if err != nil {
			return division.Plan{}, err
		}
		for i := range shares {
			n := new(intstr.FromInt32(shares[i].Replicas))
			in.Subsets[i] = division.Subset{Name: shares[i].Name, Min: n, Max: n}
		}
		plan, err := division.Divide(in)
		if err != nil {
			return division.Plan{}, err
		}
		again := false
		for i := range plan.Subsets {
			s := &plan.Subsets[i]
			s.Reason = shares[i].Reason
			if s.Placed < shares[i].Replicas && !seen[i].Unschedulable {
				seen[i] = division.Seen{
					Replicas:      s.Placed,
					Ready:         min(seen[i].Ready, s.Placed),
					Starting:      s.Placed,
					Unschedulable: true,
				}
				again = true
			}
		}
		if !again { // each round closes a subset
			return plan, nil
		}
	}
}

// seenIn sums by subset what the cells have and what of that is Ready. Pods that find no node are no part of it.
func (d *draft) seenIn(in *division.Input) []division.Seen {
	seen := make([]division.Seen, len(in.Subsets))
	at := make(map[string]*division.Seen, len(seen))
	for i := range in.Subsets {
		at[in.Subsets[i].Name] = &seen[i]
	}
	for i := range in.Cells {
		c := &in.Cells[i]
		s := at[c.Subset]
		s.Replicas += c.Current
		s.Ready += min(d.reports[c.Cluster].Use[c.Subset].Ready, c.Current)
	}
	return seen
}

// markStandIns says of cells that get more in place of pods of other subsets that they do.
func markStandIns(cells []topology.Cell, shares []division.SubsetShare, last map[cellID]*topology.Cell) {
	standIn := map[string]bool{}
	for i := range shares {
		standIn[shares[i].Name] = shares[i].Reason.Code == division.SubsetStandIn
	}
	for i := range cells {
		c := &cells[i]
		if had := last[idOf(c)]; standIn[c.Subset] && c.Replicas > 0 && (had == nil || c.Replicas > had.Replicas) {
			c.Reason = topology.Reason{Code: CellStandIn}
		}
	}
}

// adaptiveNotes say which subsets have others than their own numbers.
func adaptiveNotes(d *draft, subsets []division.Subset, shares []division.SubsetShare) []Note {
	plain, err := division.Overflow(d.workload.Replicas, subsets, nil)
	if err != nil {
		return nil // it was divided by the same numbers
	}
	var fewer, more []string
	for i := range shares {
		title := "the part in no subset"
		if shares[i].Name != "" {
			title = "subset " + shares[i].Name
		}
		switch n := shares[i].Placed - plain[i].Replicas; {
		case n < 0:
			fewer = append(fewer, fmt.Sprintf("%s has %d of its %d replicas", title, shares[i].Placed, plain[i].Replicas))
		case n > 0:
			more = append(more, fmt.Sprintf("%s has %d more", title, n))
		}
	}
	if len(fewer) == 0 || len(more) == 0 {
		return nil
	}
	return []Note{{Reason: Placed, Message: fmt.Sprintf(
		"by the strategy Adaptive %s, and instead %s; what runs stays where it is, and what is added goes to the subsets "+
			"in their order where there are nodes",
		strings.Join(fewer, ", "),
		strings.Join(more, ", "),
	)}}
}
