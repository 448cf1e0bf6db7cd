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

// lend gives every cell its share of its subset's limits. A cluster that has several cells of a subset (by zone) counts
// as one: its member object is one, and so is its report.
//
// What a move uses of the limits is not lent, and the cells of members that are not heard of weigh without what others
// stand in for. Where only a part is to be updated, what such a member holds of Update stays counted until it is back:
// its pods may have been updated. It returns how far the waves of the policy are, which bound what is lent of Update.
func lend(d *draft, spec *topology.WorkloadPlacementSpec, replicas map[string]int32, used map[string]lending.Amounts, newRevision bool) waves.Decision {
	last, silent, away := lastLent(d), silentMembers(d), d.away()
	var pools []pool
	removed := 0 // they come last
	for i := range d.workload.Subsets {
		subset := &d.workload.Subsets[i]
		global := subset.Amounts(replicas[subset.Name])
		spec.Limits = append(spec.Limits, topology.SubsetLimits{
			Subset: subset.Name, Allowance: topology.Allowance{Update: global.Update, Break: global.Break, Add: global.Add},
		})
		whole := global.Update >= replicas[subset.Name] && !subset.Removed
		if subset.Removed {
			removed++
			global = lending.Amounts{} // its limits are for leaving it
		}
		global.Break, global.Add = global.Break-used[subset.Name].Break, global.Add-used[subset.Name].Add
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
				global.Update += c.Leaving
			}
			if away[c.Cluster] {
				lent.Replicas -= c.Leaving
			}
			// Cells are sorted by cluster: those of one cluster follow each other.
			if k := len(cells) - 1; k >= 0 && cells[k].Key == c.Cluster {
				cells[k].Replicas += lent.Replicas
				continue
			}
			cell := lendingCell(d, last[place{c.Subset, c.Cluster}], &lent, newRevision)
			if subset.Removed {
				global.Update += min(cell.Share.Update, c.Replicas) // what is updated stays so
			}
			cell.Lost, cell.Told = silent[c.Cluster], d.facts.Written[c.Cluster] >= cell.Sequence
			cells = append(cells, cell)
		}
		pools = append(pools, pool{subset.Name, global, cells})
	}
	waits := holdToWaves(d, spec, pools[:len(pools)-removed], newRevision)
	granted := map[place]lending.Grant{}
	for i, p := range pools {
		for _, g := range lending.Lend(p.global, p.cells) {
			g.Frozen = g.Frozen || waits.Stop || i >= len(pools)-removed
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
	cell := lending.Cell{Key: c.Cluster, Replicas: c.Replicas, Share: last.Share, Held: last.Held, Sequence: last.Sequence}
	if newRevision {
		// No pod runs the new template yet, and the order that brings it brings the new share too.
		cell.Share.Update, cell.Held.Update = 0, 0
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
	if use.Updated >= use.Total {
		// No pod of an old revision is left: what is still missing is created, which needs no permission.
		cell.Report.Updated = max(use.Updated, c.Replicas)
	}
	return cell
}

// LendingReport is what a member reports of a subset, in the terms of lending. The numbers are those of
// [wire.ReportOf].
func LendingReport(sequence int64, use work.SubsetUse) lending.Report {
	return lending.Report{
		Sequence: sequence,
		InUse: lending.Amounts{
			Update: use.Updated,
			Break:  max(use.Desired-use.Available, 0),
			Add:    max(use.Total-use.Desired, 0),
		},
		Updated: use.Updated, Available: use.Available, Total: use.Total, CanGoBack: use.CanGoBack,
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
		l.Share = lending.Amounts{Update: l.Share.Update + c.Share.Update, Break: l.Share.Break + c.Share.Break, Add: l.Share.Add + c.Share.Add}
		l.Held = lending.Amounts{Update: l.Held.Update + c.Held.Update, Break: l.Held.Break + c.Held.Break, Add: l.Held.Add + c.Held.Add}
		l.Sequence = max(l.Sequence, c.Sequence)
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
			c.Share, c.Held, c.Frozen = allowance(g.Share), allowance(g.Held), g.Frozen
			continue
		}
		// The update share is told per cell as far as it goes, so that a reader sees where pods may change; the rest of the
		// amounts have one owner.
		first := &cells[head]
		c.Share, c.Held, c.Frozen = topology.Allowance{}, topology.Allowance{}, g.Frozen
		if over := min(max(first.Share.Update-first.Replicas, 0), c.Replicas); over > 0 {
			c.Share.Update, first.Share.Update = over, first.Share.Update-over
			moved := min(over, first.Held.Update)
			c.Held.Update, first.Held.Update = moved, first.Held.Update-moved
		}
	}
}

func allowance(a lending.Amounts) topology.Allowance {
	return topology.Allowance{Update: a.Update, Break: a.Break, Add: a.Add}
}

// number gives a sequence to the orders that changed. The order of a cluster is what its Work carries: its cells
// without what is only held, and the revision.
func number(d *draft, spec *topology.WorkloadPlacementSpec, newRevision bool) {
	var last []topology.Cell
	if d.last != nil {
		last = d.last.Cells
		spec.Sequence, spec.RevisionSequence = d.last.Sequence, d.last.RevisionSequence
	}
	before, after := orders(last), orders(spec.Cells)
	changed, asked := changes(d, spec, before, after, newRevision)
	gone := false
	for cluster := range before {
		if _, ok := after[cluster]; !ok {
			gone = true
		}
	}
	if len(changed) == 0 && !gone && !newRevision {
		for i := range spec.Cells {
			c := &spec.Cells[i]
			c.Sequence, c.Asked = before[c.Cluster][0].Sequence, before[c.Cluster][0].Asked
		}
		return
	}
	spec.Sequence = max(spec.Sequence, d.facts.MaxReported) + 1
	if newRevision {
		spec.RevisionSequence = spec.Sequence
	}
	for i := range spec.Cells {
		c := &spec.Cells[i]
		if asked[c.Cluster] {
			c.Sequence, c.Asked = spec.Sequence, spec.Sequence
			continue
		}
		c.Sequence, c.Asked = before[c.Cluster][0].Sequence, AskedBy(before[c.Cluster][0])
		if changed[c.Cluster] {
			c.Sequence = spec.Sequence
		}
	}
}

// changes are the clusters whose order changed, and those of them that are asked for anything but another break and
// add.
func changes(d *draft, spec *topology.WorkloadPlacementSpec, before, after map[string][]*topology.Cell, newRevision bool) (changed, asked map[string]bool) {
	changed, asked = map[string]bool{}, map[string]bool{}
	respread := d.last != nil && !equality.Semantic.DeepEqual(d.last.Spread, spec.Spread)
	rebefore := d.last != nil && beforeRevision(d.last) != beforeRevision(spec)
	for cluster, order := range after {
		old := before[cluster]
		// A member that reports a newer order than stands here was ordered by a hub that was restored since.
		stale := len(old) > 0 && d.reports[cluster].Sequence > old[0].Sequence
		asked[cluster] = newRevision || stale || respread || rebefore && (keepsOld(old) || keepsOld(order)) || !sameTask(old, order)
		if asked[cluster] || !sameOrder(old, order) {
			changed[cluster] = true
		}
	}
	return changed, asked
}

// AskedBy is the sequence of the newest order that asked a cell for anything but another break and add; a hub of
// before did not tell them from others.
func AskedBy(c *topology.Cell) int64 { return cmp.Or(c.Asked, c.Sequence) }

func orders(cells []topology.Cell) map[string][]*topology.Cell {
	byCluster := map[string][]*topology.Cell{}
	for i := range cells {
		byCluster[cells[i].Cluster] = append(byCluster[cells[i].Cluster], &cells[i])
	}
	return byCluster
}

func sameOrder(before, after []*topology.Cell) bool {
	return sameTask(before, after) && slices.EqualFunc(before, after, func(a, b *topology.Cell) bool { return a.Share == b.Share && a.Frozen == b.Frozen })
}

// sameTask tells whether two orders ask for the same, whatever they permit on the way.
func sameTask(before, after []*topology.Cell) bool {
	return slices.EqualFunc(before, after, func(a, b *topology.Cell) bool {
		// The zone of a subset's cell is only told; where the policy spreads by zone, it is part of the order.
		return a.Subset == b.Subset && a.SpreadSubset == b.SpreadSubset && (a.Zone == b.Zone || a.Subset != "" || a.SpreadSubset != "") && a.Replicas == b.Replicas && a.Share.Update == b.Share.Update &&
			a.Overrides == b.Overrides && a.Adopt == b.Adopt
	})
}
