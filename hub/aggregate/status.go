package aggregate

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/decision"
	"github.com/flotilla-dev/flotilla/hub/kinds"
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

// statusSum returns what the kind writes onto the user's object.
func statusSum(f *Facts, s *Sum) *kinds.Sum {
	out := &kinds.Sum{
		ObservedGeneration: observed(f.Observed.Generation, f), Whole: s.Whole, Subsets: s.Subsets, Failures: s.Failures,
		Statuses:    s.Statuses,
		Provisioned: f.Placement != nil && s.Applied, UpToDate: f.Placement != nil && s.Answered && s.AsFarAsAsked(),
	}
	out.UpdateRevision, out.CurrentRevision = revisions(f, s)
	if !f.Deleting {
		out.Cause, out.Held = firstCause(s.Stalled, s.Failed), s.Held
	}
	if f.Placement != nil && f.Placement.Spec.Workload.Generation == f.Generation {
		for _, limit := range f.Placement.Spec.Limits {
			out.PlacedSubsets = append(out.PlacedSubsets, limit.Subset)
		}
	}
	facts := factsOf(f, s)
	facts.NoDeadline, facts.Revision = f.Observed.NoDeadline, out.UpdateRevision
	out.Conditions = summary(f, s, facts)
	if f.Placement != nil {
		out.Job = jobSum(f, s, out.Conditions)
	}
	return out
}

// jobSum returns how far a job is.
func jobSum(f *Facts, s *Sum, list []conditions.Condition) *kinds.JobSum {
	spec := &f.Placement.Spec
	return &kinds.JobSum{
		End: spec.End, Wave: spec.Wave, Halted: f.halted(), Waits: f.Outcome.Wave,
		Elsewhere: slices.ContainsFunc(list, func(c conditions.Condition) bool {
			return c.Type == apps.ConditionReady && (c.Reason == MembersNotReady || c.Reason == MembersNotAnswered)
		}),
		Proven: s.Answered && s.Whole.Desired > 0 && s.Whole.UpdatedAvailable >= s.Whole.Desired,
	}
}

// halted returns the newest halt of a job in a member that the placement has, nil for none: one time resumes them all.
func (f *Facts) halted() (newest *work.JobHalt) {
	for i := range f.Placement.Spec.Cells {
		c := &f.Placement.Spec.Cells[i]
		w := f.Works[c.Cluster]
		if w == nil || c.Reason.Code == decision.CellDeselected || f.Placement.Spec.End != nil {
			continue
		}
		report, _ := f.Kinds.ReportOf(w)
		if report == nil || report.HubID != f.HubID || report.Halted == nil || report.Halted.Failed {
			continue
		}
		if newest == nil || newest.Time.Before(&report.Halted.Time) {
			halt := *report.Halted
			halt.Message = bounded(c.Cluster + ": " + halt.Message)
			newest = &halt
		}
	}
	return newest
}

// stalledOf is what the placement's condition Stalled says, nil where nothing stalls the workload. Users' objects of
// the kinds that are copied have no conditions, so there the placement tells all that stands in the way, on the hub or
// in members.
func stalledOf(rule kinds.Kind, f *Facts, s *Sum) *conditions.Cause {
	switch {
	case rule.Mode == kinds.Copy:
		return firstCause(s.Stalled, s.Failed)
	case f.Outcome.Stalled:
		return &conditions.Cause{Reason: f.Outcome.Reason, Message: f.Outcome.Message}
	}
	return nil
}

func firstCause(causes ...*conditions.Cause) *conditions.Cause {
	for _, c := range causes {
		if c != nil {
			return c
		}
	}
	return nil
}

// factsOf returns what the common conditions depend on.
func factsOf(f *Facts, s *Sum) conditions.Facts {
	w := s.Whole
	facts := conditions.Facts{
		Desired: f.desired(s), ExpectedUpdated: s.Enough,
		Replicas: w.Replicas, Updated: s.Updated, Available: w.Available, UpdatedAvailable: s.UpdatedAvailable,
		GoingBack: s.GoingBack, Kept: s.Kept,
		OnDelete: f.Observed.OnDelete, Paused: f.Observed.Paused || f.Withdrawn, Stalled: s.Stalled, Failed: s.Failed,
		DeadlineExceeded: s.Deadline != nil, Held: s.Held, KeptBy: f.Observed.KeptBy,
	}
	if s.Waiting != nil {
		facts.Waiting = s.Waiting.Message
	}
	return facts
}

