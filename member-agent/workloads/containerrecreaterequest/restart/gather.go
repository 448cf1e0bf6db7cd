package restart

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/restarts"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// gather reads what the plan needs. It reports false for a workload that is not to be acted on here.
func (r *restarter) gather(
	ctx context.Context, object client.Object, asked restarts.Order,
) (f facts, ours bool, err error) {
	f = facts{order: asked, now: r.clock.Now(), requests: map[string]*v1beta1.ContainerRecreateRequest{},
		busy: map[string]string{}}
	pods, err := r.pods.Observe(object.GetUID(), nil)
	if err != nil {
		return f, false, err
	}
	f.pods = pods.Active
	open := slices.DeleteFunc(slices.Clone(f.pods), asked.Through)
	f.refused, f.disrupted = r.refusals.Of(open, f.now), r.refusals.Disrupted(open)
	slices.SortFunc(f.pods, func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	if err := r.gatherRequests(ctx, object.GetNamespace(), &f); err != nil {
		return f, false, err
	}
	// The workload is read after its pods: an update whose controller has not seen the marks of the pods is seen here.
	uid := object.GetUID()
	err = r.client.Get(ctx, client.ObjectKeyFromObject(object), object)
	if apierrors.IsNotFound(err) || err == nil && object.GetUID() != uid {
		return f, false, nil
	}
	if err != nil {
		return f, false, fmt.Errorf("read %s %s: %w", r.kind.gvk.Kind, object.GetName(), err)
	}
	f.stopped = asked.At != "" && object.GetAnnotations()[v1beta1.AnnotationRestartFailed] == asked.At
	set, err := r.kind.read(object)
	if err != nil {
		return f, false, nil // the workload's own status says what is wrong
	}
	var granted workload.Budget
	if r.gate != nil {
		federated, err := r.gate.Federated(ctx, object)
		if err != nil || federated || r.gate.Foreign(object) {
			return f, false, err
		}
		if granted, err = r.gate.Budget(ctx, object); err != nil {
			return f, false, fmt.Errorf("read the budget: %w", err)
		}
	}
	f.limit(set, granted)
	return f, true, nil
}

// limit sets what the workload and its hub allow.
func (f *facts) limit(set settings, granted workload.Budget) {
	limits := granted.Limits(set.limits)
	f.replicas, f.unavailable, f.minReady = limits.Replicas, limits.MaxUnavailable, set.minReady
	f.grace, f.granted = set.grace, granted.Granted || granted.Amounts != nil
	switch {
	case granted.Expired:
		f.held, f.revoked = "the hub is not in contact, so no pod is disrupted", true
	case granted.Paused(false) && f.unavailable == 0:
		f.held, f.revoked = f.full(), true
	case granted.Paused(set.paused) && granted.Granted:
		f.held, f.revoked = "updates of the workload are paused, or the hub grants nothing of maxUnavailable to this "+
			"cluster now; the restart goes on when updates go on, and other clusters have restarted", true
	case set.paused:
		f.held = "updates of the workload are paused"
	case set.unseen || !set.onDelete && set.old > limits.Partition:
		f.held = set.updating()
	}
}

// gatherRequests reads the requests for the pods.
func (r *restarter) gatherRequests(ctx context.Context, namespace string, f *facts) error {
	byUID := map[types.UID]*corev1.Pod{}
	for _, pod := range f.pods {
		byUID[pod.UID] = pod
	}
	var list v1beta1.ContainerRecreateRequestList
	if err := r.client.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list ContainerRecreateRequests in %s: %w", namespace, err)
	}
	for i := range list.Items {
		request := &list.Items[i]
		pod := byUID[uidOf(request)]
		if pod == nil {
			continue
		}
		ours := request.Annotations[v1beta1.AnnotationRestartOf] != ""
		if ours && f.order.At != "" && request.Name == nameFor(f.order, pod.Name) {
			f.requests[pod.Name] = request
		}
		switch over := request.Status.Phase == v1beta1.CRRCompleted; {
		case !over:
			f.busy[pod.Name] = request.Name
		case ours && request.DeletionTimestamp == nil:
			f.ended = append(f.ended, request)
		}
	}
	return nil
}

// uidOf returns the UID of the pod that the request is for.
func uidOf(request *v1beta1.ContainerRecreateRequest) types.UID {
	for i := range request.OwnerReferences {
		if request.OwnerReferences[i].Kind == "Pod" {
			return request.OwnerReferences[i].UID
		}
	}
	return types.UID(request.Labels[v1beta1.LabelCRRPodUID])
}
