package daemons

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
)

// changesAfter is after how many looks a probe finds something else, on average.
const changesAfter = 60

// probeKey is a probe of a pod.
type probeKey struct {
	pod  types.UID
	name string
}

// probe runs the probes of a node, and reports results that changed.
func (m *Member) probe(ctx context.Context, list *v1alpha1.NodePodProbe, now time.Time) error {
	if list == nil {
		return nil
	}
	had := map[probeKey]v1alpha1.ContainerProbeState{}
	for i := range list.Status.PodProbeStatuses {
		pod := &list.Status.PodProbeStatuses[i]
		for _, state := range pod.ProbeStates {
			had[probeKey{pod.UID, state.Name}] = state
		}
	}
	changed := list.DeepCopy()
	changed.Status.PodProbeStatuses = nil
	for i := range list.Spec.PodProbes {
		pod := &list.Spec.PodProbes[i]
		status := v1alpha1.PodProbeStatus{Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID}
		for j := range pod.Probes {
			key := probeKey{pod.UID, pod.Probes[j].Name}
			found, state := m.find(key), had[key]
			if state.State != found {
				state = v1alpha1.ContainerProbeState{Name: key.name, State: found, LastProbeTime: metav1.NewTime(now),
					LastTransitionTime: metav1.NewTime(now)}
			}
			status.ProbeStates = append(status.ProbeStates, state)
		}
		changed.Status.PodProbeStatuses = append(changed.Status.PodProbeStatuses, status)
	}
	if equality.Semantic.DeepEqual(list.Status, changed.Status) {
		return nil
	}
	patch := client.MergeFromWithOptions(list, client.MergeFromWithOptimisticLock{})
	return unless(m.client.Status().Patch(ctx, changed, patch), "NodePodProbe", list.Name)
}

// find returns what a probe finds now.
func (m *Member) find(key probeKey) v1alpha1.ProbeState {
	both := []v1alpha1.ProbeState{v1alpha1.ProbeSucceeded, v1alpha1.ProbeFailed}
	state, known := m.results[key]
	switch {
	case !known:
		state = both[m.draw.IntN(len(both))]
	case m.changing && m.draw.IntN(changesAfter) == 0:
		state = both[1-slices.Index(both, state)]
	}
	m.results[key] = state
	return state
}

// Result returns what a probe of a pod found last, "" for one that no daemon has run.
func (m *Member) Result(pod types.UID, probe string) v1alpha1.ProbeState {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.results[probeKey{pod, probe}]
}
