package report

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/topology/ordinals"
)

// podWith returns a pod with annotations.
func podWith(ready bool, annotations map[string]string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}}
	pod.Status.Phase = corev1.PodRunning
	if ready {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	return pod
}

func TestValuesOfPods(t *testing.T) {
	asked := &topology.HandOver{Annotations: []string{"db/checkpoint", "db/backup"}}
	own, err := ordinals.NewSet(1000, 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	checkpoint := func(n string) map[string]string { return map[string]string{"db/checkpoint": n} }
	values := func(ordinal int32, of map[string]string) *topology.HandOverValues {
		return &topology.HandOverValues{Pods: []topology.OrdinalValues{{Ordinal: ordinal, Values: of}}}
	}
	last := values(1000, map[string]string{"checkpoint": "6", "backup": "b", "forgotten": "x"})
	for name, test := range map[string]struct {
		pods       map[int32]*corev1.Pod
		last, want *topology.HandOverValues
	}{
		"none": {nil, nil, nil},
		"a pod's own": {map[int32]*corev1.Pod{1000: podWith(true, checkpoint("7"))}, nil,
			values(1000, map[string]string{"checkpoint": "7"})},
		"a Ready pod has what it has": {map[int32]*corev1.Pod{1000: podWith(true, checkpoint("7"))}, last,
			values(1000, map[string]string{"checkpoint": "7"})},
		"one that starts keeps the last of what it lacks": {
			map[int32]*corev1.Pod{1000: podWith(false, checkpoint("7"))}, last,
			values(1000, map[string]string{"checkpoint": "7", "backup": "b"})},
		"one that is gone has its last": {nil, last, values(1000, map[string]string{"checkpoint": "6", "backup": "b"})},
		"what it was given counts until it has its own": {
			map[int32]*corev1.Pod{1001: podWith(true, map[string]string{"handover.flotilla.dev/checkpoint": "5"})}, nil,
			values(1001, map[string]string{"checkpoint": "5"})},
		"a pod that is to go": {map[int32]*corev1.Pod{1002: podWith(true, checkpoint("7"))},
			values(1003, checkpoint("1")), nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, valuesOf(asked, own.Has, test.pods, test.last)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestChangedValuesAreReported(t *testing.T) {
	before := podWith(true, map[string]string{"a": "1"})
	labelled := before.DeepCopy()
	labelled.Labels = map[string]string{"a": "1"}
	moved := before.DeepCopy()
	moved.ResourceVersion, moved.Status.PodIP = "2", "10.0.0.1"
	for name, test := range map[string]struct {
		after *corev1.Pod
		want  bool
	}{
		"an annotation": {podWith(true, map[string]string{"a": "2"}), true},
		"a label":       {labelled, true},
		"Ready":         {podWith(false, before.Annotations), true},
		"another field": {moved, false},
	} {
		if got := valuesChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: test.after}); got != test.want {
			t.Errorf("%s changed: reported %t, want %t", name, got, test.want)
		}
	}
}
