package decision

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
)

// Found is what stands in a member without a mark: replicas by subset, "" for a kind without subsets. It is empty where
// nothing stands.
type Found map[string]int32

// sum is how many replicas were found.
func (d Found) sum() int32 {
	var n int32
	for _, replicas := range d {
		n += replicas
	}
	return n
}

// discover completes the decision while members have not reported yet what runs there: they are asked, and nothing is
// changed. A member is known too once it has carried out an order: an order alone does not say what runs there. A
// member that joins later holds nothing up.
func discover(d *draft) *kinds.Rejection {
	if !d.facts.Adopt || len(d.workload.Subsets) == 0 {
		return nil
	}
	placed, begun := map[string][]topology.Cell{}, false
	if d.last != nil {
		for _, c := range d.last.Cells {
			placed[c.Cluster] = append(placed[c.Cluster], c)
			begun = begun || c.Adoption.Phase != topology.AdoptionDiscovering
		}
	}
	spec := topology.WorkloadPlacementSpec{
		Workload: d.workload.Ref,
		Policy:   &d.facts.Policy,
		Revision: d.workload.Revision,
		Replicas: d.workload.Replicas,
	}
	if d.last != nil {
		spec.Dependencies = d.last.Dependencies // what runs goes on needing it
		spec.Ordinals = d.last.Ordinals
	}
	var waiting []string
	for i := range d.facts.Members {
		m := &d.facts.Members[i]
		_, told := d.facts.Found[m.Name]
		before, executed := placed[m.Name], d.reports[m.Name].Applied
		switch {
		case executed, decided(before):
			spec.Cells = append(spec.Cells, before...)
			continue
		case !m.Selected || begun && len(before) == 0:
			continue
		case !told:
			waiting = append(waiting, m.Name)
		}
		spec.Cells = append(spec.Cells, topology.Cell{
			Cluster: m.Name, Subset: d.workload.Subsets[0].Name,
			Adoption: topology.Adoption{Phase: topology.AdoptionDiscovering}, Reason: topology.Reason{Code: CellLooking},
		})
	}
	if len(waiting) == 0 || len(spec.Cells) > topology.MaxCells {
		return nil
	}
	sortCells(d.workload.Subsets, spec.Cells)
	replicas := map[string]int32{}
	for i := range spec.Cells {
		replicas[spec.Cells[i].Subset] += spec.Cells[i].Replicas
		spec.Placed += spec.Cells[i].Replicas
	}
	if missing := spec.Replicas - spec.Placed; missing > 0 {
		spec.Unplaced = []topology.Unplaced{{Replicas: missing, Reason: topology.Reason{Code: CellLooking}}}
	}
	spec.Clusters = clusterColumn(spec.Cells)
	d.facts.Overrides.mark(spec.Cells)
	newRevision := d.last == nil || d.last.Revision != spec.Revision
	wave := lend(d, &spec, replicas, nil, newRevision)
	spec.Wave, spec.Template, spec.PreviousTemplate = wave.Progress, templateOf(d, newRevision),
		previousTemplateOf(d, &spec, replicas, &wave, newRevision)
	assignSequences(d, &spec, newRevision)
	d.done = true
	d.decision = Decision{
		Spec:  spec,
		Wave:  wave.Waits,
		Again: wave.Again,
		Notes: []Note{{Reason: Adopting, Message: fmt.Sprintf(
			"%s adopts what runs in the members and waits until %s told what that is; nothing is changed before; to leave a "+
				"member out, narrow spec.clusters of %s %s",
			d.workload.Key.Sentence(),
			names(waiting),
			d.facts.Policy.Kind,
			d.facts.Policy.Name,
		)}},
	}
	return nil
}

// Looks tells whether a decision only asks members what stands there: no pod is of its template.
func Looks(spec *topology.WorkloadPlacementSpec) bool {
	return len(spec.Cells) > 0 &&
		!slices.ContainsFunc(
			spec.Cells,
			func(c topology.Cell) bool { return c.Adoption.Phase != topology.AdoptionDiscovering },
		)
}

// decided tells whether a member has an order already that says what it is known to have: it refuses one that is not
// true.
func decided(before []topology.Cell) bool {
	return len(before) > 0 && before[0].Adoption.Phase == topology.AdoptionDiscovered
}

// names lists the first of some members, for a message.
func names(list []string) string {
	if more := len(list) - ClustersInColumn; more > 0 {
		return strings.Join(list[:ClustersInColumn], ", ") + fmt.Sprintf(" and %d more have", more)
	}
	if len(list) == 1 {
		return list[0] + " has"
	}
	return strings.Join(list, ", ") + " have"
}

