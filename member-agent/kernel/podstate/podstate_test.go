package podstate_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
)

func TestAvailable(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	pod := func(changes ...func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon)}}}}
		for _, change := range changes {
			change(p)
		}
		return p
	}
	tests := []struct {
		name      string
		pod       *corev1.Pod
		seconds   int32
		after     time.Duration
		ready     bool
		available bool
		wait      time.Duration
	}{
		{"ready is enough without minReadySeconds", pod(), 0, 0, true, true, 0},
		{"too young", pod(), 10, 4 * time.Second, true, false, 6 * time.Second},
		{"old enough to the second", pod(), 10, 10 * time.Second, true, true, 0},
		{"not running", pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }), 0, 0, false, false, 0},
		{"not ready", pod(func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }), 10, 0, false, false,
			0},
		{"no condition yet", pod(func(p *corev1.Pod) { p.Status.Conditions = nil }), 0, 0, false, false, 0},
		{"the kubelet has not seen the shut gate", pod(func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions,
				corev1.PodCondition{Type: v1beta1.InPlaceUpdateReady, Status: corev1.ConditionFalse})
		}), 0, 0, false, false, 0},
		{"marked by a label", pod(func(p *corev1.Pod) {
			p.Labels = map[string]string{v1beta1.UnavailableLabelPrefix +
				"drain": ""}
		}), 0, 0, true, false, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			available, wait := podstate.Available(tt.pod, tt.seconds, noon.Add(tt.after))
			if available != tt.available || wait != tt.wait || podstate.Ready(tt.pod) != tt.ready {
				t.Errorf("ready %v, available %v, wait %v", podstate.Ready(tt.pod), available, wait)
			}
		})
	}
}

func TestUnschedulable(t *testing.T) {
	scheduled := func(status corev1.ConditionStatus, reason string) corev1.PodStatus {
		return corev1.PodStatus{Phase: corev1.PodPending,
			Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: status, Reason: reason}}}
	}
	for _, tt := range []struct {
		name string
		pod  corev1.Pod
		want bool
	}{
		{"refused by all nodes", corev1.Pod{Status: scheduled(corev1.ConditionFalse, corev1.PodReasonUnschedulable)}, true},
		{"not looked at yet", corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending}}, false},
		{"held by a gate", corev1.Pod{Status: scheduled(corev1.ConditionFalse, corev1.PodReasonSchedulingGated)}, false},
		{"scheduled", corev1.Pod{Status: scheduled(corev1.ConditionTrue, "")}, false},
		{"on a node, the condition is late", corev1.Pod{Spec: corev1.PodSpec{NodeName: "n"},
			Status: scheduled(corev1.ConditionFalse, corev1.PodReasonUnschedulable)}, false},
	} {
		if got := podstate.Unschedulable(&tt.pod); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
	failed := corev1.Pod{Status: scheduled(corev1.ConditionFalse, corev1.PodReasonUnschedulable)}
	failed.Status.Phase = corev1.PodFailed
	if podstate.Unschedulable(&failed) {
		t.Error("a pod that has ended waits for a node")
	}
}

func TestCounters(t *testing.T) {
	var c podstate.Counters
	c.Add(true, true, true)
	c.Add(true, true, false)
	c.Add(false, true, true)
	c.Add(false, false, false)
	if want := (podstate.Counters{Replicas: 4, Ready: 3, Available: 2, Updated: 2, UpdatedReady: 2,
		UpdatedAvailable: 1}); c != want {
		t.Errorf("counted %+v, want %+v", c, want)
	}
}

func TestSooner(t *testing.T) {
	for _, tt := range [][3]time.Duration{{0, 0, 0}, {0, 5, 5}, {5, 0, 5}, {5, 3, 3}, {3, 5, 3}} {
		if got := podstate.Sooner(tt[0], tt[1]); got != tt[2] {
			t.Errorf("Sooner(%d, %d) = %d", tt[0], tt[1], got)
		}
	}
}
