package placement

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
)

// Found is what stands in a member without a mark: replicas by subset, "" for a kind without subsets. It is empty where
// nothing stands.
type Found map[string]int32

// sum is how many replicas were found.
func (f Found) sum() int32 {
	var n int32
	for _, replicas := range f {
		n += replicas
	}
	return n
}

// adopts tells whether the user lets the hub take over what runs in members already.
func adopts(o client.Object) bool { return o.GetAnnotations()[topology.AnnotationAdopt] == "true" }

// foundBy reads what a member told of an object that it was asked about, as far as it can be true; false where it was not
// asked, or has not told.
func foundBy(table kinds.Table, w *work.Work) (Found, bool) {
	applied := meta.FindStatusCondition(w.Status.Conditions, work.ConditionApplied)
	report, _ := table.ReportOf(w)
	if w.Annotations[topology.AnnotationAdopt] == "" || applied == nil || applied.Reason != work.ReasonAdopting || report == nil {
		return nil, false
	}
	found := Found{}
	for _, use := range report.InUse {
		found[use.Subset] = use.Desired
	}
	return found, true
}

// look is the decision while members have not told yet what runs there: they are asked, and nothing is changed. It returns
// false where all have told. A member is known too once it has carried out an order; what was only meant for a member is not
// what runs there. One that joins later holds nothing up.
func look(f *Facts) (Decision, bool) {
	if !f.Adopt || len(f.Workload.Subsets) == 0 {
		return Decision{}, false
	}
	placed, begun := map[string][]topology.Cell{}, false
	if f.Last != nil {
		for _, c := range f.Last.Cells {
			placed[c.Cluster] = append(placed[c.Cluster], c)
			begun = begun || c.Adopt != topology.AdoptLook
		}
	}
	spec := topology.WorkloadPlacementSpec{Workload: f.Workload.Ref, Policy: &f.Policy, Revision: f.Workload.Revision, Replicas: f.Workload.Replicas}
	if f.Last != nil {
		spec.Dependencies = f.Last.Dependencies // what runs goes on needing it
	}
	var waiting []string
	for i := range f.Members {
		m := &f.Members[i]
		_, told := f.Found[m.Name]
		before, executed := placed[m.Name], f.Reports[m.Name].Applied
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
			Cluster: m.Name, Subset: f.Workload.Subsets[0].Name, Adopt: topology.AdoptLook, Reason: topology.Reason{Code: CellLooking},
		})
	}
	if len(waiting) == 0 || len(spec.Cells) > topology.MaxCells {
		return Decision{}, false
	}
	sortCells(f.Workload.Subsets, spec.Cells)
	replicas := map[string]int32{}
	for i := range spec.Cells {
		replicas[spec.Cells[i].Subset] += spec.Cells[i].Replicas
		spec.Placed += spec.Cells[i].Replicas
	}
	if missing := spec.Replicas - spec.Placed; missing > 0 {
		spec.Unplaced = []topology.Unplaced{{Replicas: missing, Reason: topology.Reason{Code: CellLooking}}}
	}
	spec.Clusters = clusterColumn(spec.Cells)
	f.Overrides.mark(spec.Cells)
	newRevision := f.Last == nil || f.Last.Revision != spec.Revision
	wave := lend(f, &spec, replicas, nil, newRevision)
	spec.Wave, spec.Template, spec.Before = wave.Progress, templateOf(f, newRevision), beforeOf(f, &spec, replicas, &wave, newRevision)
	number(f, &spec, newRevision)
	return Decision{Spec: spec, Wave: wave.Waits, Again: wave.Again, Notes: []Note{{Reason: Adopting, Message: fmt.Sprintf(
		"%s adopts what runs in the members and waits until %s told what that is; nothing is changed before; to leave a member out, narrow spec.clusters of %s %s",
		f.Workload.Key.Sentence(), names(waiting), f.Policy.Kind, f.Policy.Name)}}}, true
}

// Looks tells whether a decision only asks members what stands there: no pod is of its template.
func Looks(spec *topology.WorkloadPlacementSpec) bool {
	return len(spec.Cells) > 0 && !slices.ContainsFunc(spec.Cells, func(c topology.Cell) bool { return c.Adopt != topology.AdoptLook })
}

