package podunavailablebudget

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/admission"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/podunavailablebudget/budgets"
)

// Reporting is what reports to a hub ask about PodUnavailableBudgets. An order is observed by its sequence, because
// what a hub grants changes no generation.
func Reporting() workload.Reporting {
	return workload.Reporting{
		Use: func(live *unstructured.Unstructured) ([]work.SubsetUse, error) {
			pub, err := workload.Decode(live, &v1beta1.PodUnavailableBudget{})
			if err != nil {
				return nil, err
			}
			return []work.SubsetUse{work.PodUnavailableBudgetUse(&pub.Status)}, nil
		},
		Observed: func(live *unstructured.Unstructured) bool {
			return workload.Observed(live) && workload.ObservedSequence(live)
		},
	}
}

// The reasons of conditions.
const (
	// ReasonInForce: operations on the pods are limited.
	ReasonInForce = "InForce"
	// ReasonNoWebhook: operations of our own workloads are limited, and no others.
	ReasonNoWebhook = "NoWebhook"
	// ReasonNoPods: the budget has no pods.
	ReasonNoPods = "NoPods"
	// ReasonReplicasUnknown: a workload does not say how many pods it asks for.
	ReasonReplicasUnknown = "ReplicasUnknown"
	// ReasonOverlap: a pod has two budgets.
	ReasonOverlap = "Overlap"
	// ReasonNotEnforced: operations are not refused while no agent answers.
	ReasonNotEnforced = "NotEnforced"
	// ReasonMarkFailed: a pod could not be annotated; it is tried again.
	ReasonMarkFailed = "MarkFailed"
)

// afterConflict is when a budget is counted again that changed meanwhile. Its event comes first as a rule.
const afterConflict = 100 * time.Millisecond

// report writes the status, if it changed.
func (r *Reconciler) report(ctx context.Context, s *scope) (bool, error) {
	changed := s.pub.DeepCopy()
	if s.Leaving == nil {
		changed.Status = s.observed.Status
	}
	for _, c := range s.summary() {
		c.ObservedGeneration = s.pub.Generation
		c.LastTransitionTime = metav1.NewTime(r.Clock.Now())
		meta.SetStatusCondition(&changed.Status.Conditions, c)
	}
	if s.pub.Spec.FailurePolicy() != v1beta1.PubFail {
		meta.RemoveStatusCondition(&changed.Status.Conditions, v1beta1.ConditionEnforced)
	}
	if equality.Semantic.DeepEqual(s.pub.Status, changed.Status) {
		return true, nil
	}
	err := r.keeper.Write(ctx, changed)
	if errors.Is(err, budgets.ErrStale) {
		s.Sooner(afterConflict)
		return true, nil
	}
	if err == nil {
		r.record(s)
	}
	return true, err
}

// record makes the events of the pass.
func (r *Reconciler) record(s *scope) {
	if len(s.observed.Expired) > 0 {
		r.Events.Eventf(s.pub, nil, corev1.EventTypeNormal, "NotDisrupted", "Expire",
			"operations on %d pods were allowed and not carried out, the first on %s: they are available again",
			len(s.observed.Expired), s.observed.Expired[0])
	}
	if s.Stalled != nil && !meta.IsStatusConditionTrue(s.pub.Status.Conditions, apps.ConditionStalled) {
		r.Events.Eventf(s.pub, nil, corev1.EventTypeWarning, s.Stalled.Reason, "Stall", "%s", s.Stalled.Message)
	}
}

// summary returns Ready, Reconciling and Stalled.
func (s *scope) summary() []metav1.Condition {
	ready := metav1.Condition{Type: apps.ConditionReady, Status: metav1.ConditionTrue, Reason: ReasonInForce,
		Message: "operations on the pods are limited"}
	reconciling := metav1.Condition{Type: apps.ConditionReconciling, Status: metav1.ConditionFalse, Reason: ReasonInForce,
		Message: "the counters are up to date"}
	stalled := metav1.Condition{Type: apps.ConditionStalled, Status: metav1.ConditionFalse,
		Reason: conditions.ReasonNotStalled, Message: "nothing waits for a person"}
	all := []metav1.Condition{}
	if s.pub.Spec.FailurePolicy() == v1beta1.PubFail {
		all = append(all, s.enforcement())
	}
	failed := s.Failed()[ReasonMarkFailed]
	switch {
	case s.Leaving != nil:
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, s.Leaving.Reason, s.Leaving.Message
	case s.Stalled != nil:
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, s.Stalled.Reason, s.Stalled.Message
		stalled.Status, stalled.Reason, stalled.Message = metav1.ConditionTrue, s.Stalled.Reason, s.Stalled.Message
	case failed != nil:
		reconciling.Status, reconciling.Reason = metav1.ConditionTrue, ReasonMarkFailed
		reconciling.Message = workload.Text(failed)
	case len(s.members) == 0:
		ready.Reason, ready.Message = ReasonNoPods, fmt.Sprintf("%s selects no pods yet: check the labels or the name",
			selects(s.pub))
	case !s.asked:
		ready.Reason = ReasonNoWebhook
		ready.Message = "only the agent's own workloads are limited: ValidatingWebhookConfiguration " +
			admission.ConfigurationName + " asks about no requests in this namespace; see whether the agent serves webhooks"
	}
	return append(all, ready, reconciling, stalled)
}

// enforcement returns the condition Enforced.
func (s *scope) enforcement() metav1.Condition {
	if s.enforced {
		return metav1.Condition{Type: v1beta1.ConditionEnforced, Status: metav1.ConditionTrue, Reason: ReasonInForce,
			Message: "operations are refused while no agent answers"}
	}
	return metav1.Condition{Type: v1beta1.ConditionEnforced, Status: metav1.ConditionFalse, Reason: ReasonNotEnforced,
		Message: "ValidatingWebhookConfiguration " + admission.ConfigurationName + " does not refuse these operations " +
			"while no agent answers: the agent serves no webhooks, or the selector is too long beside those of other budgets " +
			"with failurePolicy Fail"}
}

func selects(pub *v1beta1.PodUnavailableBudget) string {
	if pub.Spec.TargetReference != nil {
		return "targetRef"
	}
	return "selector"
}
