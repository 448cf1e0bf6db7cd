package cloneset

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// Waiting gathers what pods wait for that somebody outside has to do.
type Waiting struct {
	pods       int32
	first, why string
}

// add notes that a pod waits. The first name in the alphabet is told, so that the same state reads the same again.
func (w *Waiting) add(pod *corev1.Pod, why string) {
	if w.pods == 0 || pod.Name < w.first {
		w.first, w.why = pod.Name, why
	}
	w.pods++
}

// Message returns one sentence, or "" if no pod waits.
func (w *Waiting) Message() string {
	switch w.pods {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("pod %s waits: %s", w.first, w.why)
	}
	return fmt.Sprintf("%d pods wait; pod %s: %s", w.pods, w.first, w.why)
}
