package placement

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/capacity"
	"github.com/flotilla-dev/flotilla/hub/decision"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/store"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/topology/waves"
)

// adopts tells whether the user lets the hub take over what runs in members already.
func adopts(o client.Object) bool { return o.GetAnnotations()[topology.AnnotationAdopt] == "true" }

// foundBy reads what a member told of an object that it was asked about, as far as it can be true; false where it was
// not asked, or has not told.
func foundBy(table kinds.Table, w *work.Work) (decision.Found, bool) {
	applied := meta.FindStatusCondition(w.Status.Conditions, work.ConditionApplied)
	report, _ := table.ReportOf(w)
	if w.Annotations[topology.AnnotationAdopt] == "" || applied == nil || applied.Reason != work.ReasonAdopting ||
		report == nil {
		return nil, false
	}
	found := decision.Found{}
	for _, use := range report.InUse {
		found[use.Subset] = use.Desired
	}
	return found, true
}

// gatherReports reads the newest report of each member. Only reports for this hub and this placement count for
// lending; for the sequence all of the workload do.
func (r *Gatherer) gatherReports(ctx context.Context, s *State) error {
	works := &work.WorkList{}
	if err := r.reader.List(ctx, works, client.MatchingFields{store.IndexWorkWorkload: s.key.String()},
		client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list Works of %s: %w", s.key.Sentence(), err)
	}
	s.reports, s.found, s.written = map[string]capacity.Report{}, map[string]decision.Found{}, map[string]int64{}
	s.statuses = map[string]*runtime.RawExtension{}
	s.runs = runsOf(works.Items, s.Placement)
	for i := range works.Items {
		w := &works.Items[i]
		if wire.IsCheck(w) {
			continue
		}
		cluster, ok := wire.MemberOf(w.Namespace)
		if ok && s.Placement != nil && w.Labels[topology.LabelPlacement] == string(s.Placement.UID) {
			s.written[cluster] = wire.SequenceOf(w)
		}
		report, _ := r.rules.ReportOf(w)
		if !ok || report == nil || report.HubID != r.hubID {
			continue
		}
		s.reported = max(s.reported, min(report.Sequence, wire.MaxSequence))
		if s.Placement == nil || w.Labels[topology.LabelPlacement] != string(s.Placement.UID) {
			continue
		}
		use := make(map[string]work.SubsetUse, len(report.InUse))
		for _, u := range report.InUse {
			use[u.Subset] = u
		}
		if found, ok := foundBy(r.rules, w); ok {
			s.found[cluster] = found
		}
		s.reports[cluster] = capacity.Report{
			Sequence:      report.Sequence,
			At:            report.ObservedAt.Time,
			Applied:       report.Sequence > 0 || meta.IsStatusConditionTrue(w.Status.Conditions, work.ConditionApplied),
			Use:           use,
			Unschedulable: report.Unschedulable,
			HandOver:      report.HandOver,
			HandedOver:    report.HandedOver,
			Halted:        report.Halted,
			States:        report.States,
		}
		if len(w.Status.ManifestStatuses) == 1 {
			s.statuses[cluster] = w.Status.ManifestStatuses[0].Status
		}
	}
	return nil
}

// runsOf reads how the Jobs of checks stand in members. Those of another placement, and those that are being removed,
// do not count.
func runsOf(works []work.Work, placement *topology.WorkloadPlacement) map[waves.RunKey]waves.Run {
	var runs map[waves.RunKey]waves.Run
	for i := range works {
		w := &works[i]
		cluster, ok := wire.MemberOf(w.Namespace)
		if !ok || !wire.IsCheck(w) || placement == nil || w.DeletionTimestamp != nil ||
			w.Labels[topology.LabelPlacement] != string(placement.UID) {
			continue
		}
		if runs == nil {
			runs = map[waves.RunKey]waves.Run{}
		}
		runs[waves.RunKey{Cluster: cluster, Job: w.Annotations[topology.AnnotationJob]}] = runOf(w)
	}
	return runs
}

