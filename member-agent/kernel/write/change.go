package write

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/inplace"
)

// ChangePod makes the writes of an update in place in their order: status, pod, resize. It stops at the first that fails. A
// pod that is gone is no error.
func (w *Writer) ChangePod(ctx context.Context, owner types.UID, pod *corev1.Pod, writes inplace.Writes) error {
	if len(writes.Status) > 0 {
		if err := w.PatchPodStatus(ctx, owner, pod, writes.Status); err != nil {
			return err
		}
	}
	if len(writes.Pod) > 0 {
		if err := w.PatchPod(ctx, owner, pod, writes.Pod); err != nil {
			return err
		}
	}
	if len(writes.Resize) > 0 {
		return w.resizePod(ctx, owner, pod, writes.Resize)
	}
	return nil
}

// resizePod applies a strategic merge patch to a pod's resize subresource.
func (w *Writer) resizePod(ctx context.Context, owner types.UID, pod *corev1.Pod, patch []byte) error {
	target := address(pod)
	if err := w.Client.SubResource("resize").Patch(ctx, target, client.RawPatch(types.StrategicMergePatchType, patch)); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		if ambiguous(err) {
			w.Fresh.MaybeChanged(owner, client.ObjectKeyFromObject(pod), pod.ResourceVersion)
		}
		return fmt.Errorf("resize pod %s: %w", client.ObjectKeyFromObject(pod), err)
	}
	w.Fresh.Changed(owner, client.ObjectKeyFromObject(pod), target.ResourceVersion)
	return nil
}