// checkFound refuses what cannot be adopted without losing pods: a subset that the user's object does not have.
func checkFound(d *draft) *kinds.Rejection {
	known := map[string]bool{}
	for i := range d.workload.Subsets {
		known[d.workload.Subsets[i].Name] = true
	}
	for _, cluster := range slices.Sorted(maps.Keys(d.facts.Found)) {
		if !d.facts.Adopt ||
			!slices.ContainsFunc(d.facts.Members, func(m Member) bool { return m.Name == cluster && m.Selected }) {
			continue
		}
		for _, subset := range slices.Sorted(maps.Keys(d.facts.Found[cluster])) {
			if replicas := d.facts.Found[cluster][subset]; !known[subset] && replicas > 0 {
				return &kinds.Rejection{
					Reason: AdoptionRefused,
					Message: fmt.Sprintf(
						"%s in %s has subset %q with %d replicas, which the object on the hub does not have; give it a subset of that "+
							"name, and it is adopted",
						d.workload.Key.Sentence(),
						cluster,
						subset,
						replicas,
					),
				}
			}
		}
	}
	return nil
}

// withFound returns the last decision as if it had given the members what they have: the division starts from that, so
// that nothing moves which need not.
func withFound(d *draft) *topology.WorkloadPlacementSpec {
	if len(d.facts.Found) == 0 {
		return d.last
	}
	last := topology.WorkloadPlacementSpec{}
	if d.last != nil {
		last = *d.last
	}
	last.Cells = slices.DeleteFunc(slices.Clone(last.Cells), func(c topology.Cell) bool {
		_, found := d.facts.Found[c.Cluster]
		return found || c.Adoption.Phase == topology.AdoptionDiscovering
	})
	lent := lastLent(d)
	for i := range d.facts.Members {
		m := &d.facts.Members[i]
		found, ok := d.facts.Found[m.Name]
		if !ok || !m.Selected {
			continue
		}
		for _, subset := range slices.Sorted(maps.Keys(found)) {
			l, zones := lent[place{subset, m.Name}], []string{""}
			if d.workload.Open && zonal(d) && len(m.Zones) > 0 {
				zones = namedZones(m.Zones)
			}
			for j, zone := range zones {
				c := topology.Cell{
					Cluster: m.Name, Zone: zone, Subset: subset, Replicas: evenPart(found[subset], int32(len(zones)), int32(j)),
					Adoption: topology.Adoption{
						Phase: topology.AdoptionDiscovering,
					}, Sequence: l.Sequence, Reason: topology.Reason{Code: CellAdopted},
				}
				if j == 0 { // what was lent has one owner, whatever zones there are
					c.Granted, c.Reserved = budgetOf(l.Granted), budgetOf(l.Reserved)
				}
				last.Cells = append(last.Cells, c)
			}
		}
	}
	return &last
}

// evenPart is the part of place i when n is divided evenly over places.
func evenPart(n, places, i int32) int32 {
	part := n / places
	if i < n%places {
		part++
	}
	return part
}

// markAdoption records in each cell what its member is known to have, and leaves out cells of members that have
// something without a mark and get nothing: that is not ours to remove.
func markAdoption(d *draft, cells []topology.Cell) []topology.Cell {
	if !d.facts.Adopt {
		return cells
	}
	before := map[string]topology.Adoption{}
	if d.last != nil {
		for i := range d.last.Cells {
			before[d.last.Cells[i].Cluster] = d.last.Cells[i].Adoption
		}
	}
	excluded := map[string]bool{}
	for i := range d.facts.Members {
		excluded[d.facts.Members[i].Name] = !d.facts.Members[i].Selected
	}
	cells = slices.DeleteFunc(cells, func(c topology.Cell) bool {
		_, found := d.facts.Found[c.Cluster]
		return excluded[c.Cluster] && (found || before[c.Cluster].Phase == topology.AdoptionDiscovering)
	})
	for i := range cells {
		c := &cells[i]
		switch found, ok := d.facts.Found[c.Cluster]; {
		case ok:
			c.Adoption = topology.Adoption{Phase: topology.AdoptionDiscovered, Replicas: found.sum()}
		case before[c.Cluster].Phase == topology.AdoptionDiscovered:
			c.Adoption = before[c.Cluster]
		default:
			c.Adoption = topology.Adoption{Phase: topology.AdoptionDiscovered}
		}
	}
	return cells
}
