package decision

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/topology/lending"
	"github.com/flotilla-dev/flotilla/topology/waves"
)

// place is where permission is lent to: a subset in a cluster, whatever zones it has there.
type place struct{ subset, cluster string }

// lend gives every cell its part of the limits of its subset. A cluster that has several cells of a subset (by zone)
// counts as one: its member object is one, and so is its report.
//
// What a move uses of the limits is not lent, and the cells of members that are not heard of weigh without what others
// stand in for. Where only a part is to be updated, what such a member holds of Updated stays counted until it is back:
// its pods may have been updated. It returns how far the waves of the policy are, which bound what is lent of Updated.
func lend(
	d *draft,
	spec *topology.WorkloadPlacementSpec,
	replicas map[string]int32,
	used map[string]lending.Amounts,
	newRevision bool,
) waves.Decision {
	last, silent, away := lastLent(d), silentMembers(d), d.away()
	var pools []pool
	removed := 0 // they come last
	for i := range d.workload.Subsets {
		subset := &d.workload.Subsets[i]
		global := subset.Amounts(replicas[subset.Name])
		spec.Limits = append(spec.Limits, topology.SubsetLimits{
			Subset: subset.Name, Budget: topology.Budget{Updated: global.Updated, Unavailable: global.Unavailable,
				Surge: global.Surge},
		})
		whole := global.Updated >= replicas[subset.Name] && !subset.Removed
		if subset.Removed {
			removed++
			global = lending.Amounts{} // its limits are for leaving it
		}
		global.Unavailable, global.Surge = global.Unavailable-used[subset.Name].Unavailable,
			global.Surge-used[subset.Name].Surge
		var cells []lending.Cell
		for j := range spec.Cells {
			c := &spec.Cells[j]
			if c.Subset != subset.Name {
				continue
			}
			lent := *c
			if whole {
				// All are to be updated: pods on their way out are no reason to bring others back, and what a lost member holds for
				// its own is no reason to start their replacements at the old revision.
				global.Updated += c.Replaced
			}
			if away[c.Cluster] {
				lent.Replicas -= c.Replaced
			}
			// Cells are sorted by cluster: those of one cluster follow each other.
			if k := len(cells) - 1; k >= 0 && cells[k].Key == c.Cluster {
				cells[k].Replicas += lent.Replicas
				continue
			}
			cell := lendingCell(d, last[place{c.Subset, c.Cluster}], &lent, newRevision)
			if subset.Removed {
				global.Updated += min(cell.Granted.Updated, c.Replicas) // what is updated stays so
			}
			if d.workload.CountsFailures && cell.Report != nil {
				cell.Floor = cell.Report.InUse.Unavailable
			}
			cell.Lost, cell.Told = silent[c.Cluster], d.facts.Written[c.Cluster] >= cell.Sequence
			cells = append(cells, cell)
		}
		pools = append(pools, pool{subset.Name, global, cells})
	}
	holdLateMembers(d, spec, pools)
	waits := holdToWaves(d, spec, pools[:len(pools)-removed], newRevision)
	if waits.Ceilings == nil {
		for i := range pools {
			holdToOrdinals(d, spec, &pools[i], spec.Limits[i].Unavailable)
		}
	}
	granted := map[place]lending.Grant{}
	for i, p := range pools {
		for _, g := range lending.Lend(p.global, p.cells) {
			g.Waiting = g.Waiting || waits.Stop || i >= len(pools)-removed
			granted[place{p.subset, g.Key}] = g
		}
	}
	spread(spec.Cells, granted)
	return waits
}

// pool is what is lent of one subset, and to which clusters.
type pool struct {
	subset string
	global lending.Amounts
	cells  []lending.Cell
}

// silentMembers are those whose lease has run out on both sides.
func silentMembers(d *draft) map[string]bool {
	silent := map[string]bool{}
	for i := range d.facts.Members {
		silent[d.facts.Members[i].Name] = d.facts.Members[i].Silent
	}
	return silent
}

// unanswered is the sequence of a report that acknowledges no order.
const unanswered = -1

