package workloadspread

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// reportDeletion says on a deleted WorkloadSpread what it waits for. It spreads no new pods any more, and existing pods
// stay.
func (r *reconciler) reportDeletion(ctx context.Context, s *scope) error {
	ws := s.ws
	status := ws.Status.DeepCopy()
	status.ObservedGeneration = ws.Generation
	message := conditions.Waiting(ws) + "; it spreads no new pods, and its pods keep running"
	for _, c := range []metav1.Condition{
		{Type: v1beta1.ConditionReady, Status: metav1.ConditionFalse, Reason: conditions.ReasonDeleting, Message: message},
		{Type: v1beta1.ConditionReconciling, Status: metav1.ConditionTrue, Reason: conditions.ReasonDeleting,
			Message: message},
		{Type: v1beta1.ConditionStalled, Status: metav1.ConditionFalse, Reason: conditions.ReasonNotStalled,
			Message: "nothing waits for a person"},
	} {
		c.ObservedGeneration, c.LastTransitionTime = ws.Generation, metav1.NewTime(r.Clock.Now())
		meta.SetStatusCondition(&status.Conditions, c)
	}
	return r.Report(ctx, s.pass, workload.Status{Have: &ws.Status, Want: status})
}
