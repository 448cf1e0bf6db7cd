package sidecarset

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// The reasons of conditions.
const (
	reasonInvalidSpec   = "InvalidSpec"
	reasonNameConflict  = "NameConflict"
	reasonNotAllowed    = "AnnotationNotAllowed"
	reasonUpdated       = "AllUpdated"
	reasonUpdating      = "Updating"
	reasonNotUpgradable = "PodsNotUpgradable"
	reasonBudget        = "WaitingForBudget"
	reasonRecreating    = "RecreatingPods"
	reasonMissing       = "PodsWithoutSidecars"
)

// report records the events of the pass and writes the status, if it changed.
func (r *Reconciler) report(ctx context.Context, s *scope) (bool, error) {
	if s.updated > 0 {
		r.Events.Eventf(s.set, nil, corev1.EventTypeNormal, "SuccessfulUpdatePodInPlace", "Update",
			"changed the sidecars of %d pods to %s", s.updated, s.latest.Name)
	}
	if text := some(s.plan.NotUpgradable); text != s.Memory.notUpgradable {
		if s.Memory.notUpgradable = text; text != "" {
			r.Events.Eventf(s.set, nil, corev1.EventTypeWarning, "NotUpgradablePods", "Update",
				"more than images differ in %s, which keep their sidecars until they are created anew", text)
		}
	}
	if len(s.evicted) > 0 {
		r.Events.Eventf(s.set, nil, corev1.EventTypeNormal, "SuccessfulRecreatePod", "Recreate",
			"evicted %s, whose workloads create them again with the sidecars of %s", some(s.evicted), s.latest.Name)
	}
	if s.recreate || !s.recreates() {
		s.Memory.stays = s.stays
	}
	r.gauge.WithLabelValues(s.set.Name).Set(float64(len(s.missing)))
	for condition, err := range s.Failed() {
		r.Events.Eventf(s.set, nil, corev1.EventTypeWarning, condition, "Retry", "%s", workload.Note(err))
	}
	have, want := s.set.Status.DeepCopy(), s.status(r.Clock.Now())
	without := func(status *v1beta1.SidecarSetStatus) v1beta1.SidecarSetStatus {
		out := *status.DeepCopy()
		out.MatchedPods, out.UpdatedPods, out.ReadyPods, out.UpdatedReadyPods = 0, 0, 0, 0
		out.NotUpdatablePods = 0
		if out.Flotilla != nil {
			out.Flotilla.MissingPods = 0
		}
		for i := range out.Conditions {
			out.Conditions[i].Message = ""
		}
		return out
	}
	return true, r.Report(ctx, s.pass, workload.Status{
		Have: have, Want: want, Worked: s.worked && len(s.Failed()) == 0,
		CountersOnly: equality.Semantic.DeepEqual(without(have), without(want)),
	})
}

// status returns the status that this pass observed.
func (s *scope) status(now time.Time) *v1beta1.SidecarSetStatus {
	out := s.set.Status.DeepCopy()
	if s.latest != nil || s.Stalled != nil || s.Leaving != nil { // else the counters are of an earlier revision
		out.ObservedGeneration, out.ObservedSequence = s.set.Generation, workload.Sequence(s.set)
	}
	if s.Stalled != nil && s.latest == nil {
		out.UpdatedPods, out.UpdatedReadyPods, out.NotUpdatablePods = 0, 0, 0
	}
	if s.latest != nil {
		c := s.plan.Counts
		out.MatchedPods, out.UpdatedPods, out.ReadyPods, out.UpdatedReadyPods = c.Matched, c.Updated, c.Ready, c.UpdatedReady
		out.NotUpdatablePods = c.NotUpdatable
		out.LatestRevision, out.CollisionCount = s.latest.Name, s.collision
	}
	if s.progressed != nil {
		out.Flotilla = s.progressed
		out.Flotilla.MissingPods = int32(len(s.missing))
	}
	for _, c := range s.conditions() {
		c.ObservedGeneration, c.LastTransitionTime = s.set.Generation, metav1.NewTime(now)
		meta.SetStatusCondition(&out.Conditions, c)
	}
	return out
}

// outdated says which pods only new ones can replace, "" if there are none.
func (s *scope) outdated() string {
	text := ""
	if names := s.plan.NotUpgradable; len(names) > 0 {
		text += fmt.Sprintf("; more than images differ in %s: create these pods anew to update them", some(names))
	}
	var missing []string
	for _, pod := range s.missing {
		missing = append(missing, pod.Namespace+"/"+pod.Name)
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		text += fmt.Sprintf("; %d pods were created without the sidecars, as while the webhook is away: %s: create them "+
			"anew", len(missing), some(missing))
	}
	if text != "" && s.wantsRecreation() && s.grant() != nil {
		text += "; flotilla.recreate is not carried out where a hub grants the limits"
	}
	return text
}

