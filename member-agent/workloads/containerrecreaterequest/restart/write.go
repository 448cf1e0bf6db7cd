package restart

import (
	"context"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/restarts"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// atMost is how long a restart may take beyond the termination grace period of the pod, in seconds: the daemon of the
// node may go away before it ends.
const atMost = 60 * 60

// create makes the request for a pod. It has no TTL: it is what says that the pod has restarted, or has failed to. If
// the API server refuses the request, the pod loses its mark, and create returns why.
func (r *restarter) create(
	ctx context.Context, object client.Object, pod *corev1.Pod, f facts,
) (refused string, err error) {
	err = r.client.Create(ctx, r.requestFor(object, pod, f), workload.FieldOwner)
	switch {
	case err == nil, apierrors.IsAlreadyExists(err):
		return "", nil
	case workload.Refused(err):
		why := workload.Note(err)
		r.refusals.Request(pod.UID, why, f.now)
		return refusal(pod.Name, why), r.mark(ctx, pod, false)
	}
	return "", fmt.Errorf("restart pod %s: %w", pod.Name, err)
}

// requestFor returns the request for a pod.
func (r *restarter) requestFor(object client.Object, pod *corev1.Pod, f facts) *v1beta1.ContainerRecreateRequest {
	request := &v1beta1.ContainerRecreateRequest{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: nameFor(f.order, pod.Name),
			Annotations:     map[string]string{v1beta1.AnnotationRestartOf: r.kind.gvk.Kind + "/" + object.GetName()},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}},
		},
		Spec: v1beta1.ContainerRecreateRequestSpec{PodName: pod.Name,
			ActiveDeadlineSeconds: new(f.grace + atMost),
			// The pod is not ready from before its hooks run, so that its workload counts it as unavailable.
			Strategy: &v1beta1.ContainerRecreateRequestStrategy{UnreadyGracePeriodSeconds: new(int64(0))}},
	}
	for _, name := range f.order.Named(pod) {
		request.Spec.Containers = append(request.Spec.Containers, v1beta1.ContainerRecreateRequestContainer{Name: name})
	}
	return request
}

// note writes on a pod that it has restarted.
func (r *restarter) note(ctx context.Context, pod *corev1.Pod, asked restarts.Order) error {
	patch := fmt.Sprintf(`{"metadata":{"uid":%q,"annotations":{%q:%q},"labels":{%q:null}}}`, pod.UID,
		v1beta1.AnnotationRestarted, asked.At, v1beta1.LabelRestarting)
	if err := r.patchPod(ctx, pod, patch); err != nil {
		return fmt.Errorf("note on pod %s that it has restarted: %w", pod.Name, err)
	}
	return nil
}

// mark makes controllers count a pod as unavailable, or no longer.
func (r *restarter) mark(ctx context.Context, pod *corev1.Pod, on bool) error {
	value := "null"
	if on {
		value = `"true"`
	}
	patch := fmt.Sprintf(`{"metadata":{"uid":%q,"labels":{%q:%s}}}`, pod.UID, v1beta1.LabelRestarting, value)
	if err := r.patchPod(ctx, pod, patch); err != nil {
		return fmt.Errorf("change label %s of pod %s: %w", v1beta1.LabelRestarting, pod.Name, err)
	}
	return nil
}

// patchPod changes the metadata of a pod, unless it is gone.
func (r *restarter) patchPod(ctx context.Context, pod *corev1.Pod, patch string) error {
	target := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	err := r.client.Patch(ctx, target, client.RawPatch(types.MergePatchType, []byte(patch)), workload.FieldOwner)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return err
	}
	return nil
}

// stop notes on the workload that the restart has failed, and removes such a note of an earlier restart.
func (r *restarter) stop(ctx context.Context, object client.Object, f facts, p plan) error {
	have, want := object.GetAnnotations()[v1beta1.AnnotationRestartFailed], ""
	if p.failed != "" || f.stopped {
		want = f.order.At
	}
	if have == want {
		return nil
	}
	value := "null"
	if want != "" {
		value = strconv.Quote(want)
	}
	patch := fmt.Sprintf(`{"metadata":{"uid":%q,"annotations":{%q:%s}}}`, object.GetUID(),
		v1beta1.AnnotationRestartFailed, value)
	target := r.kind.new()
	target.SetNamespace(object.GetNamespace())
	target.SetName(object.GetName())
	err := r.client.Patch(ctx, target, client.RawPatch(types.MergePatchType, []byte(patch)), workload.FieldOwner)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("write annotation %s of %s %s: %w", v1beta1.AnnotationRestartFailed, r.kind.gvk.Kind,
			object.GetName(), err)
	}
	return nil
}

// remove deletes a request that has ended, or has not begun. One that has changed meanwhile stays.
func (r *restarter) remove(ctx context.Context, request *v1beta1.ContainerRecreateRequest) error {
	target := &v1beta1.ContainerRecreateRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: request.Namespace, Name: request.Name}}
	err := r.client.Delete(ctx, target,
		client.Preconditions{UID: new(request.UID), ResourceVersion: new(request.ResourceVersion)})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete ContainerRecreateRequest %s: %w", request.Name, err)
	}
	return nil
}
