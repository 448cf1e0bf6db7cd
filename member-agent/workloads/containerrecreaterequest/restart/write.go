package restart

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// create makes the request for a pod.
func (r *restarter) create(ctx context.Context, object client.Object, pod *corev1.Pod, asked order) error {
	request := &v1beta1.ContainerRecreateRequest{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: asked.nameFor(pod.Name),
			Annotations:     map[string]string{v1beta1.AnnotationRestartOf: r.kind.gvk.Kind + "/" + object.GetName()},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}},
		},
		Spec: v1beta1.ContainerRecreateRequestSpec{PodName: pod.Name, TTLSecondsAfterFinished: new(int32(kept)),
			// The pod is not ready from before its hooks run, so that its workload counts it as unavailable.
			Strategy: &v1beta1.ContainerRecreateRequestStrategy{UnreadyGracePeriodSeconds: new(int64(0))}},
	}
	for _, name := range named(pod, asked.Containers) {
		request.Spec.Containers = append(request.Spec.Containers, v1beta1.ContainerRecreateRequestContainer{Name: name})
	}
	err := r.client.Create(ctx, request, workload.FieldOwner)
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("restart pod %s: %w", pod.Name, err)
	}
	return nil
}

// note writes on a pod that it has restarted.
func (r *restarter) note(ctx context.Context, pod *corev1.Pod, asked order) error {
	patch := fmt.Sprintf(`{"metadata":{"uid":%q,"annotations":{%q:%q}}}`, pod.UID, v1beta1.AnnotationRestarted, asked.At)
	target := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	err := r.client.Patch(ctx, target, client.RawPatch(types.MergePatchType, []byte(patch)), workload.FieldOwner)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("note on pod %s that it has restarted: %w", pod.Name, err)
	}
	return nil
}

// say makes an event about a workload, unless it was the last one. Without an object it forgets the workload.
func (r *restarter) say(of types.NamespacedName, object client.Object, kind, reason, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if object == nil {
		delete(r.said, of)
		return
	}
	if said := reason + text; r.said[of] != said {
		r.said[of] = said
		r.events.Eventf(object, nil, kind, reason, "Restart", "%s", text)
	}
}
