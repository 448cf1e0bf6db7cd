package placement

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/topology/division"
)

// Replicas of a subset that is removed from a WorkloadSpread stay in their members, as they stay on their nodes in one
// cluster. Where a member matches another subset that has room, they count for that one. Elsewhere the cell keeps the
// name of the removed subset: its replicas are in no subset, and go first when the workload is scaled in.

// inRemovedSubset reports whether a cell of the last decision is of a subset that the WorkloadSpread no longer has.
func inRemovedSubset(f *Facts, c *topology.Cell) bool {
	return f.Last.Spread != nil && c.SpreadSubset != "" && !hasPart(f, c.SpreadSubset)
}

func hasPart(f *Facts, name string) bool {
	return slices.ContainsFunc(f.Division.Parts, func(p kinds.Subset) bool { return p.Name == name })
}

// keepsRemoved reports whether replicas of removed subsets stay in the member: nothing else drives them out.
func keepsRemoved(f *Facts, cluster string) bool {
	return slices.ContainsFunc(f.Members, func(m Member) bool {
		return m.Name == cluster && m.Selected && !m.Lost && m.Taint != division.NoExecute
	})
}

// holdsRemoved reports whether the member has replicas of removed subsets, which stay there.
func holdsRemoved(f *Facts, m *Member) bool {
	return f.Last != nil && keepsRemoved(f, m.Name) && slices.ContainsFunc(f.Last.Cells, func(c topology.Cell) bool {
		return c.Cluster == m.Name && c.Replicas > 0 && inRemovedSubset(f, &c)
	})
}

// removedOf returns how many replicas of removed subsets a member had that stay there.
func removedOf(f *Facts, cells []topology.Cell, cluster string) (n int32) {
	for i := range cells {
		if c := &cells[i]; c.Cluster == cluster && inRemovedSubset(f, c) && keepsRemoved(f, cluster) {
			n += c.Replicas
		}
	}
	return n
}

// removedCellsOf returns cells of removed subsets for the replicas of members in loose that no subset takes, and takes
// them off there.
func removedCellsOf(f *Facts, cells []topology.Cell, loose map[string]int32) []topology.Cell {
	var out []topology.Cell
	for _, c := range cells {
		n := min(c.Replicas, loose[c.Cluster])
		if n == 0 || !inRemovedSubset(f, &c) || !keepsRemoved(f, c.Cluster) {
			continue
		}
		loose[c.Cluster] -= n
		c.Subset, c.SpreadSubset, c.Replicas, c.Leaving = c.SpreadSubset, "", n, min(c.Leaving, n)
		out = append(out, c)
	}
	return out
}

// withoutRemoved leaves out cells of removed subsets that the result of a round does not have: they count for another
// subset.
func withoutRemoved(f *Facts, cells, result []topology.Cell) []topology.Cell {
	return slices.DeleteFunc(cells, func(c topology.Cell) bool {
		same := func(r topology.Cell) bool { return idOf(&r) == idOf(&c) }
		return inRemovedSubset(f, &c) && !slices.ContainsFunc(result, same)
	})
}

// removedParts returns a subset for each removed one of which members have cells: it has what they have, less what the
// workload is scaled in by, and matches no other member.
func removedParts(f *Facts, cells []topology.Cell) []kinds.Subset {
	var parts []kinds.Subset
	scaledIn := scaledInBy(f)
	for i := range cells {
		c := &cells[i]
		if c.Subset == "" || hasPart(f, c.Subset) {
			continue
		}
		n := c.Replicas
		if slices.ContainsFunc(f.Members, func(m Member) bool { return m.Name == c.Cluster && m.Ready }) {
			n -= min(n, scaledIn)
			scaledIn -= c.Replicas - n
		}
		at := slices.IndexFunc(parts, func(p kinds.Subset) bool { return p.Name == c.Subset })
		if at < 0 {
			at, parts = len(parts), append(parts, removedPart(c.Subset))
		}
		p := &parts[at]
		p.Min = new(intstr.FromInt32(p.Min.IntVal + n))
		p.Max = p.Min
		p.Term.MatchExpressions[0].Values = append(p.Term.MatchExpressions[0].Values, c.Cluster)
	}
	return parts
}

func removedPart(name string) kinds.Subset {
	part := kinds.Subset{Subset: division.Subset{Name: name, Min: new(intstr.FromInt32(0))}}
	clusters := corev1.NodeSelectorRequirement{Key: topology.LabelCluster, Operator: corev1.NodeSelectorOpIn}
	part.Term.MatchExpressions = []corev1.NodeSelectorRequirement{clusters}
	return part
}

// scaledInBy returns how many replicas the last decision placed above those that are to be.
func scaledInBy(f *Facts) int32 {
	n := -int64(f.Workload.Replicas)
	for i := range f.Last.Cells {
		n += int64(f.Last.Cells[i].Replicas - f.Last.Cells[i].Leaving)
	}
	return int32(max(n, 0))
}

func sumRemoved(parts []kinds.Subset) (n int) {
	for i := range parts {
		n += int(parts[i].Min.IntVal)
	}
	return n
}

// removedSpreadNotes name the members that have replicas of removed subsets.
func removedSpreadNotes(f *Facts, cells []topology.Cell) []Note {
	var in []string
	for i := range cells {
		if c := &cells[i]; c.Replicas > 0 && c.SpreadSubset != "" && !hasPart(f, c.SpreadSubset) {
			in = append(in, fmt.Sprintf("%d of %s in member %s", c.Replicas, c.SpreadSubset, c.Cluster))
		}
	}
	if len(in) == 0 {
		return nil
	}
	return []Note{{Reason: Placed, Message: fmt.Sprintf(f.Division.RemovedFormat, listed(in))}}
}
