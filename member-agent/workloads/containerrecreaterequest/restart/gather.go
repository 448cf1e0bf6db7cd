package restart

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// gather reads what the plan needs. It reports false for a workload that is not to be acted on here.
func (r *restarter) gather(ctx context.Context, object client.Object, asked order) (f facts, ours bool, err error) {
	f = facts{order: asked, now: r.clock.Now(), requests: map[string]*v1beta1.ContainerRecreateRequest{}}
	set, err := r.kind.read(object)
	if err != nil {
		return f, false, nil // the workload's own status says what is wrong
	}
	if r.gate != nil {
		federated, err := r.gate.Federated(ctx, object)
		if err != nil || federated || r.gate.Foreign(object) {
			return f, false, err
		}
		granted, err := r.gate.Budget(ctx, object)
		if err != nil {
			return f, false, fmt.Errorf("read the budget: %w", err)
		}
		set.limits, set.paused = granted.Limits(set.limits), granted.Paused(set.paused) || granted.Expired
	}
	f.replicas, f.unavailable, f.minReady = set.limits.Replicas, set.limits.MaxUnavailable, set.minReady
	f.held = set.paused
	pods, err := r.pods.Observe(object.GetUID(), nil)
	if err != nil {
		return f, false, err
	}
	f.pods = pods.Active
	for _, pod := range f.pods {
		request := &v1beta1.ContainerRecreateRequest{}
		key := types.NamespacedName{Namespace: pod.Namespace, Name: asked.nameFor(pod.Name)}
		err := r.client.Get(ctx, key, request)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return f, false, fmt.Errorf("read ContainerRecreateRequest %s: %w", key.Name, err)
		case ownedBy(request, pod):
			f.requests[pod.Name] = request
		}
	}
	return f, true, nil
}

// ownedBy reports whether the request is for this very pod.
func ownedBy(request *v1beta1.ContainerRecreateRequest, pod *corev1.Pod) bool {
	for i := range request.OwnerReferences {
		if request.OwnerReferences[i].UID == pod.UID {
			return true
		}
	}
	return false
}
