package uniteddeployment

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	kruise "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/namespaces"
)

// leaving says that a UnitedDeployment or its namespace is being deleted; nil if they are not. What becomes of the children
// is the garbage collector's and the namespace controller's to decide.
func (r *reconciler) leaving(ctx context.Context, ud *kruise.UnitedDeployment) (*conditions.Cause, error) {
	if ud.DeletionTimestamp != nil {
		return &conditions.Cause{Reason: conditions.ReasonDeleting, Message: conditions.Waiting(ud)}, nil
	}
	cause, err := r.namespaces.Cause(ctx, ud.Namespace, ud.UID)
	if err != nil {
		return nil, fmt.Errorf("ask whether UnitedDeployment %s can create children: %w", client.ObjectKeyFromObject(ud), err)
	}
	return cause, nil
}

// leave is the plan of a pass that only reports.
func leave(o *observed, cause *conditions.Cause) *plan {
	p := &plan{leaving: cause, others: all(o)}
	if cause.Reason == conditions.ReasonNamespaceTerminating {
		p.wake = namespaces.LookAgain
	}
	return p
}

// leavingRows counts the pods anew. Updated pods are no more than there are.
func leavingRows(old []kruise.SubsetStatus, children []*child) []kruise.SubsetStatus {
	rows := refusedRows(old, children)
	for i := range rows {
		row := &rows[i]
		row.UpdatedReplicas, row.ReservedPods = min(row.UpdatedReplicas, row.Replicas), min(row.ReservedPods, row.Replicas)
		row.UpdatedReadyReplicas = min(row.UpdatedReadyReplicas, row.ReadyReplicas)
		row.UpdatedAvailableReplicas = min(row.UpdatedAvailableReplicas, row.AvailableReplicas)
	}
	return rows
}
