package cloneset

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
)

func TestCase4WaitsOfCloneSetsPastTheirDeadline(t *testing.T) {
	waiting := func(name, reason string) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main"}}
		if reason != "" {
			pod.Status.ContainerStatuses[0].State.Waiting = &corev1.ContainerStateWaiting{Reason: reason}
		}
		return pod
	}
	gated := waiting("web-a", "")
	gated.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/lb"}}
	gated.Status.Conditions = []corev1.PodCondition{{Type: corev1.ContainersReady, Status: corev1.ConditionTrue}}
	claimed := waiting("web-a", "")
	claimed.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
		Reason: corev1.PodReasonUnschedulable, Message: "pod has unbound immediate PersistentVolumeClaims"}}
	failed := &conditions.Cause{Reason: "FailedScale", Message: "exceeded quota"}
	for _, tt := range []struct {
		name  string
		facts conditions.Facts
		pods  []*corev1.Pod
		says  string // "" for no wait
	}{
		{"before the deadline", conditions.Facts{Waiting: "pod web-a waits"}, []*corev1.Pod{gated}, ""},
		{"a hook that nobody serves", conditions.Facts{DeadlineExceeded: true,
			Waiting: "pod web-a waits: finalizer x is still on the pod"}, nil,
			"WaitingForHook: pod web-a waits: finalizer x"},
		{"a quota", conditions.Facts{DeadlineExceeded: true, Failed: failed}, []*corev1.Pod{gated},
			"FailedScale: exceeded quota"},
		{"a gate that nobody sets", conditions.Facts{DeadlineExceeded: true}, []*corev1.Pod{gated},
			"ReadinessGateNotSet: pod web-a"},
		{"a claim that is not bound", conditions.Facts{DeadlineExceeded: true}, []*corev1.Pod{claimed},
			"ClaimNotBound: pod web-a"},
		{"the first pod by name", conditions.Facts{DeadlineExceeded: true},
			[]*corev1.Pod{waiting("web-c", "ImagePullBackOff"), waiting("web-b", "CrashLoopBackOff"), waiting("web-a", "")},
			"ContainerFailing: pod web-b"},
		{"pods that start slowly", conditions.Facts{DeadlineExceeded: true}, []*corev1.Pod{waiting("web-a",
			"ContainerCreating")}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := waitPastDeadline(tt.facts, tt.pods)
			if tt.says == "" {
				if got != nil {
					t.Errorf("a wait is found: %+v", got)
				}
				return
			}
			if got == nil || !strings.HasPrefix(got.Message, tt.says) {
				t.Fatalf("wait is %+v", got)
			}
			tt.facts.Stalled, tt.facts.Desired = got, 1
			for _, c := range conditions.Summarise(tt.facts, conditions.NamesOf("CloneSet")) {
				if c.Type == v1beta1.ConditionProgressing && c.Reason != "ProgressDeadlineExceeded" {
					t.Errorf("Progressing is %+v", c)
				}
			}
		})
	}
}