// runOf reads what a member tells of a Job.
func runOf(w *work.Work) waves.Run {
	if c := meta.FindStatusCondition(w.Status.Conditions, work.ConditionApplied); c != nil &&
		c.Status == metav1.ConditionFalse {
		return waves.Run{Refused: true, Says: fmt.Sprintf("%s (%s)", cmp.Or(c.Message, "the Job does not stand"), c.Reason)}
	}
	for i := range w.Status.ManifestStatuses {
		status := w.Status.ManifestStatuses[i].Status
		job := batchv1.JobStatus{}
		if status == nil || json.Unmarshal(status.Raw, &job) != nil {
			continue
		}
		for _, c := range job.Conditions {
			switch {
			case c.Status != corev1.ConditionTrue:
			case c.Type == batchv1.JobComplete:
				return waves.Run{Succeeded: true}
			case c.Type == batchv1.JobFailed:
				return waves.Run{
					Failed: true,
					Says:   fmt.Sprintf("%s (%s)", cmp.Or(c.Message, "its pods did not succeed"), cmp.Or(c.Reason, "Failed")),
				}
			}
		}
	}
	return waves.Run{}
}

// dividersOf returns the objects that divide a workload into subsets, oldest first. Those that are being deleted are
// left out.
func (r *Gatherer) dividersOf(ctx context.Context, divider *kinds.Divider, key wire.Key) ([]kinds.Object, error) {
	if divider == nil {
		return nil, nil
	}
	list := divider.NewList()
	if err := r.reader.List(ctx, list, client.InNamespace(key.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list %ss of %s: %w", divider.GVK.Kind, key.Namespace, err)
	}
	var found []kinds.Object
	err := meta.EachListItem(list, func(item runtime.Object) error {
		object := item.(kinds.Object)
		if target, ok := divider.Target(object); ok && target == key && object.GetDeletionTimestamp() == nil {
			found = append(found, object)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the list of %ss of %s: %w", divider.GVK.Kind, key.Namespace, err)
	}
	slices.SortFunc(found, func(a, b kinds.Object) int {
		created := a.GetCreationTimestamp()
		return cmp.Or(created.Compare(b.GetCreationTimestamp().Time), strings.Compare(a.GetName(), b.GetName()))
	})
	return found, nil
}

// statusValues returns what a policy hands over from the statuses that lost members reported last, by member and name.
func (s *State) statusValues(members []decision.Member, h *topology.HandOver) map[string]map[string]string {
	if h == nil || len(h.Status) == 0 {
		return nil
	}
	out := map[string]map[string]string{}
	for i := range members {
		status := s.statuses[members[i].Name]
		if !members[i].Lost || status == nil {
			continue
		}
		var tree any
		if json.Unmarshal(status.Raw, &tree) != nil {
			continue
		}
		values := map[string]string{}
		for _, from := range h.Status {
			if value, ok := valueAt(map[string]any{"status": tree}, from.JSONPath); ok {
				values[from.Name] = value
			}
		}
		out[members[i].Name] = values
	}
	return out
}

// valueAt returns the first value that a path leads to: a text as it is, everything else as JSON. The schema admits
// only paths that can be read.
func valueAt(tree any, path string) (string, bool) {
	reader := jsonpath.New("handOver").AllowMissingKeys(true)
	if reader.Parse(path) != nil {
		return "", false
	}
	found, err := reader.FindResults(tree)
	if err != nil || len(found) == 0 || len(found[0]) == 0 {
		return "", false
	}
	switch value := found[0][0].Interface().(type) {
	case nil:
		return "", false
	case string:
		return value, true
	default:
		data, err := json.Marshal(value)
		return string(data), err == nil
	}
}

// cutOf names the ordinals of whose values a report has only a part.
func cutOf(r *work.Report) string {
	if r.HandOver == nil {
		return ""
	}
	return r.HandOver.Cut
}
