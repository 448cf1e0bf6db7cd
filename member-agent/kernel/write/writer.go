package write

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/freshness"
)

// Writer writes pods and what belongs to them. One serves all workloads of a manager.
type Writer struct {
	Client client.Client
	Fresh  *freshness.Store
	// Claims records writes to claims; a kind without claims may leave it nil.
	Claims *freshness.Store
}

// CreatePod creates the pod of an owner. If opened is not empty it is applied to the new pod's status at once, so that its
// readiness gate does not wait for another pass; a failure of this second write is left to the next pass.
func (w *Writer) CreatePod(ctx context.Context, owner types.UID, pod *corev1.Pod, opened []byte) error {
	key := client.ObjectKeyFromObject(pod)
	err := w.Client.Create(ctx, pod)
	switch {
	case err == nil:
		w.Fresh.Created(owner, key, pod.ResourceVersion)
	case ambiguous(err):
		// The answer was lost: the pod may exist.
		w.Fresh.MaybeCreated(owner, key)
		return fmt.Errorf("create pod %s: %w", key, err)
	default:
		return fmt.Errorf("create pod %s: %w", key, err)
	}
	if len(opened) == 0 {
		return nil
	}
	err = w.PatchPodStatus(ctx, owner, pod, opened)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// ambiguous tells whether a failed request may have been carried out.
func ambiguous(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true
	}
	return apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsInternalError(err) || apierrors.IsUnexpectedServerError(err)
}

// PatchPod applies a strategic merge patch to a pod. A pod that is gone is no error.
func (w *Writer) PatchPod(ctx context.Context, owner types.UID, pod *corev1.Pod, patch []byte) error {
	target := address(pod)
	if err := w.Client.Patch(ctx, target, client.RawPatch(types.StrategicMergePatchType, patch)); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		if ambiguous(err) {
			w.Fresh.MaybeChanged(owner, client.ObjectKeyFromObject(pod), pod.ResourceVersion)
		}
		return fmt.Errorf("patch pod %s: %w", client.ObjectKeyFromObject(pod), err)
	}
	w.Fresh.Changed(owner, client.ObjectKeyFromObject(pod), target.ResourceVersion)
	return nil
}

// PatchPodStatus applies a strategic merge patch to a pod's status. A pod that is gone is no error.
func (w *Writer) PatchPodStatus(ctx context.Context, owner types.UID, pod *corev1.Pod, patch []byte) error {
	target := address(pod)
	if err := w.Client.Status().Patch(ctx, target, client.RawPatch(types.StrategicMergePatchType, patch)); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		if ambiguous(err) {
			w.Fresh.MaybeChanged(owner, client.ObjectKeyFromObject(pod), pod.ResourceVersion)
		}
		return fmt.Errorf("patch status of pod %s: %w", client.ObjectKeyFromObject(pod), err)
	}
	w.Fresh.Changed(owner, client.ObjectKeyFromObject(pod), target.ResourceVersion)
	return nil
}

// DeletePod deletes exactly this pod, not another of the same name. A pod that is gone is no error; a conflict is one: the
// pod may still be there, and must not be replaced before it goes. Where the answer is lost it may be going: the owner
// waits until the cache shows that, or the API server denies it.
func (w *Writer) DeletePod(ctx context.Context, owner types.UID, pod *corev1.Pod) error {
	err := w.Client.Delete(ctx, address(pod), client.Preconditions{UID: &pod.UID})
	if client.IgnoreNotFound(err) != nil {
		if ambiguous(err) {
			w.Fresh.MaybeDeleted(owner, client.ObjectKeyFromObject(pod))
		}
		return fmt.Errorf("delete pod %s: %w", client.ObjectKeyFromObject(pod), err)
	}
	w.Fresh.Deleted(owner, client.ObjectKeyFromObject(pod))
	return nil
}

// AdoptPod makes the owner of ref the pod's controller, unless the pod has got one meanwhile.
func (w *Writer) AdoptPod(ctx context.Context, owner types.UID, pod *corev1.Pod, ref metav1.OwnerReference) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "resourceVersion": pod.ResourceVersion, "ownerReferences": []metav1.OwnerReference{ref},
	}})
	if err != nil {
		return fmt.Errorf("adopt pod %s: %w", client.ObjectKeyFromObject(pod), err)
	}
	if err := w.PatchPod(ctx, owner, pod, body); err != nil {
		return fmt.Errorf("adopt: %w", err)
	}
	return nil
}

// ReleasePod takes the owner out of exactly this pod's owner references; those of others stay. A pod that is gone, or that
// another of the same name has replaced, is no error.
func (w *Writer) ReleasePod(ctx context.Context, owner types.UID, pod *corev1.Pod) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "ownerReferences": []map[string]any{{"$patch": "delete", "uid": owner}},
	}})
	if err != nil {
		return fmt.Errorf("release pod %s: %w", client.ObjectKeyFromObject(pod), err)
	}
	// Nothing but the uid can be in conflict or invalid: the pod is another one.
	if err := w.PatchPod(ctx, owner, pod, body); err != nil && !apierrors.IsConflict(err) && !apierrors.IsInvalid(err) {
		return fmt.Errorf("release: %w", err)
	}
	return nil
}

// address returns a pod that has nothing but what a request needs to name it: answers are decoded into it, never into
// the cache's own.
func address(pod *corev1.Pod) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
}
