package explain

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/forecast"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/snapshot"
	"github.com/flotilla-dev/flotilla/hub/store"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// Gather reads what answers about a workload are made from. It fails if there is no such workload.
func Gather(ctx context.Context, s *snapshot.Snapshot, hubID string, key wire.Key) (*Facts, error) {
	if err := store.Index(ctx, s); err != nil {
		return nil, err
	}
	outcome, err := forecast.New(s, hubID).Of(ctx, key)
	if err != nil {
		return nil, err
	}
	if outcome.Object == nil {
		return nil, fmt.Errorf("there is no %s", key.Sentence())
	}
	f := &Facts{Key: key, Forecast: outcome}
	if f.Conditions, err = conditionsOf(outcome.Object); err != nil {
		return nil, fmt.Errorf("read the conditions of %s: %w", key.Sentence(), err)
	}
	members := &topology.MemberClusterList{}
	if err := s.List(ctx, members, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	ready := map[string]bool{}
	for i := range members.Items {
		m := &members.Items[i]
		f.Members = append(f.Members, m.Name)
		ready[m.Name] = meta.IsStatusConditionTrue(m.Status.Conditions, topology.MemberReady)
	}
	slices.Sort(f.Members)
	works, err := worksOf(ctx, s, key, outcome.Present)
	if err != nil {
		return nil, err
	}
	table, reports := kinds.Workloads(), map[string]*work.Report{}
	for cluster, w := range works {
		if report, _ := table.ReportOf(w); report != nil && report.HubID == hubID {
			reports[cluster] = report
		}
	}
	f.States = kinds.SumStates(reports)
	maps.DeleteFunc(works, func(cluster string, _ *work.Work) bool { return !ready[cluster] })
	f.addPodReasons(table, hubID, works)
	return f, nil
}

// addPodReasons adds the reasons of pods in the Works.
func (f *Facts) addPodReasons(table kinds.Table, hubID string, works map[string]*work.Work) {
	kind := table[f.Key.GroupKind()]
	f.PodReasons, f.PodReasonsIn = table.PodReasons(kind, hubID, works), map[string][]kinds.PodReason{}
	for cluster, w := range works {
		if in := table.PodReasons(kind, hubID, map[string]*work.Work{cluster: w}); len(in) > 0 {
			f.PodReasonsIn[cluster] = in
		}
	}
}

// worksOf returns the Works of a placement by member.
func worksOf(
	ctx context.Context, s *snapshot.Snapshot, key wire.Key, placement *topology.WorkloadPlacement,
) (map[string]*work.Work, error) {
	if placement == nil {
		return nil, nil
	}
	list := &work.WorkList{}
	if err := s.List(ctx, list, client.MatchingFields{store.IndexWorkWorkload: key.String()},
		client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	works := map[string]*work.Work{}
	for i := range list.Items {
		w := &list.Items[i]
		cluster, ok := wire.MemberOf(w.Namespace)
		if !ok || wire.IsCheck(w) || w.Labels[topology.LabelPlacement] != string(placement.UID) {
			continue
		}
		works[cluster] = w
	}
	return works, nil
}

// conditionsOf reads the conditions of an object of any kind: their types differ, what they are written as does not.
func conditionsOf(object client.Object) ([]metav1.Condition, error) {
	data, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var read struct {
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	err = json.Unmarshal(data, &read)
	return read.Status.Conditions, err
}
