package placement

import (
	"slices"
	"time"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/decision"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/topology/failover"
)

const (
	// sureAfter is how long the hub must have been in contact with its API server before it gives a member up: as long as
	// a member that is alive may be silent.
	sureAfter = topology.LeaseDuration
	// defaultAfter holds where the schema's default was not applied.
	defaultAfter = 5 * time.Minute
)

// JudgeMembers tells each of some members what it counts as under a policy's failover. It returns when that can change
// by time alone, 0 for never.
func JudgeMembers(s *State, members []decision.Member, f *topology.Failover) (again time.Duration) {
	if f.Mode != topology.FailoverReplace && f.Mode != topology.FailoverFence {
		return 0
	}
	health := wire.HealthOf(s.Members)
	outcomes := failover.Judge(health, afterOf(f), s.now, s.heard.Add(sureAfter))
	for i := range outcomes {
		at := slices.IndexFunc(members, func(m decision.Member) bool { return m.Name == health[i].Name })
		if at < 0 {
			continue
		}
		m := &members[at]
		m.State = outcomes[i].State
		switch {
		case m.State == failover.Silent:
			if wait := outcomes[i].Due.Sub(s.now); again == 0 || wait < again {
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

// toldEmpty tells whether a member is known to run no pods of the workload: it was told to have none, and reported
// that it has none under that order. One that was told to have some makes them from its own copy of the order, also
// while it is cut off.
func toldEmpty(s *State, name string) bool {
	report, ok := s.reports[name]
	for _, use := range report.Use {
		ok = ok && use.Total == 0
	}
	if s.Placement == nil {
		return ok
	}
	for i := range s.Placement.Spec.Cells {
		if c := &s.Placement.Spec.Cells[i]; c.Cluster == name {
			ok = ok && c.Replicas == 0 && report.Sequence >= c.Sequence
		}
	}
	return ok
}
