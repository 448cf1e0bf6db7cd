package placement

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/topology/division"
)

// spreadOf is the policy's spread in the terms of the division.
func spreadOf(f *Facts) division.Spread {
	s := division.Spread{By: division.By(f.Spread.By)}
	if s.By == "" {
		s.By = division.ByCluster
	}
	switch f.Spread.Type {
	case topology.SpreadAvailable:
		s.Type = division.Available
	case topology.SpreadCompact:
		s.Type = division.Compact
	}
	if f.Spread.MaxSkew != nil {
		s.MaxSkew = *f.Spread.MaxSkew
	}
	for i := range f.Spread.Places {
		p := &f.Spread.Places[i]
		s.Bounds = append(s.Bounds, division.Bound{Region: p.Region, Zone: p.Zone, Cluster: p.Cluster, Weight: p.Weight, Min: p.Min, Max: p.Max})
	}
	return s
}

// weightOf is the weight of a member's cells.
func weightOf(f *Facts, m *Member) int32 {
	if f.Spread.Type == topology.SpreadWeighted {
		return m.Weight
	}
	return 1
}

// poolsOf returns the room that the cells of a member share: subsets share all of it.
func poolsOf(f *Facts) []division.Pool {
	var pools []division.Pool
	for i := range f.Members {
		m := &f.Members[i]
		has, exists := int32(0), int32(0)
		if f.Last != nil {
			for j := range f.Last.Cells {
				if f.Last.Cells[j].Cluster == m.Name {
					has += f.ordered(&f.Last.Cells[j])
				}
			}
		}
		for subset := range f.Reports[m.Name].Use {
			exists += there(f, m, subset)
		}
		if room := free(roomFor(m, nil, f.Workload.Requests), has, exists); room != nil {
			pools = append(pools, division.Pool{Cluster: m.Name, Free: min(*room+leavingRoom(f, m, nil), mostRoom)})
		}
		if f.Workload.Open {
			continue // its zones are cells of their own
		}
		for _, zone := range namedZones(m.Zones) {
			if room := roomFor(m, []string{zone}, f.Workload.Requests); room != nil && zone != "" {
				pools = append(pools, division.Pool{Cluster: m.Name, Zone: zone, Free: min(*room+leavingRoom(f, m, []string{zone}), mostRoom)})
			}
		}
	}
	return pools
}

// ordered is what a member was told to have, without the pods that find no node and go, there what it has reported of a subset.
func (f *Facts) ordered(had *topology.Cell) int32 {
	if had == nil {
		return 0
	}
	if s := f.standings[idOf(had)]; s != nil {
		return min(had.Replicas, s.has())
	}
	return had.Replicas
}

// there is how many of a subset's pods a member counts as requested: those that are Ready, and those that have a node and do not get
// Ready, where that is known: they would count twice else.
func there(f *Facts, m *Member, subset string) int32 {
	report := f.Reports[m.Name]
	use := report.Use[subset]
	if due := f.settledAt(m); due.IsZero() || f.Now.Before(due) {
		return use.Ready
	}
	return max(use.Ready, use.Total-report.waiting(subset))
}

// settledAt is when all pods that stand in a member have a node, but for those that it reports to find none, and it has counted them;
// zero where that is not known. It tells of pods without a node only where it was asked to.
func (f *Facts) settledAt(m *Member) time.Time {
	if f.Reschedule == nil || m.Promised.Settled.IsZero() {
		return time.Time{}
	}
	return m.Promised.Settled.Add(f.rescheduleAfter() + trialSlack + unseenFor)
}

// settlesIn returns when a decision can change because pods that are not Ready count as requested, 0 for never: replicas are missing.
func (f *Facts) settlesIn(spec *topology.WorkloadPlacementSpec) time.Duration {
	again := time.Duration(0)
	if len(spec.Unplaced) == 0 {
		return 0
	}
	for i := range f.Members {
		m := &f.Members[i]
		if due := f.settledAt(m); due.After(f.Now) {
			again = sooner(again, due.Sub(f.Now))
		}
	}
	return again
}

// untolerated returns the strongest effect of the taints that the tolerations do not cover, "" for none.
func untolerated(taints []corev1.Taint, tolerations []corev1.Toleration) division.Effect {
	if taint := strongest(taints, tolerations); taint != nil {
		return division.Effect(taint.Effect)
	}
	return ""
}

// strongest returns the first of the taints with the strongest effect that the tolerations do not cover, nil for none.
func strongest(taints []corev1.Taint, tolerations []corev1.Toleration) *corev1.Taint {
	var found *corev1.Taint
	most := 0
	for i := range taints {
		effect := strength(division.Effect(taints[i].Effect))
		if effect <= most || tolerated(&taints[i], tolerations) {
			continue
		}
		found, most = &taints[i], effect
	}
	return found
}

// strength orders effects; one that the API does not know has none.
func strength(e division.Effect) int {
	switch e {
	case division.PreferNoSchedule:
		return 1
	case division.NoSchedule:
		return 2
	case division.NoExecute:
		return 3
	}
	return 0
}

// tolerated tells whether a toleration covers a taint, by the rules of pods.
func tolerated(taint *corev1.Taint, tolerations []corev1.Toleration) bool {
	for i := range tolerations {
		t := &tolerations[i]
		switch {
		case t.Effect != "" && t.Effect != taint.Effect, t.Key != "" && t.Key != taint.Key:
		case t.Operator == corev1.TolerationOpExists:
			return true
		case t.Key != "" && (t.Operator == "" || t.Operator == corev1.TolerationOpEqual) && t.Value == taint.Value:
			return true
		}
	}
	return false
}
