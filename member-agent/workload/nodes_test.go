package workload_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

func node(change func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"zone": "a"},
			Annotations: map[string]string{"volumes": "attached"}},
		Spec: corev1.NodeSpec{ProviderID: "p", Unschedulable: true,
			Taints: []corev1.Taint{{Key: "t", Effect: corev1.TaintEffectNoSchedule}}},
		Status: corev1.NodeStatus{
			Images:      []corev1.ContainerImage{{Names: []string{"app:1"}}},
			Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse},
				{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
	change(n)
	return n
}

func TestNodeChanged(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*corev1.Node)
		want   bool
	}{
		"a heartbeat": {func(n *corev1.Node) {
			n.Status.Conditions[1].LastHeartbeatTime = metav1.NewTime(time.Unix(1, 0))
			n.Status.Images = nil
			n.Annotations["volumes"] = "other"
		}, false},
		"when a taint came":     {func(n *corev1.Node) { n.Spec.Taints[0].TimeAdded = &metav1.Time{} }, false},
		"allocatable resources": {func(n *corev1.Node) { n.Status.Allocatable = nil }, false},
		"a label":               {func(n *corev1.Node) { n.Labels["zone"] = "b" }, true},
		"a taint":               {func(n *corev1.Node) { n.Spec.Taints = nil }, true},
		"whether it is ready":   {func(n *corev1.Node) { n.Status.Conditions[1].Status = corev1.ConditionUnknown }, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := workload.NodeChanged(node(func(*corev1.Node) {}), node(tt.change)); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

func TestSlimNode(t *testing.T) {
	got, err := workload.SlimNode(node(func(*corev1.Node) {}))
	if err != nil {
		t.Fatal(err)
	}
	slim, whole := got.(*corev1.Node), node(func(*corev1.Node) {})
	if workload.NodeChanged(slim, whole) || !slim.Spec.Unschedulable || len(slim.Status.Allocatable) != 1 {
		t.Errorf("what is read is gone: %+v", slim)
	}
	if slim.Annotations != nil || slim.Spec.ProviderID != "" || slim.Status.Images != nil ||
		len(slim.Status.Conditions) != 1 {
		t.Errorf("what nobody reads is kept: %+v", slim)
	}
}
