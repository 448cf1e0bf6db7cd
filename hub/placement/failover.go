package placement

import (
	"fmt"
	"slices"
	"time"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/topology/failover"
)

const (
	// sureAfter is how long the hub must have been in contact with its API server before it gives a member up: as long as
	// a member that is alive may be silent.
	sureAfter = 40 * time.Second
	// defaultAfter holds where the schema's default was not applied.
	defaultAfter = 5 * time.Minute
)

// ParamAfter is the parameter of the reason CellLost that says how long a member is NotReady until it is lost.
const ParamAfter = "after"

// judge tells each of some members what it counts as under a policy's failover. It returns when that can change by time
// alone, 0 for never.
func judge(s *state, members []Member, f *topology.Failover) (again time.Duration) {
	if f.Mode != topology.FailoverReplace && f.Mode != topology.FailoverFence {
		return 0
	}
	health := wire.HealthOf(s.members)
	verdicts := failover.Judge(health, afterOf(f), s.now, s.heard.Add(sureAfter))
	for i := range verdicts {
		at := slices.IndexFunc(members, func(m Member) bool { return m.Name == health[i].Name })
		if at < 0 {
			continue
		}
		m := &members[at]
		m.State = verdicts[i].State
		switch {
		case m.State == failover.Silent:
			if wait := verdicts[i].Due.Sub(s.now); again == 0 || wait < again {
				again = wait
			}
		case m.State != failover.Lost:
		case f.Mode == topology.FailoverFence && !health[i].Confirmed && !toldEmpty(s, m.Name):
			m.Fencing = true
		default:
			m.Lost = true
		}
	}
	return again
}

// afterOf is how long a member is NotReady until it is lost.
func afterOf(f *topology.Failover) time.Duration {
	if after, err := time.ParseDuration(f.After); err == nil {
		return after
	}
	return defaultAfter
}

// toldEmpty tells whether a member is known to run no pods of the workload: it was told to have none, and reported that it has
// none under that order. One that was told to have some makes them from its own copy of the order, also while it is cut off.
func toldEmpty(s *state, name string) bool {
	report, ok := s.reports[name]
	for _, use := range report.Use {
		ok = ok && use.Total == 0
	}
	if s.placement == nil {
		return ok
	}
	for i := range s.placement.Spec.Cells {
		if c := &s.placement.Spec.Cells[i]; c.Cluster == name {
			ok = ok && c.Replicas == 0 && report.Sequence >= c.Sequence
		}
	}
	return ok
}

// away are the members that are not heard of.
func (f *Facts) away() map[string]bool {
	away := map[string]bool{}
	for i := range f.Members {
		away[f.Members[i].Name] = !f.Members[i].Ready
	}
	return away
}

// counted is what the division takes a cell to have: what its member was told, without what others stand in for. A member
// that is to be left, and one that was to be left step by step and is no more, counts with all that it has.
func (f *Facts) counted(m *Member, had *topology.Cell) int32 {
	switch {
	case had == nil:
		return 0
	case f.left[place{had.Subset, m.Name}] != "", stepwise(had.Reason.Code):
		return had.Replicas
	}
	return had.Replicas - had.Leaving + f.takenBack[idOf(had)]
}

// takeBack gives members that are back what others stand in for and do not run: pods that run are better than pods that are
// to start. It returns by how much the division's start differs from the last decision.
func takeBack(f *Facts) map[cellID]int32 {
	if f.Last == nil || !slices.ContainsFunc(f.Last.Cells, func(c topology.Cell) bool { return c.Leaving > 0 }) {
		return nil
	}
	members := map[string]*Member{}
	for i := range f.Members {
		members[f.Members[i].Name] = &f.Members[i]
	}
	back := map[cellID]int32{}
	for i := range f.Workload.Subsets {
		takeBackSubset(f, f.Workload.Subsets[i].Name, members, back)
	}
	return back
}

