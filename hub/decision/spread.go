package decision

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/capacity"
	"github.com/flotilla-dev/flotilla/topology/division"
)

// spreadOf is the policy's spread in the terms of the division.
func spreadOf(d *draft) division.Spread {
	s := division.Spread{By: division.By(d.facts.Spread.By)}
	if s.By == "" || s.By == division.ByZone && !zonal(d) {
		s.By = division.ByCluster
	}
	switch d.facts.Spread.Type {
	case topology.SpreadAvailable:
		s.Type = division.Available
	case topology.SpreadCompact:
		s.Type = division.Compact
	}
	if d.facts.Spread.MaxSkew != nil {
		s.MaxSkew = *d.facts.Spread.MaxSkew
	}
	for i := range d.facts.Spread.Places {
		p := &d.facts.Spread.Places[i]
		if p.Zone != "" && !zonal(d) {
			continue
		}
		s.Bounds = append(
			s.Bounds,
			division.Bound{Region: p.Region, Zone: p.Zone, Cluster: p.Cluster, Weight: p.Weight, Min: p.Min, Max: p.Max},
		)
	}
	return s
}

// weightOf is the weight of a member's cells.
func weightOf(d *draft, m *Member) int32 {
	if d.facts.Spread.Type == topology.SpreadWeighted {
		return m.Weight
	}
	return 1
}

// poolsOf returns the room that the cells of a member share: subsets share all of it.
func poolsOf(d *draft) []division.Pool {
	var pools []division.Pool
	for i := range d.facts.Members {
		m := &d.facts.Members[i]
		has, exists := int32(0), int32(0)
		if d.last != nil {
			for j := range d.last.Cells {
				if d.last.Cells[j].Cluster == m.Name {
					has += d.ordered(&d.last.Cells[j])
				}
			}
		}
		for subset := range d.reports[m.Name].Use {
			exists += there(d, m, subset)
		}
		if room := capacity.Free(m.Room(nil, d.workload.Requests), has, exists); room != nil {
			pools = append(pools, division.Pool{Cluster: m.Name, Free: min(*room+leavingRoom(d, m, nil), capacity.MostPods)})
		}
		if d.workload.Open {
			continue // its zones are cells of their own
		}
		for _, zone := range namedZones(m.Zones) {
			if room := m.Room([]string{zone}, d.workload.Requests); room != nil && zone != "" {
				pools = append(
					pools,
					division.Pool{Cluster: m.Name, Zone: zone, Free: min(*room+leavingRoom(d, m, []string{zone}), capacity.MostPods)},
				)
			}
		}
	}
	return pools
}

// ordered is what a member was told to have, without the pods that find no node and go, there what it has reported of
// a subset.
func (d *draft) ordered(had *topology.Cell) int32 {
	if had == nil {
		return 0
	}
	if s := d.standings[idOf(had)]; s != nil {
		return min(had.Replicas, s.has())
	}
	return had.Replicas
}

// there is how many of a subset's pods a member counts as requested: those that are Ready, and those that have a node
// and do not get Ready, where that is known: they would count twice else.
func there(d *draft, m *Member, subset string) int32 {
	report := d.reports[m.Name]
	use := report.Use[subset]
	if due := d.settledAt(m); due.IsZero() || d.facts.Now.Before(due) {
		return use.Ready
	}
	return max(use.Ready, use.Total-report.Waiting(subset))
}

// settledAt is when all pods that stand in a member have a node, but for those that it reports to find none, and it
// has counted them; zero where that is not known. It tells of pods without a node only where it was asked to.
func (d *draft) settledAt(m *Member) time.Time {
	if d.reschedule == nil || m.Reserved.Settled.IsZero() {
		return time.Time{}
	}
	return m.Reserved.Settled.Add(d.rescheduleAfter() + trialSlack + capacity.UnseenFor)
}

// settlesIn returns when a decision can change because pods that are not Ready count as requested, 0 for never:
// replicas are missing.
func (d *draft) settlesIn(spec *topology.WorkloadPlacementSpec) time.Duration {
	again := time.Duration(0)
	if len(spec.Unplaced) == 0 {
		return 0
	}
	for i := range d.facts.Members {
		m := &d.facts.Members[i]
		if due := d.settledAt(m); due.After(d.facts.Now) {
			again = Sooner(again, due.Sub(d.facts.Now))
		}
	}
	return again
}

// untolerated returns the strongest effect of the taints that the tolerations do not cover, "" for none.
func untolerated(taints []corev1.Taint, tolerations []corev1.Toleration) division.Effect {
	if taint := Strongest(taints, tolerations); taint != nil {
		return division.Effect(taint.Effect)
	}
	return ""
}