// decided tells whether a member has an order already that says what it is known to have: it refuses one that is not true.
func decided(before []topology.Cell) bool {
	return len(before) > 0 && before[0].Adopt != "" && before[0].Adopt != topology.AdoptLook
}

// names lists the first of some members, for a message.
func names(list []string) string {
	if more := len(list) - clustersInColumn; more > 0 {
		return strings.Join(list[:clustersInColumn], ", ") + fmt.Sprintf(" and %d more have", more)
	}
	if len(list) == 1 {
		return list[0] + " has"
	}
	return strings.Join(list, ", ") + " have"
}

// checkFound refuses what cannot be adopted without losing pods: a subset that the user's object does not have.
func checkFound(f *Facts) *kinds.Rejection {
	known := map[string]bool{}
	for i := range f.Workload.Subsets {
		known[f.Workload.Subsets[i].Name] = true
	}
	for _, cluster := range slices.Sorted(maps.Keys(f.Found)) {
		if !f.Adopt || !slices.ContainsFunc(f.Members, func(m Member) bool { return m.Name == cluster && m.Selected }) {
			continue
		}
		for _, subset := range slices.Sorted(maps.Keys(f.Found[cluster])) {
			if replicas := f.Found[cluster][subset]; !known[subset] && replicas > 0 {
				return &kinds.Rejection{Reason: AdoptionRefused, Message: fmt.Sprintf("%s in %s has subset %q with %d replicas, which the object on the hub does not have; give it a subset of that name, and it is adopted",
					f.Workload.Key.Sentence(), cluster, subset, replicas)}
			}
		}
	}
	return nil
}

// withFound returns the last decision as if it had given the members what they have: the division starts from that, so
// that nothing moves which need not.
func withFound(f *Facts) *topology.WorkloadPlacementSpec {
	if len(f.Found) == 0 {
		return f.Last
	}
	last := topology.WorkloadPlacementSpec{}
	if f.Last != nil {
		last = *f.Last
	}
	last.Cells = slices.DeleteFunc(slices.Clone(last.Cells), func(c topology.Cell) bool {
		_, found := f.Found[c.Cluster]
		return found || c.Adopt == topology.AdoptLook
	})
	lent := lastLent(f)
	for i := range f.Members {
		m := &f.Members[i]
		found, ok := f.Found[m.Name]
		if !ok || !m.Selected {
			continue
		}
		for _, subset := range slices.Sorted(maps.Keys(found)) {
			l, zones := lent[place{subset, m.Name}], []string{""}
			if f.Workload.Open && zonal(f) && len(m.Zones) > 0 {
				zones = namedZones(m.Zones)
			}
			for j, zone := range zones {
				c := topology.Cell{
					Cluster: m.Name, Zone: zone, Subset: subset, Replicas: evenPart(found[subset], int32(len(zones)), int32(j)),
					Adopt: topology.AdoptLook, Sequence: l.Sequence, Reason: topology.Reason{Code: CellAdopted},
				}
				if j == 0 { // what was lent has one owner, whatever zones there are
					c.Share, c.Held = allowance(l.Share), allowance(l.Held)
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

// markAdoption records in each cell what its member is known to have, and leaves out cells of members that have something
// without a mark and get nothing: that is not ours to remove.
func markAdoption(f *Facts, cells []topology.Cell) []topology.Cell {
	if !f.Adopt {
		return cells
	}
	before := map[string]string{}
	if f.Last != nil {
		for i := range f.Last.Cells {
			before[f.Last.Cells[i].Cluster] = f.Last.Cells[i].Adopt
		}
	}
	excluded := map[string]bool{}
	for i := range f.Members {
		excluded[f.Members[i].Name] = !f.Members[i].Selected
	}
	cells = slices.DeleteFunc(cells, func(c topology.Cell) bool {
		_, found := f.Found[c.Cluster]
		return excluded[c.Cluster] && (found || before[c.Cluster] == topology.AdoptLook)
	})
	for i := range cells {
		c := &cells[i]
		switch found, ok := f.Found[c.Cluster]; {
		case ok:
			c.Adopt = strconv.Itoa(int(found.sum()))
		case before[c.Cluster] != "" && before[c.Cluster] != topology.AdoptLook:
			c.Adopt = before[c.Cluster]
		default:
			c.Adopt = "0"
		}
	}
	return cells
}
