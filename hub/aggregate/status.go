package aggregate

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/hub/placement"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
)

// Reasons of Ready where members do not answer.
const (
	// MembersNotReady: members that have pods of the workload have not renewed their Lease.
	MembersNotReady = "MembersNotReady"
	// MembersNotAnswered: members have not carried out the newest order yet.
	MembersNotAnswered = "MembersNotAnswered"
)

// cloneSetStatus returns the status of a CloneSet on the hub.
func cloneSetStatus(cs *apps.CloneSet, f *Facts, s *Sum, now time.Time) apps.CloneSetStatus {
	out := *cs.Status.DeepCopy()
	w := s.Whole
	out.ObservedGeneration = observed(out.ObservedGeneration, f)
	out.Replicas, out.ReadyReplicas, out.AvailableReplicas = w.Replicas, w.Ready, w.Available
	out.UpdatedReplicas, out.UpdatedReadyReplicas, out.UpdatedAvailableReplicas = w.Updated, w.UpdatedReady, w.UpdatedAvailable
	out.ExpectedUpdatedReplicas = w.ExpectedUpdated
	out.LabelSelector = selectorText(cs.Spec.Selector)
	desired := desiredOf(cs.Spec.Replicas)
	out.UpdateRevision, out.CurrentRevision = revisions(cs.Name, out.UpdateRevision, out.CurrentRevision, f, s, desired)

	facts := factsOf(f, s, desired)
	facts.NoDeadline, facts.Revision = !conditions.HasDeadline(cs.Spec.ProgressDeadlineSeconds), out.UpdateRevision
	want := append(retried(s), summary(f, s, facts, apps.CloneSetKind.Kind)...)
	out.Conditions = conditions.Merge(out.Conditions, now, want...)
	for i := range out.Conditions {
		// The type writes null for a time that is not set, which no schema takes.
		if out.Conditions[i].LastUpdateTime.IsZero() {
			out.Conditions[i].LastUpdateTime = out.Conditions[i].LastTransitionTime
		}
	}
	return out
}

// retried are the published conditions of a CloneSet for what members try again.
func retried(s *Sum) []conditions.Condition {
	list := []conditions.Condition{conditions.Remove(string(apps.CloneSetConditionFailedScale)), conditions.Remove(string(apps.CloneSetConditionFailedUpdate))}
	for i, cause := range []*conditions.Cause{s.FailedScale, s.FailedUpdate} {
		if cause != nil {
			list[i].Status, list[i].Reason, list[i].Message = corev1.ConditionTrue, cause.Reason, cause.Message
		}
	}
	return list
}

// unitedDeploymentStatus returns the status of a UnitedDeployment on the hub.
func unitedDeploymentStatus(ud *apps.UnitedDeployment, f *Facts, s *Sum, now time.Time) apps.UnitedDeploymentStatus {
	out := *ud.Status.DeepCopy()
	w := s.Whole
	out.ObservedGeneration = observed(out.ObservedGeneration, f)
	out.Replicas, out.ReadyReplicas, out.UpdatedReplicas, out.UpdatedReadyReplicas = w.Replicas, w.Ready, w.Updated, w.UpdatedReady
	out.LabelSelector = selectorText(ud.Spec.Selector)
	desired := desiredOf(ud.Spec.Replicas)
	out.UpdatedRevision, out.CurrentRevision = revisions(ud.Name, out.UpdatedRevision, out.CurrentRevision, f, s, desired)
	out.SubsetStatuses = nil
	for _, name := range subsetNames(ud, f) {
		c, ok := s.Subsets[name]
		if !ok {
			continue
		}
		out.SubsetStatuses = append(out.SubsetStatuses, apps.SubsetStatus{
			Name: name, Replicas: c.Replicas, ReadyReplicas: c.Ready, Partition: max(c.Desired-c.ExpectedUpdated, 0),
			DesiredReplicas: c.Desired, AvailableReplicas: c.Available, UpdatedReplicas: c.Updated, UpdatedReadyReplicas: c.UpdatedReady, UpdatedAvailableReplicas: c.UpdatedAvailable,
		})
	}
	facts := factsOf(f, s, desired)
	facts.Revision = out.UpdatedRevision
	want := append(summary(f, s, facts, apps.UnitedDeploymentKind.Kind), subsetConditions(f, s)...)
	out.Conditions = conditions.Merge(out.Conditions, now, want...)
	return out
}

