package write

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/inplace"
)

// ChangePod makes the writes of an update in place in their order: status, pod, resize. It stops at the first that
// fails. A pod that is gone is no error.
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
		return w.patchPod(ctx, owner, pod, "resize", "resize pod", writes.Resize)
	}
	return nil
}
