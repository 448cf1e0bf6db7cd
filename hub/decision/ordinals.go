package decision

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/topology/handover"
	"github.com/flotilla-dev/flotilla/topology/lending"
	"github.com/flotilla-dev/flotilla/topology/ordinals"
)

// noTwin reports whether there are never two pods for one replica, so that a pod goes before its replacement comes.
func (d *draft) noTwin() bool {
	return d.workload.Ordinals != nil || d.facts.Failover.Mode == topology.FailoverFence
}

// FailoverOf returns the failover of a policy as it holds for a workload, and a remark if it differs. Ordinals, and the
// jobs of a workload that runs in one member, move only from a member that is known to run none of them.
func FailoverOf(w *kinds.Workload, f topology.Failover) (topology.Failover, string) {
	if w.Alone && f.Mode == topology.FailoverReplace {
		f.Mode = topology.FailoverNever
		return f, fmt.Sprintf("failover.mode Replace does not move %s, which starts jobs in one member: set Fence in the "+
			"policy to move it when a member is lost", w.Key.Sentence())
	}
	if w.Ordinals == nil || f.Mode != topology.FailoverReplace {
		return f, ""
	}
	f.Mode = topology.FailoverFence
	return f, fmt.Sprintf("failover.mode Replace is carried out as Fence: two pods of %s never have one name; "+
		"set Fence in the policy", w.Key.Sentence())
}

// assignOrdinals decides which member has which ordinals, after the replicas of each cell are known. A member keeps its
// ordinals. The only exception is a lost member whose replicas go elsewhere: it is known to run no pod ([Member.Lost]
// has waited for that), so the ordinals of its pods go to the members that get more replicas. When it returns it
// creates no pod before it has read an order without them: the agent holds creations back
// (member-agent/link/fenced.go), the order is written before those of the members that take over, and its session is
// answered after that.
func assignOrdinals(d *draft) *kinds.Rejection {
	want := d.workload.Ordinals
	if want == nil {
		return nil
	}
	ledger, start := ledgerOf(d.facts.Last), d.ordinalsStart()
	reserved := ordinals.Offsets(want.Reserved, start)
	had := map[string]int32{}
	if d.last != nil {
		for i := range d.last.Cells {
			had[d.last.Cells[i].Cluster] += d.last.Cells[i].Replicas
		}
	}
	if rejection := d.checkAdopted(&ledger); rejection != nil {
		return rejection
	}
	fenced := d.fence(&ledger, had, reserved)
	assigned := ledger.Assign(d.demands(&ledger, had), reserved)
	if int64(start)+int64(assigned.Ledger.Next) > math.MaxInt32 {
		return &kinds.Rejection{Reason: OrdinalsUsedUp, Message: fmt.Sprintf(
			"spec.ordinals.start %d of %s leaves no ordinals for its members, which have %d ordinals each; lower start",
			start, d.workload.Key.Sentence(), ordinals.Stride)}
	}
	for _, cluster := range assigned.Full {
		d.leaveOut(cluster, assigned.Ledger.Owned(cluster, reserved))
	}
	d.spec.Ordinals = recordOf(&assigned.Ledger, start)
	d.handOver(fenced, &assigned.Ledger, reserved)
	if spreadsByZone(&d.facts.Spread) {
		d.notes = append(d.notes, Note{Reason: Placed, Message: fmt.Sprintf(
			"%s is spread over members, not over zones as %s says; spread its pods within a member by "+
				"topologySpreadConstraints", d.workload.Key.Sentence(), PolicyName(&d.facts.Policy))})
	}
	return nil
}