// subsetNames are the subsets of the user's order, and after them those that were removed and of which something still runs.
func subsetNames(ud *apps.UnitedDeployment, f *Facts) []string {
	var names []string
	for i := range ud.Spec.Topology.Subsets {
		names = append(names, ud.Spec.Topology.Subsets[i].Name)
	}
	if f.Placement != nil && f.Placement.Spec.Workload.Generation == ud.Generation {
		for _, limit := range f.Placement.Spec.Limits {
			if !slices.Contains(names, limit.Subset) {
				names = append(names, limit.Subset)
			}
		}
	}
	return names
}

// stalledOf is what the placement's condition Stalled says, nil where nothing stalls the workload. Users' objects of the kinds
// that are copied have no conditions, so there the placement tells all that stands in the way, on the hub or in members.
func stalledOf(rule placement.Rule, f *Facts, s *Sum) *conditions.Cause {
	switch {
	case rule.Copied:
		return firstCause(s.Stalled, s.Failed)
	case f.Verdict.Stalled:
		return &conditions.Cause{Reason: f.Verdict.Reason, Message: f.Verdict.Message}
	}
	return nil
}

// subsetConditions are the published conditions of a UnitedDeployment.
func subsetConditions(f *Facts, s *Sum) []conditions.Condition {
	provisioned := conditions.Condition{Type: string(apps.SubsetProvisioned), Status: corev1.ConditionFalse, Reason: "Provisioning"}
	if f.Placement != nil && s.Applied {
		provisioned.Status, provisioned.Reason = corev1.ConditionTrue, "Provisioned"
	}
	updated := conditions.Condition{Type: string(apps.SubsetUpdated), Status: corev1.ConditionFalse, Reason: "Updating"}
	if f.Placement != nil && s.Answered && s.AsFarAsAsked() {
		updated.Status, updated.Reason = corev1.ConditionTrue, "Updated"
	}
	failure := conditions.Remove(string(apps.SubsetFailure))
	if cause := firstCause(s.Stalled, s.Failed); cause != nil && !f.Deleting {
		failure = conditions.Condition{Type: string(apps.SubsetFailure), Status: corev1.ConditionTrue, Reason: cause.Reason, Message: cause.Message}
	}
	return []conditions.Condition{provisioned, updated, failure}
}

func firstCause(causes ...*conditions.Cause) *conditions.Cause {
	for _, c := range causes {
		if c != nil {
			return c
		}
	}
	return nil
}

// factsOf is what the summary of a workload with so many replicas is made of.
func factsOf(f *Facts, s *Sum, desired int32) conditions.Facts {
	w := s.Whole
	facts := conditions.Facts{
		Desired: desired, ExpectedUpdated: s.Enough,
		Replicas: w.Replicas, Updated: s.Updated, Available: w.Available, UpdatedAvailable: s.UpdatedAvailable,
		GoingBack: s.GoingBack, Kept: s.Kept,
		OnDelete: f.Strategy.OnDelete, Paused: f.Strategy.Paused || f.Withdrawn, Stalled: s.Stalled, Failed: s.Failed,
		DeadlineExceeded: s.Deadline != nil,
	}
	if s.Waiting != nil {
		facts.Waiting = s.Waiting.Message
	}
	return facts
}