// Strongest returns the first of the taints with the strongest effect that the tolerations do not cover, nil for none.
func Strongest(taints []corev1.Taint, tolerations []corev1.Toleration) *corev1.Taint {
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

// withRenamed returns the last decision as if the zones of members had always had the names that they have now: what a
// member had in a zone that it has no more counts for the zone that took its place. So a zone that is renamed moves
// nothing: the pods run on where they are, and the division starts from that. So do policies that begin to spread over
// zones, or cease to.
func withRenamed(d *draft) *topology.WorkloadPlacementSpec {
	if d.last == nil || !d.workload.Open || d.facts.Division != nil {
		return d.last
	}
	zonal := zonal(d)
	zones := map[string][]string{}
	for i := range d.facts.Members {
		switch m := &d.facts.Members[i]; {
		case !m.Selected, zonal && !m.Ready: // the zones of a member that is not Ready are those that it had
		case zonal:
			zones[m.Name] = namedZones(m.Zones)
		default:
			zones[m.Name] = []string{""}
		}
	}
	last := *d.last
	if last.Spread != nil {
		last.Cells = withoutSpread(last.Cells)
	}
	cells := last.Cells
	for i := range cells {
		c := &cells[i]
		if now := zones[c.Cluster]; c.Replicas > 0 && len(now) > 0 && !slices.Contains(now, c.Zone) {
			last.Cells = renamedCells(last.Cells, c.Cluster, now)
			delete(zones, c.Cluster) // once is for all of its cells
		}
	}
	return &last
}

// renamedCells returns the cells of a decision with those of one member under the names of the zones that it has now.
// A zone took the place of another if it was given nothing yet: it is new, or its nodes came one by one. Several are
// paired in the order of their names. What has no place is left as it is: its replicas are divided anew.
func renamedCells(cells []topology.Cell, member string, zones []string) []topology.Cell {
	replicas := map[string]int32{}
	var lost []string
	for i := range cells {
		if c := &cells[i]; c.Cluster == member {
			replicas[c.Zone] += c.Replicas
			if c.Replicas > 0 && !slices.Contains(zones, c.Zone) {
				lost = append(lost, c.Zone)
			}
		}
	}
	empty := slices.DeleteFunc(slices.Clone(zones), func(zone string) bool { return replicas[zone] > 0 })
	if len(lost) == 0 || len(empty) == 0 {
		return cells
	}
	slices.Sort(lost)
	slices.Sort(empty)
	to := map[string][]string{}
	for i, zone := range lost {
		to[zone] = empty[min(i, len(empty)-1):][:1]
		if zone == "" && len(lost) == 1 {
			to[zone] = empty // pods that were bound to no zone may be in any
		}
	}
	var out []topology.Cell
	for i := range cells {
		c := &cells[i]
		switch places := to[c.Zone]; {
		case c.Cluster != member:
			out = append(out, *c)
		case places == nil:
			out = add(out, *c)
		default:
			for j, place := range places {
				moved := *c
				moved.Zone, moved.Replicas = place, evenPart(c.Replicas, int32(len(places)), int32(j))
				moved.Replaced = evenPart(c.Replaced, int32(len(places)), int32(j))
				if j > 0 { // what was lent has one owner, whatever zones there are
					moved.Granted, moved.Reserved = topology.Budget{}, topology.Budget{}
				}
				if c.Zone != "" && place != "" {
					moved.Reason = topology.Reason{Code: CellRenamed, Params: map[string]string{ParamFrom: c.Zone}}
				}
				out = add(out, moved)
			}
		}
	}
	return out
}

// add appends a cell, or adds what it has to the cell of the same place.
func add(cells []topology.Cell, c topology.Cell) []topology.Cell {
	at := slices.IndexFunc(cells, func(o topology.Cell) bool { return idOf(&o) == idOf(&c) })
	if at < 0 {
		return append(cells, c)
	}
	into := &cells[at]
	if into.Reason.Code == CellRenamed && c.Reason.Code == CellRenamed {
		c.Reason.Params[ParamFrom] = strings.Join([]string{into.Reason.Params[ParamFrom], c.Reason.Params[ParamFrom]}, ", ")
	}
	if c.Replicas > 0 {
		into.Reason = c.Reason
	}
	into.Replicas, into.Replaced = into.Replicas+c.Replicas, into.Replaced+c.Replaced
	into.Granted, into.Reserved = sumOf(into.Granted, c.Granted), sumOf(into.Reserved, c.Reserved)
	into.Sequence = max(into.Sequence, c.Sequence)
	return cells
}

func sumOf(a, b topology.Budget) topology.Budget {
	return topology.Budget{
		Updated:     a.Updated + b.Updated,
		Unavailable: a.Unavailable + b.Unavailable,
		Surge:       a.Surge + b.Surge,
	}
}
