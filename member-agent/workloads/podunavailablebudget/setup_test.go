package podunavailablebudget

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// TestCounts changes a pod that is pending.
func TestCounts(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	passes := counts(func() time.Time { return now })
	for name, row := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"nothing": {func(*corev1.Pod) {}, false},
		"it gets a node": {func(pod *corev1.Pod) {
			pod.Spec.NodeName = "a"
		}, false},
		"it runs and is not ready": {func(pod *corev1.Pod) {
			pod.Status.Phase = corev1.PodRunning
		}, false},
		"it is ready": {func(pod *corev1.Pod) {
			pod.Status.Phase = corev1.PodRunning
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}, true},
		"it ends": {func(pod *corev1.Pod) {
			pod.Status.Phase = corev1.PodSucceeded
		}, true},
		"it fails": {func(pod *corev1.Pod) {
			pod.Status.Phase = corev1.PodFailed
		}, true},
		"it is being deleted": {func(pod *corev1.Pod) {
			pod.DeletionTimestamp = new(metav1.NewTime(now))
		}, true},
		"it gets a label": {func(pod *corev1.Pod) {
			pod.Labels = map[string]string{"app": "web"}
		}, true},
	} {
		was := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending}}
		is := was.DeepCopy()
		row.change(is)
		if got := passes.Update(event.UpdateEvent{ObjectOld: was, ObjectNew: is}); got != row.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
