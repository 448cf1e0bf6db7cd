package resourcedistribution

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// The reasons of conditions.
const (
	reasonForeignObject   = "ForeignObject"
	reasonNoSuchNamespace = "NoSuchNamespace"
	reasonDistributed     = "Distributed"
	reasonNoNamespace     = "NoNamespace"
	reasonIncomplete      = "Incomplete"
	reasonInvalidResource = "InvalidResource"
	reasonInvalidSelector = "InvalidSelector"
	reasonNotEnabled      = "NotEnabled"
)

// mostInText is how many namespaces the message of a condition names.
const mostInText = 3

// conditionOf is the published condition of what failed.
func conditionOf(v verb) v1beta1.ResourceDistributionConditionType {
	switch v {
	case creates:
		return v1beta1.ResourceDistributionCreateResourceFailed
	case updates:
		return v1beta1.ResourceDistributionUpdateResourceFailed
	default:
		return v1beta1.ResourceDistributionDeleteResourceFailed
	}
}

// report records the events of the pass and writes the status, if it changed.
func (r *Reconciler) report(ctx context.Context, s *scope) (bool, error) {
	for _, did := range []struct {
		count        int
		reason, verb string
	}{
		{s.done.created, "SuccessfulCreate", "created"}, {s.done.updated, "SuccessfulUpdate", "updated"},
		{s.done.deleted, "SuccessfulDelete", "deleted"},
	} {
		if did.count > 0 {
			r.Events.Eventf(s.distribution, nil, corev1.EventTypeNormal, did.reason, "Distribute", "%s %s", did.verb,
				counted(did.count))
		}
	}
	for condition, err := range s.Failed() {
		r.Events.Eventf(s.distribution, nil, corev1.EventTypeWarning, condition, "Retry", "%s", workload.Note(err))
	}
	have, want := s.distribution.Status, s.status(r.Clock.Now())
	return true, r.Report(ctx, s.pass, workload.Status{Have: &have, Want: &want})
}

func counted(copies int) string {
	if copies == 1 {
		return "1 copy"
	}
	return fmt.Sprintf("%d copies", copies)
}

// finding is what a published condition says: in which namespaces something fails, and how.
type finding struct {
	reason     string
	namespaces []string
	message    string
}

// findings returns what fails, by condition.
func (s *scope) findings() map[v1beta1.ResourceDistributionConditionType]finding {
	out := map[v1beta1.ResourceDistributionConditionType]finding{}
	failed := s.Failed()
	for v, namespaces := range s.done.failed {
		condition := conditionOf(v)
		out[condition] = finding{conditions.ReasonRetrying, slices.Sorted(maps.Keys(namespaces)),
			workload.Text(failed[string(condition)])}
	}
	if list := s.plan.Conflicts; len(list) > 0 {
		slices.Sort(list)
		out[v1beta1.ResourceDistributionConflictOccurred] = finding{reasonForeignObject, list, fmt.Sprintf(
			"%s %s of others is in %s, and stays as it is: delete or rename it, or exclude the namespace",
			s.resource.object.GetKind(), s.facts.Name, named(list))}
	}
	if list := s.plan.Missing; len(list) > 0 {
		out[v1beta1.ResourceDistributionNamespaceNotExists] = finding{reasonNoSuchNamespace, list, fmt.Sprintf(
			"targets.includedNamespaces names %s, which does not exist: correct the name, or create it", named(list))}
	}
	return out
}