// recreating says how far pods are created again, "" if none are.
func (s *scope) recreating() string {
	if !s.recreates() {
		return ""
	}
	text := ""
	var evicted []string
	for _, one := range s.Memory.evicted {
		evicted = append(evicted, one.pod.String())
	}
	if len(evicted) > 0 {
		slices.Sort(evicted)
		text += "; evicted, and not replaced by ready pods yet: " + some(evicted)
	}
	if len(s.Memory.stays) > 0 {
		text += "; pods wait: " + waiting(s.Memory.stays)
	}
	return text
}

// conditions returns Ready, Reconciling and Stalled.
func (s *scope) conditions() []metav1.Condition {
	ready := metav1.Condition{Type: v1beta1.ConditionReady, Status: metav1.ConditionFalse}
	reconciling := metav1.Condition{Type: v1beta1.ConditionReconciling, Status: metav1.ConditionFalse}
	stalled := metav1.Condition{Type: v1beta1.ConditionStalled, Status: metav1.ConditionFalse,
		Reason: conditions.ReasonNotStalled}
	switch {
	case s.Leaving != nil:
		ready.Reason, ready.Message = s.Leaving.Reason, s.Leaving.Message
		reconciling.Status, reconciling.Reason = metav1.ConditionTrue, s.Leaving.Reason
		reconciling.Message = s.Leaving.Message
	case s.Stalled != nil:
		ready.Reason, ready.Message = s.Stalled.Reason, s.Stalled.Message
		reconciling.Reason = s.Stalled.Reason
		stalled.Status, stalled.Reason, stalled.Message = metav1.ConditionTrue, s.Stalled.Reason, s.Stalled.Message
	case len(s.Failed()) > 0:
		_, cause := s.Failures(failureRevision, failureUpdate)
		ready.Reason, ready.Message = conditions.ReasonRetrying, cause.Message
		reconciling.Status, reconciling.Reason, reconciling.Message = metav1.ConditionTrue, ready.Reason, cause.Message
	default:
		s.goesOn(&ready, &reconciling)
	}
	return []metav1.Condition{ready, reconciling, stalled}
}

// goesOn says how far the update is, of a SidecarSet that nothing keeps from being carried out.
func (s *scope) goesOn(ready, reconciling *metav1.Condition) {
	c := s.plan.Counts
	text := fmt.Sprintf("%d of %d pods have the current sidecars, %d are ready", c.Updated, c.Matched, c.Ready)
	switch {
	case len(s.waits) > 0:
		ready.Reason, ready.Message = reasonBudget, text+s.outdated()+"; pods wait: "+waiting(s.waits)
		reconciling.Status, reconciling.Reason, reconciling.Message = metav1.ConditionTrue, reasonBudget, ready.Message
	case s.recreating() != "":
		ready.Reason, ready.Message = reasonRecreating, text+s.outdated()+s.recreating()
		reconciling.Status, reconciling.Reason, reconciling.Message = metav1.ConditionTrue, ready.Reason, ready.Message
	case len(s.plan.NotUpgradable) > 0:
		ready.Reason, ready.Message = reasonNotUpgradable, text+s.outdated()
		reconciling.Reason = reasonNotUpgradable
	case len(s.missing) > 0:
		ready.Reason, ready.Message = reasonMissing, text+s.outdated()
		reconciling.Reason = reasonMissing
	case s.silent() != nil:
		ready.Reason, ready.Message = s.silent().Reason, s.silent().Message
		reconciling.Status, reconciling.Reason, reconciling.Message = metav1.ConditionTrue, ready.Reason, ready.Message
	case s.set.Spec.UpdateStrategy.Paused && c.Updated < c.Matched || s.paused() && s.toUpdate() > 0:
		ready.Reason, ready.Message = conditions.ReasonPaused, text
		reconciling.Reason = conditions.ReasonPaused
	case s.plan.Pending > 0 || len(s.plan.Writes) > 0 || c.UpdatedReady < c.Updated:
		ready.Reason, ready.Message = reasonUpdating, text
		reconciling.Status, reconciling.Reason, reconciling.Message = metav1.ConditionTrue, reasonUpdating, text
	default:
		ready.Status, ready.Reason, ready.Message = metav1.ConditionTrue, reasonUpdated, text
		reconciling.Reason = reasonUpdated
	}
}