// checkAdopted rejects an adoption of pods with the same ordinals in two members.
func (d *draft) checkAdopted(ledger *ordinals.Ledger) *kinds.Rejection {
	var running []string
	for _, cluster := range slices.Sorted(maps.Keys(d.facts.Found)) {
		if d.facts.Found[cluster].sum() > 0 && ledger.Ranges(cluster) == nil {
			running = append(running, cluster)
		}
	}
	if len(running) == 0 || len(running) == 1 && ledger.Next == 0 {
		return nil
	}
	return &kinds.Rejection{Reason: AdoptionRefused, Message: fmt.Sprintf(
		"%s runs in member %s already, with ordinals that another member has; only one member can have pods before; "+
			"scale it to 0 in the others, or narrow spec.clusters of %s", d.workload.Key.Sentence(),
		running[len(running)-1], PolicyName(&d.facts.Policy))}
}

// ordinalsStart returns the first ordinal. While pods may run it is that of their names: with another one a member
// would create pods of names that another member still runs.
func (d *draft) ordinalsStart() int32 {
	want := d.workload.Ordinals.Start
	if d.facts.Last == nil || d.facts.Last.Ordinals == nil || d.facts.Last.Ordinals.Start == want {
		return want
	}
	have := d.facts.Last.Ordinals.Start
	for i := range d.facts.Last.Cells {
		if !emptied(d, &d.facts.Last.Cells[i]) {
			d.notes = append(d.notes, Note{Reason: Placed, Message: fmt.Sprintf(
				"ordinals start at %d until no pod of %s is left; scale it to 0 to let spec.ordinals.start %d take effect",
				have, d.workload.Key.Sentence(), want)})
			return have
		}
	}
	return want
}

// fence takes from each lost member the ordinals of the pods that it ran, if others get its replicas, and returns them
// by member. Nothing that was granted to it counts any more, because no pod of it exists.
func (d *draft) fence(
	ledger *ordinals.Ledger, had map[string]int32, reserved []ordinals.Range,
) map[string][]ordinals.Range {
	keeps := map[string]int32{}
	for i := range d.spec.Cells {
		c := &d.spec.Cells[i]
		keeps[c.Cluster] += c.Replicas - c.Replaced
	}
	fenced := map[string][]ordinals.Range{}
	for i := range d.facts.Members {
		m := &d.facts.Members[i]
		if m.Lost && had[m.Name] > keeps[m.Name] {
			fenced[m.Name] = ordinals.Take(ledger.Ranges(m.Name), reserved, had[m.Name])
			*ledger = ledger.Fence(m.Name, had[m.Name], reserved)
			had[m.Name] = 0
		}
	}
	if len(fenced) == 0 {
		return nil
	}
	isFenced := func(cluster string) bool { _, ok := fenced[cluster]; return ok }
	for i := range d.spec.Cells {
		if c := &d.spec.Cells[i]; isFenced(c.Cluster) {
			c.Replicas, c.Replaced = c.Replicas-c.Replaced, 0
			c.Reason = topology.Reason{Code: CellFenced}
		}
	}
	last := *d.last
	last.Cells = slices.Clone(last.Cells)
	for i := range last.Cells {
		if c := &last.Cells[i]; isFenced(c.Cluster) {
			c.Granted, c.Reserved = topology.Budget{}, topology.Budget{}
		}
	}
	d.last = &last
	return fenced
}

// demands returns what each member is to run, by name. Lost members come last: their ordinals go to those that replace
// them. A member whose pods are adopted comes first, because their names begin at the lowest ordinal.
func (d *draft) demands(ledger *ordinals.Ledger, had map[string]int32) []ordinals.Demand {
	replicas, turn := map[string]int32{}, map[string]int{}
	for i := range d.spec.Cells {
		replicas[d.spec.Cells[i].Cluster] += d.spec.Cells[i].Replicas
	}
	var demands []ordinals.Demand
	for cluster, n := range replicas {
		if n > 0 || ledger.Ranges(cluster) != nil {
			demands = append(demands, ordinals.Demand{Cluster: cluster, Had: had[cluster], Replicas: n})
		}
	}
	for i := range d.facts.Members {
		switch m := &d.facts.Members[i]; {
		case m.Lost:
			turn[m.Name] = 1
		case d.facts.Found[m.Name].sum() > 0:
			turn[m.Name] = -1
		}
	}
	slices.SortFunc(demands, func(a, b ordinals.Demand) int {
		return cmp.Or(cmp.Compare(turn[a.Cluster], turn[b.Cluster]), cmp.Compare(a.Cluster, b.Cluster))
	})
	return demands
}