// named names the first of some namespaces.
func named(list []string) string {
	shown := list[:min(len(list), mostInText)]
	text := "namespace "
	if len(list) > 1 {
		text = "namespaces "
	}
	text += strings.Join(shown, ", ")
	if more := len(list) - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// status returns the status that this pass observed.
func (s *scope) status(now time.Time) v1beta1.ResourceDistributionStatus {
	out := *s.distribution.Status.DeepCopy()
	out.ObservedGeneration = s.distribution.Generation
	found := s.findings()
	if s.Leaving == nil && s.Stalled == nil {
		without := map[string]bool{}
		for condition, finding := range found {
			for _, namespace := range finding.namespaces {
				without[namespace] = without[namespace] || condition != v1beta1.ResourceDistributionDeleteResourceFailed
			}
		}
		for _, namespace := range s.plan.Going {
			without[namespace] = true
		}
		maps.DeleteFunc(without, func(_ string, lacks bool) bool { return !lacks })
		out.Desired, out.Failed = int32(len(s.plan.Desired)), int32(len(without))
		out.Succeeded = out.Desired - out.Failed
	}
	out.Conditions = s.conditions(out, found, now)
	return out
}

// conditions returns the published conditions in their order, then those of all kinds. A status without the former has
// them from the first pass on.
func (s *scope) conditions(status v1beta1.ResourceDistributionStatus,
	found map[v1beta1.ResourceDistributionConditionType]finding, now time.Time) []v1beta1.ResourceDistributionCondition {
	before := map[v1beta1.ResourceDistributionConditionType]v1beta1.ResourceDistributionCondition{}
	for _, c := range status.Conditions {
		before[c.Type] = c
	}
	var out []v1beta1.ResourceDistributionCondition
	for _, condition := range v1beta1.ResourceDistributionConditions() {
		finding, fails := found[condition]
		had, known := before[condition]
		switch {
		case fails:
			out = append(out, v1beta1.ResourceDistributionCondition{Type: condition, Status: metav1.ConditionTrue,
				Reason: finding.reason, Message: finding.message,
				FailedNamespaces: finding.namespaces[:min(len(finding.namespaces), v1beta1.MostFailedNamespaces)]})
		case known && (s.Leaving != nil || s.Stalled != nil): // nothing new is known
			out = append(out, had)
		default:
			out = append(out, v1beta1.ResourceDistributionCondition{Type: condition, Status: metav1.ConditionFalse,
				Reason: v1beta1.ReasonResourceDistributionSucceeded})
		}
	}
	for _, c := range s.summary(status) {
		out = append(out, v1beta1.ResourceDistributionCondition{Type: v1beta1.ResourceDistributionConditionType(c.Type),
			Status: metav1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message})
	}
	return v1beta1.KeepTransitions(status.Conditions, out, now)
}

// summary returns Ready, Reconciling and Stalled.
func (s *scope) summary(status v1beta1.ResourceDistributionStatus) []conditions.Condition {
	ready := conditions.Condition{Type: v1beta1.ConditionReady, Status: corev1.ConditionFalse}
	reconciling := conditions.Condition{Type: v1beta1.ConditionReconciling, Status: corev1.ConditionFalse}
	stalled := conditions.Condition{Type: v1beta1.ConditionStalled, Status: corev1.ConditionFalse,
		Reason: conditions.ReasonNotStalled}
	switch {
	case s.Leaving != nil:
		return conditions.Deleted([]conditions.Condition{ready, reconciling, stalled}, *s.Leaving)
	case s.Stalled != nil:
		ready.Reason, ready.Message = s.Stalled.Reason, s.Stalled.Message
		reconciling.Reason = s.Stalled.Reason
		stalled.Status, stalled.Reason, stalled.Message = corev1.ConditionTrue, s.Stalled.Reason, s.Stalled.Message
	case status.Failed > 0 || len(s.done.failed) > 0:
		ready.Reason = reasonIncomplete
		ready.Message = fmt.Sprintf("%d of %d namespaces have the copy", status.Succeeded, status.Desired)
		reconciling.Reason, reconciling.Message = ready.Reason, ready.Message
		if len(s.done.failed) > 0 || len(s.plan.Going) > 0 {
			reconciling.Status = corev1.ConditionTrue
		}
	case status.Desired == 0:
		ready.Status, ready.Reason = corev1.ConditionTrue, reasonNoNamespace
		ready.Message = "targets select no namespace, so there is no copy"
		reconciling.Reason = reasonNoNamespace
	default:
		ready.Status, ready.Reason = corev1.ConditionTrue, reasonDistributed
		ready.Message = fmt.Sprintf("all %d namespaces have the copy", status.Desired)
		reconciling.Reason = reasonDistributed
	}
	return []conditions.Condition{ready, reconciling, stalled}
}
