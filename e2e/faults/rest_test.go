package main

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/kinds"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
)

func TestUnrest(t *testing.T) {
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web-1", Labels: map[string]string{podset.LabelRevision: "r1"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:1"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Unix(1, 0))},
		}},
	}
	set := func(change func(*v1beta1.CloneSet)) *v1beta1.CloneSet {
		cs := &v1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{Name: "web", Generation: 3}}
		cs.Spec.Replicas = new(int32(1))
		cs.Status = v1beta1.CloneSetStatus{ObservedGeneration: 3, Replicas: 1, ReadyReplicas: 1, AvailableReplicas: 1,
			UpdatedReplicas: 1, UpdatedReadyReplicas: 1, UpdatedAvailableReplicas: 1, UpdateRevision: "r1",
			CurrentRevision: "r1"}
		change(cs)
		return cs
	}
	for _, tt := range []struct {
		name   string
		change func(*v1beta1.CloneSet)
		want   string
	}{
		{"at rest", func(*v1beta1.CloneSet) {}, ""},
		{"a generation ahead", func(cs *v1beta1.CloneSet) { cs.Generation = 4 }, "generation 4 is not acknowledged, but 3"},
		{"a counter that is wrong", func(cs *v1beta1.CloneSet) { cs.Status.ReadyReplicas = 0 }, "the status says"},
		{"a pod too few", func(cs *v1beta1.CloneSet) { *cs.Spec.Replicas = 2 }, "of 2 pods there are 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := unrest(kinds.CloneSet(), set(tt.change), []corev1.Pod{pod})
			if got != tt.want && (tt.want == "" || !strings.HasPrefix(got, tt.want)) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
