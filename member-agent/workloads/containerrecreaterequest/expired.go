package containerrecreaterequest

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/containerrecreaterequest/restart"
)

// expired reports whether the request has not begun, and is part of the restart of a workload whose hub is not in
// contact.
func (r *reconciler) expired(ctx context.Context, request *v1beta1.ContainerRecreateRequest) (bool, error) {
	kind, name, _ := strings.Cut(request.Annotations[v1beta1.AnnotationRestartOf], "/")
	object := restart.Workload(kind)
	if r.gate == nil || object == nil || request.Status.Phase != v1beta1.CRRRecreating ||
		meta.IsStatusConditionTrue(request.Status.Conditions, v1beta1.ConditionPreRecreateGrace) {
		return false, nil
	}
	err := r.client.Get(ctx, types.NamespacedName{Namespace: request.Namespace, Name: name}, object)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read %s %s: %w", kind, name, err)
	}
	granted, err := r.gate.Budget(ctx, object)
	if err != nil {
		return false, fmt.Errorf("read the budget of %s %s: %w", kind, name, err)
	}
	return granted.Expired, nil
}
