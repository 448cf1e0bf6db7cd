package placement

import (
	"slices"
	"strings"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// withRenamed returns the last decision as if the zones of members had always had the names that they have now: what a member had in a
// zone that it has no more counts for the zone that took its place. So a zone that is renamed moves nothing: the pods run on where they
// are, and the division starts from that. So do policies that begin to spread over zones, or cease to.
func withRenamed(f *Facts) *topology.WorkloadPlacementSpec {
	if f.Last == nil || !f.Workload.Open || f.Division != nil {
		return f.Last
	}
	zonal := zonal(f)
	zones := map[string][]string{}
	for i := range f.Members {
		switch m := &f.Members[i]; {
		case !m.Selected, zonal && !m.Ready: // the zones of a member that is not Ready are those that it had
		case zonal:
			zones[m.Name] = namedZones(m.Zones)
		default:
			zones[m.Name] = []string{""}
		}
	}
	last := *f.Last
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

// renamedCells returns the cells of a decision with those of one member under the names of the zones that it has now. A zone took the place
// of another if it was given nothing yet: it is new, or its nodes came one by one. Several are paired in the order of their names.
// What has no place is left as it is: its replicas are divided anew.
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
				moved.Leaving = evenPart(c.Leaving, int32(len(places)), int32(j))
				if j > 0 { // what was lent has one owner, whatever zones there are
					moved.Share, moved.Held = topology.Allowance{}, topology.Allowance{}
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
	into.Replicas, into.Leaving = into.Replicas+c.Replicas, into.Leaving+c.Leaving
	into.Share, into.Held = sumOf(into.Share, c.Share), sumOf(into.Held, c.Held)
	into.Sequence = max(into.Sequence, c.Sequence)
	return cells
}

func sumOf(a, b topology.Allowance) topology.Allowance {
	return topology.Allowance{Update: a.Update + b.Update, Break: a.Break + b.Break, Add: a.Add + b.Add}
}