// leaveOut takes from the cells of a member what it has no ordinals for.
func (d *draft) leaveOut(cluster string, owned int64) {
	var missing int32
	for i := range d.spec.Cells {
		c := &d.spec.Cells[i]
		if c.Cluster != cluster {
			continue
		}
		n := int32(min(int64(c.Replicas), owned))
		missing, owned = missing+c.Replicas-n, owned-int64(n)
		c.Replicas, c.Replaced = n, min(c.Replaced, n)
	}
	d.result.unplaced = append(d.result.unplaced, topology.Unplaced{
		Replicas: missing, Reason: topology.Reason{Code: UnplacedOrdinals},
	})
	d.notes = append(d.notes, Note{Reason: OrdinalsUsedUp, Stalled: true, Message: fmt.Sprintf(
		"%d replicas of %s have no ordinals in member %s; remove spec.reserveOrdinals, or create the workload again",
		missing, d.workload.Key.Sentence(), cluster)})
}

// ledgerOf reads the ledger of a placement.
func ledgerOf(spec *topology.WorkloadPlacementSpec) ordinals.Ledger {
	if spec == nil || spec.Ordinals == nil {
		return ordinals.Ledger{}
	}
	out := ordinals.Ledger{Next: spec.Ordinals.Next, Free: kinds.RangesOf(spec.Ordinals.Free)}
	for _, b := range spec.Ordinals.Blocks {
		out.Blocks = append(out.Blocks, ordinals.Block{
			Cluster: b.Cluster, Ranges: kinds.RangesOf(b.Ranges), Spare: kinds.RangesOf(b.Spare),
		})
	}
	return out
}

// recordOf writes a ledger as a placement has it.
func recordOf(ledger *ordinals.Ledger, start int32) *topology.Ordinals {
	out := &topology.Ordinals{Start: start, Next: ledger.Next, Free: rangesOf(ledger.Free)}
	for _, b := range ledger.Blocks {
		out.Blocks = append(out.Blocks, topology.OrdinalBlock{
			Cluster: b.Cluster, Ranges: rangesOf(b.Ranges), Spare: rangesOf(b.Spare),
		})
	}
	return out
}

func rangesOf(ranges []ordinals.Range) []topology.OrdinalRange {
	var out []topology.OrdinalRange
	for _, r := range ranges {
		out = append(out, topology.OrdinalRange{Start: r.Start, End: r.End})
	}
	return out
}

// holdToOrdinals gives the cells of a rollout their ceilings of updated pods, so that the highest ordinals of all
// members are updated first. The ordinals that one member runs without a gap are a run, and the pods of a run may be
// updated while fewer than window pods of higher ordinals are still to become available. Nothing is held up by silent
// members, and no member that has unavailable pods is held back: they may use up the limit until they are updated. A
// policy with waves has an order of its own.
func holdToOrdinals(d *draft, spec *topology.WorkloadPlacementSpec, p *pool, window int32) {
	if d.workload.Ordinals == nil || spec.Ordinals == nil || d.workload.Ordinals.Unordered || !d.updates(p.cells) {
		return
	}
	done, ceilings := make([]int32, len(p.cells)), make([]int32, len(p.cells))
	for i := range p.cells {
		if p.cells[i].Report != nil {
			done[i] = d.reports[p.cells[i].Key].Use[p.subset].UpdatedAvailable
		}
	}
	left, pending := p.global.Updated, int32(0)
	for _, run := range d.runs(spec, p.cells) {
		n, use := min(run.size, max(left, 0)), d.reports[p.cells[run.cell].Key].Use[p.subset]
		if pending < max(window, 1) || use.Available < use.Desired {
			ceilings[run.cell] += n
		}
		updated := min(done[run.cell], n)
		left, done[run.cell] = left-n, done[run.cell]-updated
		if !p.cells[run.cell].Lost {
			pending += n - updated
		}
	}
	for i := range p.cells {
		p.cells[i].Ceiling = &ceilings[i]
	}
}

