package placement

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
	"github.com/flotilla-dev/flotilla/topology/division"
)

// SpreadFacts are what a decision depends on of the WorkloadSpread that names a CloneSet.
type SpreadFacts struct {
	Ref topology.SpreadReference
	// Parts are its subsets, in their order. The last one has no name where replicas remain above the sum of the caps.
	Parts []Subset
	// Adaptive is its strategy of that name, nil where pods that find no node wait.
	Adaptive *Adaptive
	// Remarks are sentences about what is not carried out, in a stable order.
	Remarks []string
}

// spreadsOf returns the WorkloadSpreads that name a CloneSet of the hub, the oldest first; those that are being deleted are left out.
func (r *gatherer) spreadsOf(ctx context.Context, key wire.Key) ([]apps.WorkloadSpread, error) {
	if key.Kind != apps.CloneSetKind.Kind {
		return nil, nil
	}
	list := &apps.WorkloadSpreadList{}
	if err := r.reader.List(ctx, list, client.InNamespace(key.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list WorkloadSpreads of %s: %w", key.Namespace, err)
	}
	var found []apps.WorkloadSpread
	for i := range list.Items {
		if ws := &list.Items[i]; ws.DeletionTimestamp == nil && slices.Contains(targetOf(ws), key) {
			found = append(found, *ws)
		}
	}
	slices.SortFunc(found, func(a, b apps.WorkloadSpread) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	return found, nil
}

// targetOf returns the CloneSet that a WorkloadSpread names, none where it names something else.
func targetOf(ws *apps.WorkloadSpread) []wire.Key {
	ref := ws.Spec.TargetReference
	if ref == nil || ref.Kind != apps.CloneSetKind.Kind {
		return nil
	}
	if version, err := schema.ParseGroupVersion(ref.APIVersion); err != nil || version.Group != apps.GroupVersion.Group {
		return nil
	}
	return []wire.Key{{Group: apps.GroupVersion.Group, Kind: ref.Kind, Namespace: ws.Namespace, Name: ref.Name}}
}

// SpreadHash returns the hash of what a WorkloadSpread asks for.
func SpreadHash(ws *apps.WorkloadSpread) (string, error) {
	data, err := json.Marshal(ws.Spec)
	if err != nil {
		return "", fmt.Errorf("encode WorkloadSpread %s/%s: %w", ws.Namespace, ws.Name, err)
	}
	return history.Hash(data, nil), nil
}

// readSpread returns what the WorkloadSpreads of a CloneSet say, nil where none is for its pods, and sentences about those that are not.
func readSpread(w *Workload, object client.Object, spreads []apps.WorkloadSpread) (*SpreadFacts, []string, *Refusal) {
	set, ok := object.(*apps.CloneSet)
	if !ok || len(spreads) == 0 {
		return nil, nil, nil
	}
	ws, spec := &spreads[0], &spreads[0].Spec
	title := "WorkloadSpread " + ws.Name
	var remarks []string
	for i := range spreads[1:] {
		remarks = append(remarks, fmt.Sprintf("WorkloadSpread %s is not used, because the older %s names the same CloneSet; delete one of them", spreads[1+i].Name, ws.Name))
	}
	if filter := spec.TargetFilter; filter != nil {
		if len(filter.ReplicasPathList) > 0 {
			remarks = append(remarks, fmt.Sprintf("targetFilter.replicasPathList of %s is not used on the hub: percentages are of spec.replicas", title))
		}
		selector, err := metav1.LabelSelectorAsSelector(filter.Selector)
		if err != nil {
			return nil, nil, &Refusal{InvalidSpread, fmt.Sprintf("targetFilter.selector of %s for %s cannot be used: %v; correct it", title, w.Key.Sentence(), err)}
		}
		if filter.Selector != nil && !selector.Matches(labels.Set(set.Spec.Template.Labels)) {
			return nil, append(remarks, fmt.Sprintf("%s is not used: its targetFilter.selector does not match the labels of the pod template", title)), nil
		}
	}
	hash, err := SpreadHash(ws)
	if err != nil {
		return nil, nil, &Refusal{InvalidSpread, fmt.Sprintf("%s for %s cannot be used: %v; correct it", title, w.Key.Sentence(), err)}
	}
	out := &SpreadFacts{Ref: topology.SpreadReference{Name: ws.Name, Hash: hash}, Adaptive: spreadStrategy(&spec.ScheduleStrategy), Remarks: remarks}
	left := int64(w.Replicas)
	for i := range spec.Subsets {
		s := &spec.Subsets[i]
		// A floor of none makes even subsets without a limit be filled in their order.
		part := Subset{Subset: division.Subset{Name: s.Name, Min: new(intstr.FromInt32(0))}}
		if s.RequiredNodeSelector != nil {
			if wrong := wrongTerm("requiredNodeSelector", s.RequiredNodeSelector); wrong != "" {
				return nil, nil, &Refusal{InvalidSpread, fmt.Sprintf("subset %q of %s for %s: %s", s.Name, title, w.Key.Sentence(), wrong)}
			}
			part.Term = *s.RequiredNodeSelector
		}
		if s.MaxReplicas == nil {
			left = 0
		} else {
			limit, err := budget.Scaled(*s.MaxReplicas, w.Replicas, budget.Up)
			if err != nil {
				return nil, nil, &Refusal{InvalidSpread, fmt.Sprintf("maxReplicas of subset %q of %s for %s: %v", s.Name, title, w.Key.Sentence(), err)}
			}
			part.Max, left = new(intstr.FromInt32(limit)), left-int64(limit)
		}
		out.Parts = append(out.Parts, part)
	}
	if left > 0 {
		out.Parts = append(out.Parts, Subset{Subset: division.Subset{Min: new(intstr.FromInt32(0))}})
		out.Remarks = append(out.Remarks, fmt.Sprintf("%d replicas are above the sum of the maxReplicas of %s and run in no subset of it", left, title))
	}
	return out, nil, nil
}

// spreadStrategy returns the strategy Adaptive of a WorkloadSpread, nil where pods wait for ever: as published, also where no time is
// given. A subset is closed for a time that cannot be chosen.
func spreadStrategy(s *apps.WorkloadSpreadScheduleStrategy) *Adaptive {
	if s.Type != apps.AdaptiveWorkloadSpreadScheduleStrategyType || s.Adaptive == nil {
		return nil
	}
	critical := ptr.Deref(s.Adaptive.RescheduleCriticalSeconds, 0)
	if critical <= 0 {
		return nil
	}
	return &Adaptive{Critical: time.Duration(critical) * time.Second, Closed: defaultClosed}
}

// divideSpread serves CloneSets that a WorkloadSpread names: its subsets are filled in their order, each over the members that its
// requiredNodeSelector matches. Limits hold over all of them together.
func divideSpread(f *Facts) (divided, []Note, *Refusal) {
	parts := f.WorkloadSpread.Parts
	g := *f
	g.Workload.Open, g.Workload.Subsets = false, parts
	if f.Last != nil {
		last := *f.Last
		last.Cells, last.Limits = spreadCells(f, f.Last.Cells), nil
		parts = slices.Concat(parts, removedParts(f, last.Cells))
		g.Workload.Subsets = parts
		for i := range parts {
			// What is new matches no member where it matches none: replicas go to the next subset then.
			last.Limits = append(last.Limits, topology.SubsetLimits{Subset: parts[i].Name})
		}
		g.Last, g.Reports = &last, spreadReports(f, last.Cells)
	}
	g.left = leftPlaces(&g)
	result, notes, refusal := divideSubsets(&g)
	if refusal != nil {
		return divided{}, nil, refusal
	}
	for i := range result.cells {
		c := &result.cells[i]
		c.Subset, c.SpreadSubset = "", c.Subset
		if c.Replicas == 0 && c.SpreadSubset != "" && !hasPart(f, c.SpreadSubset) {
			c.Reason = topology.Reason{Code: CellUnmatched}
		}
	}
	for i := range notes {
		notes[i].Message = strings.ReplaceAll(notes[i].Message, "nodeSelectorTerm", "requiredNodeSelector in WorkloadSpread "+f.WorkloadSpread.Ref.Name)
	}
	result.subsets = map[string]int32{"": f.Workload.Replicas}
	return result, slices.Concat(notes, removedSpreadNotes(f, result.cells)), nil
}

// spreadCells returns the cells of the last decision as cells of the subsets that there are now. What a member has in none of them, because
// the WorkloadSpread is new or another one, counts for the subsets that it matches, in their order, as far as those have room: so it
// stays where it is. Replicas of removed subsets that find no room keep the name of their subset, see removedParts.
func spreadCells(f *Facts, cells []topology.Cell) []topology.Cell {
	if f.Last.Spread != nil && *f.Last.Spread == f.WorkloadSpread.Ref {
		var out []topology.Cell
		for _, c := range cells {
			if inRemovedSubset(f, &c) && !keepsRemoved(f, c.Cluster) {
				c.SpreadSubset = f.WorkloadSpread.Parts[0].Name
			}
			c.Subset, c.SpreadSubset = c.SpreadSubset, ""
			out = add(out, c)
		}
		return out
	}
	with := func(removed int) []topology.Cell {
		kept, left := reassign(f, cells, true, removed)
		if left > 0 {
			if anew, fewer := reassign(f, cells, false, removed); fewer < left {
				return anew
			}
		}
		return kept
	}
	out := with(0)
	if len(removedParts(f, out)) == 0 {
		return out
	}
	// The subsets share what the removed ones do not have, and these have what finds no room in the subsets.
	enough := func(n int) bool { return sumRemoved(removedParts(f, with(n))) <= n }
	return with(sort.Search(int(f.Workload.Replicas), enough))
}

// reassign gives what members have to the subsets, and returns how many replicas none of them takes. With keep those that are in a subset
// of the same name stay in it. removed is how many of the replicas stay in removed subsets.
func reassign(f *Facts, cells []topology.Cell, keep bool, removed int) (out []topology.Cell, left int64) {
	parts, rooms, loose := f.WorkloadSpread.Parts, spreadRooms(f, removed), map[string]int32{}
	for i := range cells {
		c := cells[i]
		at := slices.IndexFunc(parts, func(p Subset) bool { return keep && f.Last.Spread != nil && p.Name == c.SpreadSubset })
		m := slices.IndexFunc(f.Members, func(m Member) bool { return m.Name == c.Cluster })
		if at < 0 || m < 0 || f.Members[m].Ready && !matchTerm(&parts[at].Term, &f.Members[m]).ok {
			loose[c.Cluster] += c.Replicas
			continue
		}
		c.Subset, c.SpreadSubset, rooms[at] = c.SpreadSubset, "", rooms[at]-int64(c.Replicas)
		out = append(out, c)
	}
	for i := range parts {
		for j := range f.Members {
			m := &f.Members[j]
			n := min(int64(loose[m.Name]), max(rooms[i], 0))
			if parts[i].Name == "" {
				n = min(n, max(int64(loose[m.Name]-removedOf(f, cells, m.Name)), 0))
			}
			if n == 0 || !matchTerm(&parts[i].Term, m).ok {
				continue
			}
			rooms[i], loose[m.Name] = rooms[i]-n, loose[m.Name]-int32(n)
			at := slices.IndexFunc(out, func(c topology.Cell) bool { return c.Cluster == m.Name && c.Subset == parts[i].Name })
			if at < 0 {
				at, out = len(out), append(out, topology.Cell{Cluster: m.Name, Subset: parts[i].Name, Reason: topology.Reason{Code: division.CellKept}})
			}
			out[at].Replicas += int32(n)
		}
		left += max(-rooms[i], 0)
	}
	out = append(out, removedCellsOf(f, cells, loose)...)
	for _, n := range loose {
		left += int64(n)
	}
	return append(out, homeless(f, cells, loose)...), left
}

// homeless are cells for what members have that match no subset any more: they count for the subset that they had, or else for the first
// one, and are left step by step.
func homeless(f *Facts, cells []topology.Cell, loose map[string]int32) []topology.Cell {
	parts := f.WorkloadSpread.Parts
	var out []topology.Cell
	for i := range f.Members {
		m := &f.Members[i]
		if loose[m.Name] == 0 || slices.ContainsFunc(parts, func(p Subset) bool { return matchTerm(&p.Term, m).ok }) {
			continue
		}
		at := slices.IndexFunc(cells, func(c topology.Cell) bool { return c.Cluster == m.Name })
		c := cells[at]
		had := slices.IndexFunc(parts, func(p Subset) bool { return p.Name == c.SpreadSubset })
		c.Subset, c.SpreadSubset, c.Replicas, c.Leaving = parts[max(had, 0)].Name, "", loose[m.Name], 0
		out = append(out, c)
	}
	return out
}

// spreadRooms returns how many replicas each subset gets of those that are not in removed ones: the subsets are
// filled in their order, and those that no member matches get none.
func spreadRooms(f *Facts, removed int) []int64 {
	parts, left := f.WorkloadSpread.Parts, max(int64(f.Workload.Replicas)-int64(removed), 0)
	rooms := make([]int64, len(parts))
	for i := range parts {
		matched := slices.ContainsFunc(f.Members, func(m Member) bool { return m.Selected && matchTerm(&parts[i].Term, &m).ok })
		if !matched {
			continue
		}
		rooms[i] = left
		if parts[i].Max != nil {
			rooms[i] = min(left, int64(parts[i].Max.IntVal))
		}
		left -= rooms[i]
	}
	return rooms
}

// spreadReports shares out what members have reported, which is of all subsets together, over their cells. Pods that are told to find no
// node are none of them.
func spreadReports(f *Facts, cells []topology.Cell) map[string]Report {
	out := map[string]Report{}
	left := map[string]int32{}
	for name, report := range f.Reports {
		left[name] = report.Use[""].Ready
		report.Use = map[string]work.SubsetUse{}
		out[name] = report
	}
	for i := range cells {
		c := &cells[i]
		if report, ok := out[c.Cluster]; ok {
			there := min(left[c.Cluster], max(c.Replicas-report.waitingIn(c), 0))
			left[c.Cluster] -= there
			report.Use[c.Subset] = work.SubsetUse{Ready: there}
		}
	}
	return out
}

// withoutSpread returns cells of a decision that went by a WorkloadSpread as those of one that does not: one for each cluster.
func withoutSpread(cells []topology.Cell) []topology.Cell {
	var out []topology.Cell
	for _, c := range cells {
		c.SpreadSubset, c.Zone = "", ""
		out = add(out, c)
	}
	return out
}

// StripDecided takes out of a node selector what has done its work on the hub; nil where nothing is left. A zone stays: a member may have
// several.
func StripDecided(term *corev1.NodeSelectorTerm) *corev1.NodeSelectorTerm {
	if term == nil {
		return nil
	}
	out := term.DeepCopy()
	out.MatchExpressions = slices.DeleteFunc(out.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool {
		return r.Key == topology.LabelCluster || r.Key == corev1.LabelTopologyRegion
	})
	if len(out.MatchExpressions) == 0 && len(out.MatchFields) == 0 {
		return nil
	}
	return out
}