func takeBackSubset(f *Facts, subset string, members map[string]*Member, back map[cellID]int32) {
	here := map[string]int32{} // what a member that is back runs beyond its number, and what the others miss
	missing := map[string]int32{}
	for i := range f.Last.Cells {
		c := &f.Last.Cells[i]
		m := members[c.Cluster]
		if c.Subset != subset || m == nil || !m.Ready || f.left[place{subset, c.Cluster}] != "" {
			continue
		}
		available := f.Reports[c.Cluster].Use[subset].Available
		if c.Leaving > 0 && !stepwise(c.Reason.Code) && c.Reason.Code != CellShrinking {
			if _, known := here[c.Cluster]; !known {
				here[c.Cluster] = available
			}
			here[c.Cluster] -= c.Replicas - c.Leaving
		} else {
			if _, known := missing[c.Cluster]; !known {
				missing[c.Cluster] = -available
			}
			missing[c.Cluster] += c.Replicas - c.Leaving
		}
	}
	for i := range f.Last.Cells {
		c := &f.Last.Cells[i]
		take := min(c.Leaving, here[c.Cluster])
		if c.Subset != subset || take <= 0 {
			continue
		}
		for j := range f.Last.Cells {
			o := &f.Last.Cells[j]
			if n := min(take, missing[o.Cluster], o.Replicas-o.Leaving+back[idOf(o)]); o.Subset == subset && n > 0 && o.Cluster != c.Cluster {
				back[idOf(c)], back[idOf(o)] = back[idOf(c)]+n, back[idOf(o)]-n
				take, here[c.Cluster], missing[o.Cluster] = take-n, here[c.Cluster]-n, missing[o.Cluster]-n
			}
		}
	}
}

// judge keeps how the policy's failover sees the members.
func (o *Outcome) judge(s *state) {
	if o.Policy == nil {
		return
	}
	members := membersFor(s.members, &o.Policy.Spec.Clusters)
	judge(s, members, &o.Policy.Spec.Failover)
	o.judged = map[string]Member{}
	for i := range members {
		o.judged[members[i].Name] = members[i]
	}
}

// fate says what becomes of the replicas of a member that is not Ready, by the policy's failover; empty where it has none.
func (o *Outcome) fate(m *topology.MemberCluster) string {
	judged := o.judged[m.Name]
	after := ""
	if o.Policy != nil {
		after = o.Policy.Spec.Failover.After
	}
	switch {
	case judged.Lost:
		return fmt.Sprintf("it counts as lost (failover.after is %s), so others get what it has as far as they have room", after)
	case judged.Fencing:
		return fmt.Sprintf("it counts as lost (failover.after is %s), and others get what it has when it is known that nothing runs there any more; make sure of that, and confirm it with: flotilla fence %s --confirm", after, m.Name)
	case judged.State == failover.Held:
		return fmt.Sprintf("too many members became NotReady together, so none of them is given up before some are back; if nothing runs there any more, confirm it with: flotilla fence %s --confirm", m.Name)
	case judged.State == failover.Silent:
		return fmt.Sprintf("it counts as lost when it is NotReady for %s (failover.after of %s), and others get what it has then", after, policyName(&o.Policy.Ref))
	}
	return ""
}

// moveNotes say what others stand in for, and what waits for its place.
func moveNotes(f *Facts, spec *topology.WorkloadPlacementSpec) []Note {
	var notes []Note
	leaving := map[string]int32{}
	var clusters []string
	for i := range spec.Cells {
		c := &spec.Cells[i]
		if c.Leaving == 0 || c.Reason.Code == CellSubsetRemoved || c.Reason.Code == CellShrinking {
			continue
		}
		if leaving[c.Cluster] == 0 {
			clusters = append(clusters, c.Cluster)
		}
		leaving[c.Cluster] += c.Leaving
	}
	slices.Sort(clusters)
	for _, cluster := range slices.Compact(clusters) {
		i := slices.IndexFunc(f.Members, func(m Member) bool { return m.Name == cluster })
		text := fmt.Sprintf("others stand in for %d replicas of member %s", leaving[cluster], cluster)
		switch m := &f.Members[i]; {
		case m.Lost:
			text += ", which counts as lost"
		case !m.Ready:
			text += ", which is not heard of"
		default:
			text += "; they go there as the others are available"
		}
		notes = append(notes, Note{Reason: Placed, Message: text})
	}
	for _, u := range spec.Unplaced {
		if u.Reason.Code == UnplacedMoving {
			notes = append(notes, Note{Reason: Placed, Message: fmt.Sprintf("%d replicas move, and start as the pods that they replace are gone", u.Replicas)})
		}
	}
	return notes
}

// lostReason is the reason of a cell whose pods others stand in for.
func lostReason(f *Facts, subset string, m *Member, had *topology.Cell) topology.Reason {
	switch code := f.left[place{subset, m.Name}]; {
	case code == CellLost:
		return topology.Reason{Code: CellLost, Params: map[string]string{ParamAfter: f.Failover.After}}
	case code != "":
		return topology.Reason{Code: code}
	case !m.Ready && had != nil && had.Leaving > 0:
		return had.Reason // it is not heard of again, and not lost yet
	}
	return topology.Reason{Code: CellReturned}
}