// updates reports whether a member may still have pods of an earlier revision.
func (d *draft) updates(cells []lending.Cell) bool {
	if d.last == nil || d.last.Revision == "" {
		return false
	}
	return slices.ContainsFunc(cells, func(c lending.Cell) bool {
		return c.Replicas > 0 && !c.Lost && (c.Report == nil || c.Report.InUse.Updated < c.Report.Total)
	})
}

// ordinalRun are ordinals that one member runs without a gap.
type ordinalRun struct {
	cell        int // index
	start, size int32
}

// runs returns the ordinals that members run, the highest first.
func (d *draft) runs(spec *topology.WorkloadPlacementSpec, cells []lending.Cell) []ordinalRun {
	ledger, reserved := ledgerOf(spec), ordinals.Offsets(d.workload.Ordinals.Reserved, spec.Ordinals.Start)
	var out []ordinalRun
	for i := range cells {
		for _, r := range ordinals.Take(ledger.Ranges(cells[i].Key), reserved, cells[i].Replicas) {
			out = append(out, ordinalRun{cell: i, start: r.Start, size: r.End - r.Start + 1})
		}
	}
	slices.SortFunc(out, func(a, b ordinalRun) int { return cmp.Compare(b.start, a.start) })
	return out
}

// renamedPods returns whether a cluster's order gives its pods other ordinals than the last one.
func renamedPods(last, spec *topology.WorkloadPlacementSpec) func(cluster string) bool {
	return func(cluster string) bool {
		if last == nil || last.Ordinals == nil || spec.Ordinals == nil {
			return false
		}
		before, after := last.Ordinals.Block(cluster), spec.Ordinals.Block(cluster)
		if before == nil || after == nil {
			return before != after
		}
		return last.Ordinals.Start != spec.Ordinals.Start || !slices.Equal(before.Ranges, after.Ranges)
	}
}

// handOver decides which values wait for the pods of which ordinals: those of the last decision, and the last values
// of the pods that fenced members ran. fenced has the ordinals of those, by member. What such a member reports later is
// not read, because it does not have these ordinals any more.
//
// Values are removed when their pod was created with them, and when no member is to run the ordinal.
func (d *draft) handOver(fenced map[string][]ordinals.Range, ledger *ordinals.Ledger, reserved []ordinals.Range) {
	d.spec.HandOver = d.facts.Failover.HandOver
	start, waiting, cut := d.spec.Ordinals.Start, map[int32]map[string]string{}, ""
	if last := d.facts.Last; last != nil && last.Ordinals != nil && last.Ordinals.HandOver != nil &&
		last.Ordinals.Start == start {
		given := d.given()
		for _, pod := range last.Ordinals.HandOver.Pods {
			if !given(pod.Ordinal) {
				waiting[pod.Ordinal], cut = pod.Values, last.Ordinals.HandOver.Cut
			}
		}
	}
	for _, cluster := range slices.Sorted(maps.Keys(fenced)) {
		for ordinal, values := range d.lastValues(cluster, fenced[cluster], start) {
			merged := maps.Clone(waiting[ordinal])
			if merged == nil {
				merged = map[string]string{}
			}
			maps.Copy(merged, values)
			waiting[ordinal] = merged
		}
	}
	d.noteCut()
	if len(waiting) == 0 {
		return
	}
	wanted := d.wanted(ledger, reserved)
	var pods []topology.OrdinalValues
	for ordinal, values := range waiting {
		if within(wanted, ordinal-start) {
			pods = append(pods, topology.OrdinalValues{Ordinal: ordinal, Values: values})
		}
	}
	handover.Sort(pods)
	if d.spec.Ordinals.HandOver = handover.Fit(pods); d.spec.Ordinals.HandOver != nil {
		out := d.spec.Ordinals.HandOver
		out.Cut = cmp.Or(out.Cut, cut)
		d.noteCutIn("the members that replace them", out)
	}
}