// lendingCell is one cluster's part of a subset, as it stands after the last decision.
func lendingCell(d *draft, last lending.Cell, c *topology.Cell, newRevision bool) lending.Cell {
	cell := lending.Cell{
		Key:      c.Cluster,
		Replicas: c.Replicas,
		Granted:  last.Granted,
		Reserved: last.Reserved,
		Sequence: last.Sequence,
	}
	if newRevision {
		// No pod runs the new template yet, and the order that brings it brings the new grant too.
		cell.Granted.Updated, cell.Reserved.Updated = 0, 0
		return cell
	}
	report, ok := d.reports[c.Cluster]
	if !ok && c.Replicas == 0 && d.facts.Kind.Mode == kinds.PerMember {
		// No pod is known to run there, and the others must not wait for a member that may never report. This acknowledges
		// no order.
		cell.Report = &lending.Report{Sequence: unanswered}
	}
	if !ok || report.Sequence < d.last.RevisionSequence {
		return cell
	}
	use, ok := report.Use[c.Subset]
	if !ok {
		return cell
	}
	told := LendingReport(report.Sequence, use)
	cell.Report = &told
	if d.workload.Job != nil {
		// A node whose pod runs still needs a part of Unavailable.
		cell.Report.Updated = max(use.Updated-cell.Report.InUse.Unavailable, 0)
		reclaim(&cell, last.Replicas, use.Updated)
	}
	holdToNodes(&cell, &use)
	if use.Updated >= use.Total || use.Updated >= updatable(use.Desired, &use) {
		// No pod of an old revision that may be updated is left: what is missing is created, which needs no permission.
		cell.Report.Updated = max(use.Updated, c.Replicas)
	}
	return cell
}

// reclaim takes the part of nodes that are gone from the grant of a job's cell, so that no others are touched in their
// place. nodes is how many it had, and touched how many have a pod.
func reclaim(cell *lending.Cell, nodes, touched int32) {
	gone := nodes - cell.Replicas
	if gone <= 0 {
		return
	}
	ceiling := max(cell.Granted.Updated-gone, 0)
	cell.Ceiling = &ceiling
	cell.Granted.Updated = min(cell.Granted.Updated, max(ceiling, touched))
}

// updatable returns how many of so many nodes have the newest revision, or can get it now.
func updatable(nodes int32, use *work.SubsetUse) int32 {
	return max(nodes-use.NotUpdatable-use.LostOutdated, 0)
}

// holdToNodes grants a cell no more of Updated than it has nodes that can be updated: the rest is for other members.
func holdToNodes(cell *lending.Cell, use *work.SubsetUse) {
	if use.NotUpdatable+use.LostOutdated == 0 {
		return
	}
	ceiling := updatable(cell.Replicas, use)
	cell.Ceiling = &ceiling
	cell.Granted.Updated = min(cell.Granted.Updated, max(ceiling, use.Updated))
}

// LendingReport returns what a member reports of a subset, in the terms of lending. The numbers are those of
// kinds.Table.ReportOf.
func LendingReport(sequence int64, use work.SubsetUse) lending.Report {
	return lending.Report{
		Sequence: sequence,
		InUse: lending.Amounts{
			Updated:     use.Updated,
			Unavailable: max(use.Desired-use.Available-use.Withheld-use.LostUnavailable, 0),
			Surge:       max(use.Total-use.Desired, use.Surging),
		},
		Updated: use.Updated, Available: use.Available, Total: use.Total, CanGoBack: use.CanGoBack,
		ToRestart: use.ToRestart,
	}
}

// lastLent sums what the last decision lent to each place.
func lastLent(d *draft) map[place]lending.Cell {
	lent := map[place]lending.Cell{}
	if d.last == nil {
		return lent
	}
	for i := range d.last.Cells {
		c := &d.last.Cells[i]
		l := lent[place{c.Subset, c.Cluster}]
		l.Granted = lending.Amounts{
			Updated:     l.Granted.Updated + c.Granted.Updated,
			Unavailable: l.Granted.Unavailable + c.Granted.Unavailable,
			Surge:       l.Granted.Surge + c.Granted.Surge,
		}
		l.Reserved = lending.Amounts{
			Updated:     l.Reserved.Updated + c.Reserved.Updated,
			Unavailable: l.Reserved.Unavailable + c.Reserved.Unavailable,
			Surge:       l.Reserved.Surge + c.Reserved.Surge,
		}
		l.Sequence, l.Replicas = max(l.Sequence, c.Sequence), l.Replicas+c.Replicas
		lent[place{c.Subset, c.Cluster}] = l
	}
	return lent
}

// spread writes each cluster's grant into its cells: what the others of the cluster cannot take goes to the first.
func spread(cells []topology.Cell, granted map[place]lending.Grant) {
	seen := map[place]int{}
	for i := range cells {
		c := &cells[i]
		at := place{c.Subset, c.Cluster}
		g := granted[at]
		head, again := seen[at]
		if !again {
			seen[at] = i
			c.Granted, c.Reserved, c.Waiting = budgetOf(g.Granted), budgetOf(g.Reserved), g.Waiting
			continue
		}
		// The update grant is told per cell as far as it goes, so that a reader sees where pods may change; the rest of the
		// amounts have one owner.
		first := &cells[head]
		c.Granted, c.Reserved, c.Waiting = topology.Budget{}, topology.Budget{}, g.Waiting
		if over := min(max(first.Granted.Updated-first.Replicas, 0), c.Replicas); over > 0 {
			c.Granted.Updated, first.Granted.Updated = over, first.Granted.Updated-over
			moved := min(over, first.Reserved.Updated)
			c.Reserved.Updated, first.Reserved.Updated = moved, first.Reserved.Updated-moved
		}
	}
}

