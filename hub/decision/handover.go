package decision

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/topology/handover"
	"github.com/flotilla-dev/flotilla/topology/ordinals"
)

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
