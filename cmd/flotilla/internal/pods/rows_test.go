package pods

import (
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestStatusIsThatOfKubectl holds STATUS, READY and RESTARTS of pods in all states.
func TestStatusIsThatOfKubectl(t *testing.T) {
	waiting := func(reason string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
	}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	ended := func(reason string, code, signal int32) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: reason, ExitCode: code, Signal: signal}}
	}
	status := func(name string, state corev1.ContainerState, ready bool, restarts int32) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: state, Ready: ready, RestartCount: restarts}
	}
	always := corev1.ContainerRestartPolicyAlways
	for _, test := range []struct {
		name string
		of   func(*corev1.Pod)
		want string
	}{
		{"pending", func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }, "0/2 Pending 0"},
		{"running", func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{status("a", running, true, 0), status("b", running, true, 2)}
		}, "2/2 Running 2"},
		{"not ready", func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{status("a", running, false, 0), status("b", running, true, 0)}
		}, "1/2 Running 0"},
		{"crash loop", func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{
				status("a", waiting("CrashLoopBackOff"), false, 5), status("b", running, true, 0)}
		}, "1/2 CrashLoopBackOff 5"},
		{"first container counts", func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{
				status("a", ended("OOMKilled", 137, 0), false, 1), status("b", waiting("ImagePullBackOff"), false, 0)}
		}, "0/2 OOMKilled 1"},
		{"exit code", func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{status("a", ended("", 3, 0), false, 0)}
		}, "0/2 ExitCode:3 0"},
		{"signal", func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{status("a", ended("", 137, 9), false, 0)}
		}, "0/2 Signal:9 0"},
		{"one has completed, the other runs", func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{
				status("a", ended("Completed", 0, 0), false, 0), status("b", running, true, 0)}
		}, "1/2 NotReady 0"},
		{"completed", func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodSucceeded
			p.Status.ContainerStatuses = []corev1.ContainerStatus{status("a", ended("Completed", 0, 0), false, 0)}
		}, "0/2 Completed 0"},
		{"evicted", func(p *corev1.Pod) {
			p.Status.Phase, p.Status.Reason = corev1.PodFailed, "Evicted"
		}, "0/2 Evicted 0"},
		{"init containers", func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodPending
			p.Spec.InitContainers = []corev1.Container{{Name: "i"}, {Name: "j"}}
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{
				status("i", ended("Completed", 0, 0), false, 1), status("j", running, false, 0)}
			p.Status.ContainerStatuses = []corev1.ContainerStatus{status("a", waiting("PodInitializing"), false, 0)}
		}, "0/2 Init:1/2 1"},
		{"init container fails", func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodPending
			p.Spec.InitContainers = []corev1.Container{{Name: "i"}}
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{status("i", waiting("CrashLoopBackOff"), false, 4)}
		}, "0/2 Init:CrashLoopBackOff 4"},
		{"init container ended badly", func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodPending
			p.Spec.InitContainers = []corev1.Container{{Name: "i"}}
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{status("i", ended("Error", 1, 0), false, 0)}
		}, "0/2 Init:Error 0"},
		{"sidecar", func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "proxy", RestartPolicy: &always}}
			proxy := status("proxy", running, true, 1)
			proxy.Started = new(true)
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{proxy}
			p.Status.ContainerStatuses = []corev1.ContainerStatus{status("a", running, true, 0), status("b", running, true, 0)}
		}, "3/3 Running 1"},
		{"being deleted", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }, "0/2 Terminating 0"},
		{"being deleted on a lost node", func(p *corev1.Pod) {
			p.DeletionTimestamp, p.Status.Reason = &metav1.Time{}, "NodeLost"
		}, "0/2 Unknown 0"},
		{"gated", func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodPending
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Reason: corev1.PodReasonSchedulingGated}}
		}, "0/2 SchedulingGated 0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := pod("api-1", corev1.PodRunning, "a", "b")
			test.of(&p)
			row := rowOf("east", &p, time.Now())
			if got := sprint(row); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

func sprint(p Pod) string {
	return strconv.Itoa(p.Ready) + "/" + strconv.Itoa(p.Containers) + " " + p.Status + " " + strconv.Itoa(int(p.Restarts))
}

func TestPodsTable(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	p := pod("api-1", corev1.PodRunning, "a")
	p.CreationTimestamp, p.Spec.NodeName, p.Status.PodIP = metav1.NewTime(now.Add(-90*time.Second)), "n1", "10.0.0.1"
	p.Spec.Containers[0].Image = "nginx:1.27"
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "a", Ready: true, RestartCount: 2,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			FinishedAt: metav1.NewTime(now.Add(-time.Minute))}}}}
	rows := []Pod{rowOf("east", &p, now)}
	want := "MEMBER\tNAME\tREADY\tSTATUS\tRESTARTS\tAGE\tNODE\t\neast\tapi-1\t1/1\tRunning\t2 (60s ago)\t90s\tn1\t\n"
	if diff := cmp.Diff(want, podsText(rows, false, false)); diff != "" {
		t.Error(diff)
	}
	want = "MEMBER\tNAMESPACE\tNAME\tREADY\tSTATUS\tRESTARTS\tAGE\tNODE\tIP\tIMAGES\t\n" +
		"east\tshop\tapi-1\t1/1\tRunning\t2 (60s ago)\t90s\tn1\t10.0.0.1\tnginx:1.27\t\n"
	if diff := cmp.Diff(want, podsText(rows, true, true)); diff != "" {
		t.Error(diff)
	}
}

func TestEventsOfAWorkload(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	event := func(kind, name string, ago time.Duration) corev1.Event {
		return corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}, Reason: "R", Type: "Warning",
			Message: "two\nlines", LastTimestamp: metav1.NewTime(now.Add(-ago)), Count: 2,
			InvolvedObject: corev1.ObjectReference{Kind: kind, Namespace: "shop", Name: name}}
	}
	events := []corev1.Event{event("Pod", "api-1", time.Second), event("Pod", "other", 0),
		event("CloneSet", "api", time.Minute), event("Deployment", "api", 0)}
	rows := eventsOf("east", events, about(targetFor(t, "clone/api"), []corev1.Pod{pod("api-1", corev1.PodRunning)}), now)
	want := "MEMBER\tLAST\tTYPE\tREASON\tOBJECT\tCOUNT\tMESSAGE\neast\t60s\tWarning\tR\tcloneset/api\t2\ttwo lines\n" +
		"east\t1s\tWarning\tR\tpod/api-1\t2\ttwo lines\n"
	if diff := cmp.Diff(want, eventsText(rows, false, true)); diff != "" {
		t.Error(diff)
	}
	newer := event("Pod", "api-1", time.Hour)
	newer.Series = &corev1.EventSeries{Count: 7, LastObservedTime: metav1.NewMicroTime(now)}
	if !lastOf(&newer).Equal(now) || countOf(&newer) != 7 {
		t.Errorf("a series: %v, %d", lastOf(&newer), countOf(&newer))
	}
}