func budgetOf(a lending.Amounts) topology.Budget {
	return topology.Budget{Updated: a.Updated, Unavailable: a.Unavailable, Surge: a.Surge}
}

// assignSequences gives a sequence to the orders that changed. The order of a cluster is what its Work carries: its
// cells without what is only reserved, and the revision.
func assignSequences(d *draft, spec *topology.WorkloadPlacementSpec, newRevision bool) {
	var last []topology.Cell
	if d.last != nil {
		last = d.last.Cells
		spec.Sequence, spec.RevisionSequence = d.last.Sequence, d.last.RevisionSequence
	}
	before, after := orders(last), orders(spec.Cells)
	changed, task := changes(d, spec, before, after, newRevision)
	gone := false
	for cluster := range before {
		if _, ok := after[cluster]; !ok {
			gone = true
		}
	}
	if len(changed) == 0 && !gone && !newRevision {
		for i := range spec.Cells {
			c := &spec.Cells[i]
			c.Sequence, c.TaskSequence = before[c.Cluster][0].Sequence, before[c.Cluster][0].TaskSequence
		}
		return
	}
	spec.Sequence = max(spec.Sequence, d.facts.MaxReported) + 1
	if newRevision {
		spec.RevisionSequence = spec.Sequence
	}
	for i := range spec.Cells {
		c := &spec.Cells[i]
		if task[c.Cluster] {
			c.Sequence, c.TaskSequence = spec.Sequence, spec.Sequence
			continue
		}
		c.Sequence, c.TaskSequence = before[c.Cluster][0].Sequence, TaskSequenceOf(before[c.Cluster][0])
		if changed[c.Cluster] {
			c.Sequence = spec.Sequence
		}
	}
}

// changes returns the clusters whose order changed, and those of them for which anything but unavailable and surge
// changed.
func changes(
	d *draft,
	spec *topology.WorkloadPlacementSpec,
	before, after map[string][]*topology.Cell,
	newRevision bool,
) (changed, task map[string]bool) {
	changed, task = map[string]bool{}, map[string]bool{}
	respread := d.last != nil && !equality.Semantic.DeepEqual(d.last.Spread, spec.Spread)
	rebefore := d.last != nil && previousRevision(d.last) != previousRevision(spec)
	renamed := renamedPods(d.last, spec)
	ended := d.last != nil && d.last.End == nil && spec.End != nil
	for cluster, order := range after {
		old := before[cluster]
		// A member that reports a newer order than stands here was ordered by a hub that was restored since.
		stale := len(old) > 0 && d.reports[cluster].Sequence > old[0].Sequence
		task[cluster] = newRevision || ended || stale || respread || rebefore && (keepsOld(old) || keepsOld(order)) ||
			renamed(cluster) || !sameTask(old, order)
		if task[cluster] || !sameOrder(old, order) {
			changed[cluster] = true
		}
	}
	return changed, task
}

// TaskSequenceOf returns the sequence of the newest order that changed anything but unavailable and surge of a cell. A
// hub of an earlier version recorded none.
func TaskSequenceOf(c *topology.Cell) int64 { return cmp.Or(c.TaskSequence, c.Sequence) }

func orders(cells []topology.Cell) map[string][]*topology.Cell {
	byCluster := map[string][]*topology.Cell{}
	for i := range cells {
		byCluster[cells[i].Cluster] = append(byCluster[cells[i].Cluster], &cells[i])
	}
	return byCluster
}

func sameOrder(before, after []*topology.Cell) bool {
	return sameTask(before, after) &&
		slices.EqualFunc(
			before,
			after,
			func(a, b *topology.Cell) bool { return a.Granted == b.Granted && a.Waiting == b.Waiting },
		)
}

// sameTask tells whether two orders ask for the same, whatever they permit on the way.
func sameTask(before, after []*topology.Cell) bool {
	return slices.EqualFunc(before, after, func(a, b *topology.Cell) bool {
		// The zone of a subset's cell is only told; where the policy spreads by zone, it is part of the order.
		return a.Subset == b.Subset && a.SpreadSubset == b.SpreadSubset &&
			(a.Zone == b.Zone || a.Subset != "" || a.SpreadSubset != "") &&
			a.Replicas == b.Replicas &&
			a.Granted.Updated == b.Granted.Updated &&
			a.Overrides == b.Overrides &&
			a.Adoption == b.Adoption &&
			equality.Semantic.DeepEqual(a.Ticks, b.Ticks)
	})
}