// desired returns how many pods there are to be: what the user asks for, or what the members of an object that each has
// whole ask for together.
func (f *Facts) desired(s *Sum) int32 {
	if f.Kind.Mode == kinds.PerMember {
		return s.Whole.Desired
	}
	return f.Observed.Desired
}

// summary returns Federated and the four conditions that all kinds have.
func summary(f *Facts, s *Sum, facts conditions.Facts) []conditions.Condition {
	names := conditions.NamesOf(f.Key.Kind)
	list := conditions.Summarise(facts, names)
	tellPodReasons(list, f, s)
	if s.Deadline != nil && !facts.NoDeadline && s.Stalled == nil && !facts.Complete() {
		conditions.Tell(list, s.Deadline.Message)
	}
	if f.Outcome.Wave != "" && s.Stalled == nil {
		conditions.Tell(list, f.Outcome.Wave)
	}
	switch {
	case f.Deleting:
		list = conditions.Deleted(list, conditions.Cause{Reason: f.Outcome.Reason, Message: f.deletionMessage(s)})
	case f.Withdrawn:
		atRest(list, f.Outcome.Reason, f.Outcome.Message)
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
		Type: apps.ConditionFederated, Status: corev1.ConditionStatus(f.Outcome.Federated), Reason: f.Outcome.Reason,
		Message: f.Outcome.Message,
	}
	return append(append([]conditions.Condition{federated}, list...), podsNotReady(s))
}

// conditionReasons is how many reasons of pods the message of a condition has.
const conditionReasons = 4

// podsNotReady returns the condition that says why pods are not Ready, or not gone: the reason is that of the most
// pods.
func podsNotReady(s *Sum) conditions.Condition {
	c := conditions.Remove(apps.ConditionPodsNotReady)
	if len(s.PodReasons) == 0 {
		return c
	}
	c.Status, c.Reason = corev1.ConditionTrue, s.PodReasons[0].Reason
	var parts []string
	for _, r := range s.PodReasons[:min(len(s.PodReasons), conditionReasons)] {
		parts = append(parts, r.String())
	}
	if more := len(s.PodReasons) - conditionReasons; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more reasons: flotilla why shows them", more))
	}
	c.Message = strings.Join(parts, "; ")
	return c
}

// tellPodReasons adds the reason of the most pods to a Ready that is not True, unless that says already what needs a
// person, or why pods are refused.
func tellPodReasons(list []conditions.Condition, f *Facts, s *Sum) {
	if len(s.PodReasons) == 0 || s.Stalled != nil || f.Deleting || f.Withdrawn ||
		conditions.Status(list, apps.ConditionReady) == corev1.ConditionTrue ||
		s.Failed != nil && s.PodReasons[0].Reason == work.ReasonFailedCreate {
		return
	}
	conditions.Tell(list, s.PodReasons[0].String())
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
		if c := &list[i]; c.Type == apps.ConditionProgressing &&
			(c.Reason == names.Available || c.Reason == names.PartitionAvailable) {
			c.Reason, c.Message = names.Updated, names.Kind+" is progressing"
		}
	}
}

// unsettle takes back a Ready and a rest that the numbers alone would claim. Where only a person helps nothing is on
// its way, whatever members answer: there it only adds the message.
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

// observed is the generation that the status answers: the one that was judged where nothing was decided, else the one
// that the placement answers.
func observed(before int64, f *Facts) int64 {
	if !f.Outcome.Decided || f.Placement == nil {
		return max(before, f.Outcome.Generation)
	}
	return max(before, min(f.Outcome.Generation, f.Placement.Spec.Workload.Generation))
}

// revisions returns the hub-made names of the new and the current revision. Current becomes new when all pods are
// updated and ready.
func revisions(f *Facts, s *Sum) (update, current string) {
	update, current = f.Observed.UpdateRevision, f.Observed.CurrentRevision
	if f.Placement == nil || f.Placement.Spec.Revision == "" {
		return update, current
	}
	update = history.Name(f.Key.Name, f.Placement.Spec.Revision)
	if decision.RolledBack(&f.Placement.Spec) {
		return history.Name(f.Key.Name, f.Placement.Spec.Wave.RolledBack), update
	}
	w, desired := s.Whole, f.desired(s)
	if current == "" || s.Answered && w.Replicas == desired && w.Updated == desired && w.UpdatedReady == desired {
		current = update
	}
	return update, current
}
