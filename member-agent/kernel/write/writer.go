package write

import (
	"context"
	"encoding/json"
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

func (w *Writer) pods() objects   { return objects{w.Client, w.Fresh} }
func (w *Writer) claims() objects { return objects{w.Client, w.Claims} }

// CreatePod creates the pod of an owner. If opened is not empty it is applied to the new pod's status at once, so that
// its readiness gate does not wait for another pass; a failure of this second write is left to the next pass.
func (w *Writer) CreatePod(ctx context.Context, owner types.UID, pod *corev1.Pod, opened []byte) error {
	if err := w.pods().create(ctx, owner, pod); err != nil {
		return fmt.Errorf("create pod %s: %w", client.ObjectKeyFromObject(pod), err)
	}
	if len(opened) == 0 {
		return nil
	}
	return w.PatchPodStatus(ctx, owner, pod, opened)
}

// PatchPod applies a strategic merge patch to a pod. A pod that is gone is no error.
func (w *Writer) PatchPod(ctx context.Context, owner types.UID, pod *corev1.Pod, patch []byte) error {
	return w.patchPod(ctx, owner, pod, "", "patch pod", patch)
}

// PatchPodStatus applies a strategic merge patch to a pod's status. A pod that is gone is no error.
func (w *Writer) PatchPodStatus(ctx context.Context, owner types.UID, pod *corev1.Pod, patch []byte) error {
	return w.patchPod(ctx, owner, pod, "status", "patch status of pod", patch)
}

// AddEphemeralContainers applies a strategic merge patch to the ephemeral containers of a pod. A pod that is gone is no
// error.
func (w *Writer) AddEphemeralContainers(ctx context.Context, owner types.UID, pod *corev1.Pod, patch []byte) error {
	return w.patchPod(ctx, owner, pod, "ephemeralcontainers", "add ephemeral containers to pod", patch)
}

func (w *Writer) patchPod(
	ctx context.Context, owner types.UID, pod *corev1.Pod, subresource, action string, patch []byte,
) error {
	raw := client.RawPatch(types.StrategicMergePatchType, patch)
	if err := w.pods().patch(ctx, owner, pod, subresource, raw); err != nil {
		return fmt.Errorf("%s %s: %w", action, client.ObjectKeyFromObject(pod), err)
	}
	return nil
}

// DeletePod deletes exactly this pod, not another of the same name. A pod that is gone is no error; a conflict is one:
// the pod may still be there, and must not be replaced before it goes. Where the answer is lost it may be going: the
// owner waits until the cache shows that, or the API server denies it.
func (w *Writer) DeletePod(ctx context.Context, owner types.UID, pod *corev1.Pod) error {
	if err := w.pods().remove(ctx, owner, pod, client.Preconditions{UID: &pod.UID}); err != nil {
		return fmt.Errorf("delete pod %s: %w", client.ObjectKeyFromObject(pod), err)
	}
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

// ReleasePod takes the owner out of exactly this pod's owner references; those of others stay. A pod that is gone, or
// that another of the same name has replaced, is no error.
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
