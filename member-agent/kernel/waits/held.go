package waits

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// Held gathers pods that wait for something outside of their controller, such as a lifecycle hook.
type Held struct {
	pods       int32
	first, why string
}

// Add notes that a pod waits. The first name in the alphabet is shown, so that the same state reads the same again.
func (h *Held) Add(pod *corev1.Pod, why string) {
	if h.pods == 0 || pod.Name < h.first {
		h.first, h.why = pod.Name, why
	}
	h.pods++
}

// Message returns one sentence, or "" if no pod waits.
func (h *Held) Message() string {
	switch h.pods {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("pod %s waits: %s", h.first, h.why)
	}
	return fmt.Sprintf("%d pods wait; pod %s: %s", h.pods, h.first, h.why)
}
