package kinds

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// CellsOf returns the cells of a subset.
func CellsOf(cells []topology.Cell, subset string) []topology.Cell {
	var own []topology.Cell
	for i := range cells {
		if cells[i].Subset == subset {
			own = append(own, cells[i])
		}
	}
	return own
}

// Total adds up the orders of cells.
func Total(cells []topology.Cell) (replicas int32, share topology.Allowance, frozen bool) {
	frozen = len(cells) > 0
	for i := range cells {
		replicas += cells[i].Replicas
		share.Update += cells[i].Share.Update
		share.Break += cells[i].Share.Break
		share.Add += cells[i].Share.Add
		frozen = frozen && cells[i].Frozen
	}
	return replicas, share, frozen
}

// withoutDecided removes the requirements that the hub has decided. A zone stays, because a member may have several.
func withoutDecided(requirements []corev1.NodeSelectorRequirement) []corev1.NodeSelectorRequirement {
	return slices.DeleteFunc(requirements, func(r corev1.NodeSelectorRequirement) bool {
		return r.Key == topology.LabelCluster || r.Key == corev1.LabelTopologyRegion
	})
}

// limitPaths are the fields of a rolling update that the hub divides.
func limitPaths(under string) []string {
	return []string{under + ".partition", under + ".maxUnavailable", under + ".maxSurge", under + ".paused"}
}
