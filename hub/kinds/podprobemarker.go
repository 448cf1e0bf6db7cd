package kinds

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
)

// podProbeMarkerKind is the kind whose probes run in each member, on the pods that it selects there. It has no limits.
func podProbeMarkerKind() Kind {
	return Kind{
		GVK:                v1alpha1.PodProbeMarkerKind,
		Mode:               PerMember,
		NoPods:             true,
		New:                func() Object { return &v1alpha1.PodProbeMarker{} },
		NewList:            func() ObjectList { return &v1alpha1.PodProbeMarkerList{} },
		Read:               readPodProbeMarker,
		Render:             renderPodProbeMarker,
		Reflect:            reflectPodProbeMarker,
		Observe:            observePodProbeMarker,
		AnswersWhenStalled: true,
		Status:             podProbeMarkerStatus,
		StatusOf:           func(o Object) any { return &o.(*v1alpha1.PodProbeMarker).Status },
	}
}

// The reasons of Ready, as the controller of members has them.
const (
	probed          = "Probed"
	noPodProbed     = "NoPod"
	awaitingResults = "AwaitingResults"
	// longestHint bounds, in bytes, what is passed on of a message of a member.
	longestHint = 1000
)

func readPodProbeMarker(o Object) (Workload, *Rejection) {
	m := o.(*v1alpha1.PodProbeMarker)
	w := NewWorkload(m, v1alpha1.PodProbeMarkerKind, nil)
	spec, err := json.Marshal(&m.Spec)
	if err != nil {
		return w, undecodable(w.Key, err)
	}
	w.Revision = history.Hash(spec, nil)
	w.NoWaves = "the policy's rollout.waves and rollout.steps do not hold for PodProbeMarkers: a change of " +
		w.Key.Sentence() + " reaches all members at once"
	return w, nil
}

func renderPodProbeMarker(o Object, _ *Order) (Manifest, error) {
	return Manifest{Spec: o.(*v1alpha1.PodProbeMarker).Spec.DeepCopy()}, nil
}

func reflectPodProbeMarker(r *Reflected) (Usage, error) {
	status := v1alpha1.PodProbeMarkerStatus{}
	if err := json.Unmarshal(r.Status, &status); err != nil {
		return Usage{}, err
	}
	return Usage{InUse: []work.SubsetUse{work.PodProbeMarkerUse()}, Answered: r.Seen && r.Current}, nil
}

func observePodProbeMarker(o Object) Observed {
	return Observed{Generation: o.(*v1alpha1.PodProbeMarker).Status.ObservedGeneration, NoDeadline: true}
}

func podProbeMarkerStatus(o Object, s *Sum, now time.Time) bool {
	m := o.(*v1alpha1.PodProbeMarker)
	out := *m.Status.DeepCopy()
	out.ObservedGeneration = s.ObservedGeneration
	waiting := sumProbes(&out, m, s)
	list := withoutProgressing(s.Conditions)
	if isReady(list) {
		switch cause := waiting.cause(); {
		case cause != nil:
			settle(list, corev1.ConditionFalse, true, cause.Reason, cause.Message)
		case out.MatchedPods == 0:
			settle(list, corev1.ConditionTrue, false, noPodProbed, fmt.Sprintf(
				"selector selects no running pod of %d members with a container of the probes", len(s.Statuses)))
		default:
			settle(list, corev1.ConditionTrue, false, probed, fmt.Sprintf("pods that are probed: %d, in %d members",
				out.MatchedPods, len(s.Statuses)))
		}
	}
	for _, c := range list {
		set(&out.Conditions, c, now)
	}
	changed := !equality.Semantic.DeepEqual(&m.Status, &out)
	m.Status = out
	return changed
}

