package terminator

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// podOf reads containers as "main:0 side:running ignoring:running": names that begin with side or ignoring are
// sidecars, numbers are exit codes.
func podOf(policy corev1.RestartPolicy, containers string) *corev1.Pod {
	pod := &corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: policy}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	for item := range strings.FieldsSeq(containers) {
		name, how, _ := strings.Cut(item, ":")
		c, status := corev1.Container{Name: name}, corev1.ContainerStatus{Name: name}
		if !strings.HasPrefix(name, "main") {
			c.Env = append(c.Env, corev1.EnvVar{Name: envTerminate, Value: "true"})
		}
		if strings.HasPrefix(name, "ignoring") {
			c.Env = append(c.Env, corev1.EnvVar{Name: envIgnore, Value: "true"})
		}
		if how == "running" {
			status.State.Running = &corev1.ContainerStateRunning{}
		} else {
			status.State.Terminated = &corev1.ContainerStateTerminated{}
			fmt.Sscan(how, &status.State.Terminated.ExitCode)
		}
		pod.Spec.Containers = append(pod.Spec.Containers, c)
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, status)
	}
	return pod
}

func TestDecide(t *testing.T) {
	const never, onFailure, always = corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure, corev1.RestartPolicyAlways
	for _, tt := range []struct {
		name       string
		policy     corev1.RestartPolicy
		containers string
		stop       string
		phase      corev1.PodPhase
	}{
		{"a main container runs", never, "main:running side:running", "[]", ""},
		{"the main container has ended", never, "main:0 side:running", "[side]", ""},
		{"the main container has failed", never, "main:1 side:running", "[side]", ""},
		{"one of two main containers runs", never, "main-a:0 main-b:running side:running", "[]", ""},
		{"a sidecar has ended already", never, "main:0 side-a:0 side-b:running", "[side-b]", ""},
		{"all have ended", never, "main:0 side:0", "[]", ""},
		{"no main container", never, "side:running", "[]", ""},
		{"a sidecar whose exit code is ignored comes last", never, "main:0 side:running ignoring:running", "[side]", ""},
		{"the others have ended", never, "main:0 side:143 ignoring:running", "[]", corev1.PodSucceeded},
		{"the others have ended, and the main container has failed", never, "main:2 ignoring:running", "[]",
			corev1.PodFailed},
		{"a main container is retried", onFailure, "main:1 side:running", "[]", ""},
		{"the main container has succeeded, and sidecars are not started again", onFailure, "main:0 side:running", "[]",
			corev1.PodSucceeded},
		{"the sidecar failed just now, and is about to start again", onFailure, "main:0 side:143", "[]",
			corev1.PodSucceeded},
		{"a pod that is no job", always, "main:0 side:running", "[]", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := decide(podOf(tt.policy, tt.containers))
			if fmt.Sprint(got.stop) != tt.stop || got.phase != tt.phase {
				t.Errorf("stops %v, phase %q", got.stop, got.phase)
			}
		})
	}
	deleted := podOf(never, "main:0 side:running")
	deleted.DeletionTimestamp = new(metav1.Now())
	if got := decide(deleted); len(got.stop) > 0 {
		t.Error("a pod that is being deleted is left to the kubelet")
	}
}

func TestRequestsAreMadeAgainLaterAndLater(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ago := func(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }
	for _, row := range []struct {
		name  string
		mains time.Duration // how long ago the main container ended
		ended time.Duration // how long ago the request did
		want  time.Duration
	}{
		{"the daemon could not stop it", time.Second, 0, firstRetry},
		{"half a minute later", 31 * time.Second, 30 * time.Second, 0},
		{"the daemon was away for a minute", 70 * time.Second, 10 * time.Second, 50 * time.Second},
		{"and for another one", 190 * time.Second, 10 * time.Second, 170 * time.Second},
		{"and for hours", 5 * time.Hour, time.Minute, 4 * time.Minute},
		{"the clock of the node is ahead", -time.Hour, 0, firstRetry},
		{"our clock was set back", -time.Hour, -time.Hour, firstRetry},
		{"long ago", 5 * time.Hour, 4 * time.Hour, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			pod := podOf(corev1.RestartPolicyNever, "main:0 side:running side-b:1")
			pod.Status.ContainerStatuses[0].State.Terminated.FinishedAt = ago(row.mains)
			pod.Status.ContainerStatuses[2].State.Terminated.FinishedAt = ago(-time.Hour)
			request := &v1beta1.ContainerRecreateRequest{}
			request.Status.CompletionTime = new(ago(row.ended))
			if got := retryIn(pod, request, now); got != row.want {
				t.Errorf("again in %s, want %s", got, row.want)
			}
		})
	}
}