// lastValues returns what a fenced member reported last of the pods with these ordinals: what it reported of each, and
// what its status has for all.
func (d *draft) lastValues(cluster string, ranges []ordinals.Range, start int32) map[int32]map[string]string {
	h, out := d.facts.Failover.HandOver, map[int32]map[string]string{}
	if h == nil {
		return nil
	}
	if status := d.facts.StatusValues[cluster]; len(status) > 0 {
		for _, r := range ranges {
			for offset := r.Start; offset <= r.End; offset++ {
				out[offset+start] = maps.Clone(status)
			}
		}
	}
	report := d.facts.Reports[cluster].HandOver
	if report == nil {
		return out
	}
	for _, pod := range report.Pods {
		if !within(ranges, pod.Ordinal-start) {
			continue
		}
		for name, value := range pod.Values {
			if !handover.Names(h, name) {
				continue
			}
			if out[pod.Ordinal] == nil {
				out[pod.Ordinal] = map[string]string{}
			}
			out[pod.Ordinal][name] = value
		}
	}
	return out
}

// given returns whether the pod of an ordinal was created with the values that its member's order has for it: the
// member reports it, or reports that all pods of that order are available.
func (d *draft) given() func(ordinal int32) bool {
	last := d.facts.Last
	replicas, sequence := map[string]int32{}, map[string]int64{}
	for i := range last.Cells {
		c := &last.Cells[i]
		replicas[c.Cluster] += c.Replicas
		sequence[c.Cluster] = c.Sequence
	}
	return func(ordinal int32) bool {
		for _, block := range last.Ordinals.Blocks {
			report, ok := d.facts.Reports[block.Cluster]
			if !ok || !within(kinds.RangesOf(block.Ranges), ordinal-last.Ordinals.Start) {
				continue
			}
			use := report.Use[""]
			return slices.Contains(report.HandedOver, ordinal) || report.Sequence >= sequence[block.Cluster] &&
				use.Desired >= replicas[block.Cluster] && use.Available >= use.Desired
		}
		return false
	}
}

// wanted returns the ordinals that members are to run, and those that wait for a member.
func (d *draft) wanted(ledger *ordinals.Ledger, reserved []ordinals.Range) []ordinals.Range {
	replicas := map[string]int32{}
	for i := range d.spec.Cells {
		replicas[d.spec.Cells[i].Cluster] += d.spec.Cells[i].Replicas
	}
	wanted := slices.Clone(ledger.Free)
	for _, block := range ledger.Blocks {
		wanted = append(wanted, ordinals.Take(block.Ranges, reserved, replicas[block.Cluster])...)
	}
	return wanted
}

// noteCut says of which pods members report only a part of the values.
func (d *draft) noteCut() {
	if d.facts.Failover.HandOver == nil {
		return
	}
	for _, cluster := range slices.Sorted(maps.Keys(d.facts.Reports)) {
		if report := d.facts.Reports[cluster].HandOver; report != nil {
			d.noteCutIn("member "+cluster, report)
		}
	}
}

func (d *draft) noteCutIn(where string, values *topology.HandOverValues) {
	if values.Cut == "" {
		return
	}
	d.notes = append(d.notes, Note{Reason: HandOverCut, Message: fmt.Sprintf(
		"values of failover.handOver are cut for ordinals %s of %s in %s: a pod can hand over %d bytes, all pods %d KiB; "+
			"name fewer values, or shorten them", values.Cut, d.workload.Key.Sentence(), where, handover.MaxPod,
		handover.MaxAll/1024)})
}

func within(ranges []ordinals.Range, offset int32) bool {
	return slices.ContainsFunc(ranges, func(r ordinals.Range) bool { return r.Start <= offset && offset <= r.End })
}