// sumProbes writes the sums of the statuses of member objects, and returns what members wait for.
func sumProbes(out *v1alpha1.PodProbeMarkerStatus, m *v1alpha1.PodProbeMarker, s *Sum) (waiting probeWaits) {
	out.MatchedPods, out.Flotilla = 0, &v1alpha1.PodProbeMarkerCounts{}
	sums := map[string]*v1alpha1.ProbeCounts{}
	for i := range m.Spec.Probes {
		name := m.Spec.Probes[i].Name
		out.Flotilla.Probes = append(out.Flotilla.Probes, v1alpha1.ProbeCounts{Name: name})
	}
	for i := range out.Flotilla.Probes {
		sums[out.Flotilla.Probes[i].Name] = &out.Flotilla.Probes[i]
	}
	for i, data := range s.Statuses {
		var status v1alpha1.PodProbeMarkerStatus
		if json.Unmarshal(data, &status) != nil {
			waiting.take(&conditions.Cause{Reason: awaitingResults, Message: s.member(i) + ": its status cannot be read"})
			continue
		}
		pods := int32(min(max(status.MatchedPods, 0), wire.MaxPods))
		out.MatchedPods += int64(pods)
		waiting.add(s.member(i), status.Conditions)
		addProbes(sums, status.Flotilla, pods)
	}
	return waiting
}

// addProbes adds what a member counts, as far as it can be true of so many pods: each probe once, and each pod in one
// state. Nothing is known of the pods of a member that does not count.
func addProbes(sums map[string]*v1alpha1.ProbeCounts, of *v1alpha1.PodProbeMarkerCounts, pods int32) {
	if of == nil {
		for _, sum := range sums {
			sum.Unknown += pods
		}
		return
	}
	seen := map[string]bool{}
	for _, counts := range of.Probes {
		sum := sums[counts.Name]
		if sum == nil || seen[counts.Name] {
			continue
		}
		seen[counts.Name] = true
		succeeded := within(counts.Succeeded, pods)
		failed := within(counts.Failed, pods-succeeded)
		sum.Succeeded += succeeded
		sum.Failed += failed
		sum.Unknown += within(counts.Unknown, pods-succeeded-failed)
	}
}

// isReady reports whether members have carried out what the placement asks, and nothing stands in the way.
func isReady(list []conditions.Condition) bool {
	return slices.ContainsFunc(list, func(c conditions.Condition) bool {
		return c.Type == apps.ConditionReady && c.Reason == conditions.ReasonAllAvailable
	})
}

// probeWaits are what probes of members wait for.
type probeWaits struct {
	first *conditions.Cause
	more  int
}

// add takes what a member waits for, from the conditions of its object.
func (w *probeWaits) add(member string, of []metav1.Condition) {
	ready := meta.FindStatusCondition(of, apps.ConditionReady)
	switch {
	case ready == nil:
		w.take(&conditions.Cause{Reason: awaitingResults, Message: member + ": its status has no condition Ready"})
		return
	case ready.Status == metav1.ConditionTrue || meta.IsStatusConditionTrue(of, apps.ConditionStalled):
		return
	}
	cause := &conditions.Cause{Reason: ready.Reason, Message: member + ": " + ready.Message}
	if len(ready.Message) > longestHint {
		cause.Message = member + ": " + strings.ToValidUTF8(ready.Message[:longestHint], "") + " …"
	}
	if !isReason(cause.Reason) {
		cause.Reason = awaitingResults
	}
	w.take(cause)
}

// take takes a cause. What is refused or not reached comes before results that are on their way.
func (w *probeWaits) take(cause *conditions.Cause) {
	if w.first != nil {
		w.more++
	}
	if w.first == nil || w.first.Reason == awaitingResults && cause.Reason != awaitingResults {
		w.first = cause
	}
}

// cause returns what is waited for, nil for nothing.
func (w *probeWaits) cause() *conditions.Cause {
	if w.first == nil || w.more == 0 {
		return w.first
	}
	return &conditions.Cause{Reason: w.first.Reason, Message: fmt.Sprintf("%s; and %d more", w.first.Message, w.more)}
}
