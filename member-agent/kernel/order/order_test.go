package order_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/order"
)

func pod(name string, changes ...func(*corev1.Pod)) *corev1.Pod {
	start := metav1.NewTime(time.Unix(1000, 0))
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: start},
		Spec:       corev1.PodSpec{NodeName: "node-" + name},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: start}}},
	}
	for _, change := range changes {
		change(p)
	}
	return p
}

func cost(value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.PodDeletionCost: value} }
}

func TestRemoval(t *testing.T) {
	tests := []struct {
		reason       string
		first, other *corev1.Pod
	}{
		{"no node", pod("z", func(p *corev1.Pod) { p.Spec.NodeName = "" }), pod("a")},
		{"pending", pod("z", func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }), pod("a")},
		{"unknown before running", pod("z", func(p *corev1.Pod) { p.Status.Phase = corev1.PodUnknown }), pod("a")},
		{"not ready", pod("z", func(p *corev1.Pod) { p.Status.Conditions = nil }), pod("a")},
		{"not ready beats a low cost", pod("z", func(p *corev1.Pod) { p.Status.Conditions = nil }), pod("a", cost("-9"))},
		{"lower cost", pod("z", cost("-5")), pod("a", cost("10"))},
		{"a cost that is no number is 0", pod("z", cost("-1")), pod("a", cost("cheap"))},
		{"ready for a shorter time", pod("z", func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(time.Unix(2000, 0)) }), pod("a")},
		{"more restarts", pod("z", func(p *corev1.Pod) { p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 2}} }), pod("a")},
		{"newer", pod("z", func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(time.Unix(2000, 0)) }), pod("a")},
		{"the name decides at last", pod("a"), pod("z")},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			pods := []*corev1.Pod{tt.other, tt.first}
			order.Sort(pods, order.Removal(order.Crowd(pods))...)
			if pods[0] != tt.first {
				t.Errorf("%s goes first", pods[0].Name)
			}
		})
	}
}

func TestCrowdedNodesGiveFirst(t *testing.T) {
	on := func(node string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = node } }
	pods := []*corev1.Pod{pod("a", on("n1")), pod("b", on("n2")), pod("c", on("n2"))}
	order.Sort(pods, order.Removal(order.Crowd(pods))...)
	if pods[2].Name != "a" {
		t.Errorf("the pod alone on its node is not the last to go: %s", pods[2].Name)
	}
}

func TestTheOrderOfTheInputDoesNotMatter(t *testing.T) {
	var pods []*corev1.Pod
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		pods = append(pods, pod(name, cost([]string{"1", "2"}[len(pods)%2])))
	}
	want := slices.Clone(pods)
	order.Sort(want, order.Removal(order.Crowd(want))...)
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		random.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
		got := slices.Clone(pods)
		order.Sort(got, order.Removal(order.Crowd(got))...)
		if !slices.Equal(got, want) {
			t.Fatal("another input order gave another order")
		}
	}
}
