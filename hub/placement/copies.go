package placement

import (
	"slices"
	"strings"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// planCopies gives every selected member a cell without replicas. A member that is selected no longer loses its copy at
// once: there is nothing to wait for.
func planCopies(f *Facts) Decision {
	spec := topology.WorkloadPlacementSpec{Workload: f.Workload.Ref, Policy: &f.Policy}
	var names []string
	for i := range f.Members {
		if m := &f.Members[i]; m.Selected {
			spec.Cells = append(spec.Cells, topology.Cell{Cluster: m.Name, Reason: topology.Reason{Code: CellCopy}})
			names = append(names, m.Name)
		}
	}
	slices.SortFunc(spec.Cells, func(a, b topology.Cell) int { return strings.Compare(a.Cluster, b.Cluster) })
	number(f, &spec, f.Last == nil)
	spec.Clusters = nameColumn(names)
	if len(names) > 0 {
		return Decision{Spec: spec}
	}
	return Decision{Spec: spec, Notes: []Note{{Reason: NoMember, Stalled: true, Message: noMember(f)}}}
}