// summary returns Federated and the four conditions that all kinds have.
func summary(f *Facts, s *Sum, facts conditions.Facts, kind string) []conditions.Condition {
	names := conditions.NamesOf(kind)
	list := conditions.Summarise(facts, names)
	if s.Deadline != nil && !facts.NoDeadline && s.Stalled == nil && !facts.Complete() {
		tell(list, s.Deadline.Message)
	}
	if f.Verdict.Wave != "" && s.Stalled == nil {
		tell(list, f.Verdict.Wave)
	}
	switch {
	case f.Deleting:
		list = conditions.Deleted(list, conditions.Cause{Reason: f.Verdict.Reason, Message: f.deletionMessage(s)})
	case f.Withdrawn:
		atRest(list, f.Verdict.Reason, f.Verdict.Message)
	case len(s.Stale) > 0:
		unsettle(list, corev1.ConditionUnknown, MembersNotReady, s.staleMessage())
	case facts.Complete() && (!s.Answered || !s.Exact):
		message := "members have not all carried out what the placement asks"
		if s.Failed != nil {
			message += ": " + s.Failed.Message // the pods of before are all right, and would hide it
		}
		unsettle(list, corev1.ConditionFalse, MembersNotAnswered, message)
		moving(list, names)
	}
	federated := conditions.Condition{
		Type: apps.ConditionFederated, Status: corev1.ConditionStatus(f.Verdict.Federated), Reason: f.Verdict.Reason, Message: f.Verdict.Message,
	}
	return append([]conditions.Condition{federated}, list...)
}

// tell adds a sentence to what Ready says, and Reconciling where the workload is on its way.
func tell(list []conditions.Condition, sentence string) {
	for i := range list {
		c := &list[i]
		if c.Type == apps.ConditionReady || c.Type == apps.ConditionReconciling && c.Status == corev1.ConditionTrue {
			c.Message = fmt.Sprintf("%s; %s", c.Message, sentence)
		}
	}
}

// atRest says of a workload that the user took out of all members that it is at rest.
func atRest(list []conditions.Condition, reason, message string) {
	for i := range list {
		c := &list[i]
		switch c.Type {
		case apps.ConditionReady, apps.ConditionReconciling:
			c.Status, c.Reason, c.Message = corev1.ConditionFalse, reason, message
		}
	}
}

// moving takes back a Progressing that says that nothing moves any more, but for one that is paused.
func moving(list []conditions.Condition, names conditions.Names) {
	for i := range list {
		if c := &list[i]; c.Type == apps.ConditionProgressing && (c.Reason == names.Available || c.Reason == names.PartitionAvailable) {
			c.Reason, c.Message = names.Updated, names.Kind+" is progressing"
		}
	}
}

// unsettle takes back a Ready and a rest that the numbers alone would claim. Where only a person helps nothing is on its
// way, whatever members answer: there it only adds the message.
func unsettle(list []conditions.Condition, ready corev1.ConditionStatus, reason, message string) {
	stalled := conditions.Status(list, apps.ConditionStalled) == corev1.ConditionTrue
	for i := range list {
		c := &list[i]
		switch {
		case c.Type == apps.ConditionReady:
			c.Message = fmt.Sprintf("%s; %s", c.Message, message)
			if !stalled {
				c.Status, c.Reason = ready, reason
			}
		case c.Type == apps.ConditionReconciling && c.Status == corev1.ConditionFalse && !stalled:
			c.Status, c.Reason, c.Message = corev1.ConditionTrue, reason, message
		}
	}
}

// observed is the generation that the status answers: the one that was judged where nothing was decided, else the one that
// the placement answers.
func observed(before int64, f *Facts) int64 {
	if !f.Verdict.Decided || f.Placement == nil {
		return max(before, f.Verdict.Generation)
	}
	return max(before, min(f.Verdict.Generation, f.Placement.Spec.Workload.Generation))
}

// revisions returns the hub-made names of the new and the current revision. Current becomes new when all pods are updated
// and ready.
func revisions(owner, update, current string, f *Facts, s *Sum, desired int32) (string, string) {
	if f.Placement == nil || f.Placement.Spec.Revision == "" {
		return update, current
	}
	update = history.Name(owner, f.Placement.Spec.Revision)
	if placement.RolledBack(&f.Placement.Spec) {
		return history.Name(owner, f.Placement.Spec.Wave.RolledBack), update
	}
	w := s.Whole
	if current == "" || s.Answered && w.Replicas == desired && w.Updated == desired && w.UpdatedReady == desired {
		current = update
	}
	return update, current
}

// selectorText is the selector as the scale subresource wants it.
func selectorText(selector *metav1.LabelSelector) string {
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return "" // the verdict tells of it
	}
	return s.String()
}

func desiredOf(replicas *int32) int32 {
	if replicas == nil {
		return 1 // the default of all kinds
	}
	return *replicas
}
