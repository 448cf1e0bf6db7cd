package waits_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/waits"
)

// ofImage gives the container main an image and probes.
func ofImage(p *corev1.Pod) {
	p.Spec.Containers = []corev1.Container{{Name: "main", Image: "nginx:1.99", ReadinessProbe: &corev1.Probe{}}}
}

func probedSince(at time.Time) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		ofImage(p)
		p.Status.ContainerStatuses[0].State.Running.StartedAt = metav1.NewTime(at)
	}
}

// restarted makes the container one that restarted three times: the last run took so long, and the next start so much.
func restarted(ran, late time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		s := &p.Status.ContainerStatuses[0]
		s.RestartCount = 3
		s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error",
			StartedAt: metav1.NewTime(began), FinishedAt: metav1.NewTime(began.Add(ran))}
		s.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(began.Add(ran + late))}
	}
}

// inInit makes the container an init container.
func inInit(p *corev1.Pod) {
	p.Status.InitContainerStatuses = p.Status.ContainerStatuses
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app",
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}}}
	p.Spec.InitContainers, p.Spec.Containers = p.Spec.Containers, nil
}

// native makes the container an init container that stays.
func native(p *corev1.Pod) {
	inInit(p)
	p.Spec.InitContainers[0].RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
}

func endedWith(code int32, reason string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
			ExitCode: code, Reason: reason}
	}
}

func TestNotReadyOf(t *testing.T) {
	deleted := func(finalizers ...string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: began}, finalizers
		}
	}
	for name, tc := range map[string]struct {
		pod                        *corev1.Pod
		reason, message, container string
		after                      time.Duration
	}{
		"image that cannot be pulled": {pod(ofImage, waitingFor("ErrImagePull")), "ImagePullBackOff",
			"cannot pull image nginx:1.99", "main", 0},
		"image that is waited for": {pod(ofImage, waitingFor("ImagePullBackOff")), "ImagePullBackOff",
			"cannot pull image nginx:1.99", "main", 0},
		"image without a valid name": {pod(ofImage, waitingFor("InvalidImageName")), "InvalidImageName",
			"cannot pull image nginx:1.99", "main", 0},
		"crash loop": {pod(waitingFor("CrashLoopBackOff"), endedWith(3, "Error")), "CrashLoopBackOff",
			"ends with exit code 3", "main", 0},
		"too little memory": {pod(waitingFor("CrashLoopBackOff"), endedWith(137, "OOMKilled")), "CrashLoopBackOff",
			"ends with exit code 137: it uses more memory than its limit (OOMKilled)", "main", 0},
		"crash loop that ended now": {pod(func(p *corev1.Pod) {
			s := &p.Status.ContainerStatuses[0]
			s.RestartCount, s.State = 3, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3}}
		}), "CrashLoopBackOff", "ends with exit code 3", "main", 0},
		"crash loop that runs now": {pod(restarted(5*time.Second, 40*time.Second)), "CrashLoopBackOff",
			"ends with exit code 3", "main", 0},
		"crash loop of an init container": {pod(waitingFor("CrashLoopBackOff"), endedWith(3, "Error"), inInit),
			"CrashLoopBackOff", "ends with exit code 3", "main", 0},
		"command that does not exist, first": {pod(waitingFor("RunContainerError")), "CrashLoopBackOff", "cannot start",
			"main", 0},
		"restarted by updates in place": {pod(restarted(time.Minute, time.Second)), "", "", "", 0},
		"restarted after days":          {pod(restarted(50*time.Hour, time.Minute)), "", "", "", 0},
		"being updated in place": {pod(restarted(time.Minute, time.Minute),
			func(p *corev1.Pod) {
				p.Status.Conditions = append(p.Status.Conditions,
					condition("InPlaceUpdateReady", corev1.ConditionFalse, began))
			}), "", "", "", 0},
		"old restarts, ready since": {pod(restarted(5*time.Second, 40*time.Second), ofImage, func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions,
				condition(corev1.ContainersReady, corev1.ConditionFalse, began.Add(10*time.Minute)))
		}), "ReadinessProbeFailing", "runs, and its readiness probe does not succeed", "main",
			10*time.Minute + 30*time.Second},
		"new image of a container that restarted": {pod(restarted(5*time.Second, 40*time.Second),
			waitingFor("ContainerCreating")), "", "", "", 0},
		"command that does not exist": {pod(waitingFor("RunContainerError"), endedWith(128, "StartError")),
			"CrashLoopBackOff", "ends with exit code 128 (StartError)", "main", 0},
		"ConfigMap that is missing": {pod(func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
				Reason: "CreateContainerConfigError", Message: `configmap "settings" not found`}}
		}), "CreateContainerConfigError", `cannot be created: configmap "settings" not found`, "main", 0},
		"user that is not allowed": {pod(func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
				Reason: "CreateContainerConfigError", Message: `image will run as root (pod: "db-1_shop(u)", container: main)`}}
		}), "CreateContainerConfigError", "cannot be created: image will run as root", "main", 0},
		"no node": {pod(unscheduled("0/3 nodes are available: 3 Insufficient cpu. preemption: 0/3 nodes are available: " +
			"3 No preemption victims found for incoming pod.")), "Unschedulable",
			"0/3 nodes are available: 3 Insufficient cpu", "", 10 * time.Second},
		"readiness probe": {pod(probedSince(began)), "ReadinessProbeFailing",
			"runs, and its readiness probe does not succeed", "main", 30 * time.Second},
		"readiness probe that begins late": {pod(probedSince(began), func(p *corev1.Pod) {
			p.Spec.Containers[0].ReadinessProbe.InitialDelaySeconds = 60
		}), "ReadinessProbeFailing", "runs, and its readiness probe does not succeed", "main", 90 * time.Second},
		"readiness probe of a native sidecar": {pod(probedSince(began), native), "ReadinessProbeFailing",
			"runs, and its readiness probe does not succeed", "main", 30 * time.Second},
		"startup probe": {pod(probedSince(began), func(p *corev1.Pod) {
			p.Spec.Containers[0].StartupProbe = &corev1.Probe{}
		}), "StartupProbeFailing", "runs, and its startup probe has not succeeded", "main", 30 * time.Second},
		"container without a probe that starts": {pod(), "", "", "", 0},
		"node that sets the pod up": {pod(func(p *corev1.Pod) {
			p.Status.ContainerStatuses = nil
			p.Status.Conditions = append(p.Status.Conditions,
				condition(corev1.PodReadyToStartContainers, corev1.ConditionFalse, began))
		}), "ContainerCreating",
			"the node cannot set up the pod: a volume, a Secret, a ConfigMap or the network may be missing",
			"", 2 * time.Minute},
		"node that sets up a pod with init containers": {pod(waitingFor("PodInitializing"), inInit, func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions,
				condition(corev1.PodReadyToStartContainers, corev1.ConditionFalse, began))
		}), "ContainerCreating",
			"the node cannot set up the pod: a volume, a Secret, a ConfigMap or the network may be missing",
			"", 2 * time.Minute},
		"image that is pulled for long": {pod(waitingFor("ContainerCreating"), func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, condition(corev1.PodScheduled, corev1.ConditionTrue, began),
				condition(corev1.PodReadyToStartContainers, corev1.ConditionTrue, began))
		}), "", "", "", 0},
		"readiness gate": {pod(gate("example.com/lb", corev1.ConditionTrue)), "ReadinessGateNotSet",
			"containers are ready, and condition example.com/lb of the readiness gates is not True", "", 10 * time.Minute},
		"finalizer": {pod(deleted("example.com/guard", "b")), "PodTerminating",
			"being deleted, and kept by finalizer example.com/guard, b", "", time.Minute},
		"node that is off": {pod(deleted()), "PodTerminating", "being deleted, and its node does not confirm it", "",
			time.Minute},
		"ready": {pod(func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodRunning
			p.Status.Conditions = []corev1.PodCondition{condition(corev1.PodReady, corev1.ConditionTrue, began)}
		}), "", "", "", 0},
		"ended": {pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), "", "", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := podset.NewSlim()(tc.pod); err != nil { // as agents have them
				t.Fatal(err)
			}
			got := waits.NotReadyOf(tc.pod)
			if got == nil {
				if tc.reason != "" {
					t.Fatalf("no reason, want %s", tc.reason)
				}
				return
			}
			if got.Reason != tc.reason || got.Message != tc.message || got.Container != tc.container {
				t.Errorf("%q %q %q, want %q %q %q", got.Reason, got.Message, got.Container, tc.reason, tc.message, tc.container)
			}
			if tc.after > 0 && (got.Left(began.Add(tc.after-time.Second)) != time.Second || got.Left(later) != 0) {
				t.Errorf("counts %s after it began, want %s", got.Left(began), tc.after)
			}
			if tc.after == 0 && got.Left(began) != 0 {
				t.Errorf("counts after %s, want at once", got.Left(began))
			}
		})
	}
}

// TestNotReadyMessagesAreShort holds that a message has one line and at most 200 bytes of whole characters.
func TestNotReadyMessagesAreShort(t *testing.T) {
	got := waits.NotReadyOf(pod(unscheduled(strings.Repeat("0/3 nodes\n are ü available ", 20)))).Message
	if len(got) > work.LongestPodMessage || len(got) < work.LongestPodMessage-3 || strings.Contains(got, "\n") ||
		strings.ToValidUTF8(got, "?") != got || !strings.HasSuffix(got, "…") {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}

// TestALoopEnds: a container that ended again and again is in no back-off once it has run for longer than before.
func TestALoopEnds(t *testing.T) {
	const loops, probes = "CrashLoopBackOff", "ReadinessProbeFailing"
	probed := func(ran, late time.Duration) *corev1.Pod { return pod(restarted(ran, late), ofImage) }
	for name, tc := range map[string]struct {
		pod   *corev1.Pod
		runs  time.Duration // since it started again
		want  string
		until time.Duration // as above, 0 for no such time
	}{
		"just started":                 {probed(5*time.Second, 40*time.Second), time.Second, loops, 30 * time.Second},
		"shortly before":               {probed(5*time.Second, 40*time.Second), 29 * time.Second, loops, 30 * time.Second},
		"it runs and is not Ready":     {probed(5*time.Second, 40*time.Second), 30 * time.Second, probes, 0},
		"it ran for minutes before":    {probed(2*time.Minute, time.Minute), time.Minute, loops, 2 * time.Minute},
		"it runs for longer than that": {probed(2*time.Minute, time.Minute), 2 * time.Minute, probes, 0},
		"it runs without a probe":      {pod(restarted(5*time.Second, 40*time.Second)), time.Minute, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			started := tc.pod.Status.ContainerStatuses[0].State.Running.StartedAt.Time
			got := waits.NotReadyAt(tc.pod, started.Add(tc.runs))
			if got == nil {
				got = &waits.NotReady{}
			}
			if got.Reason != tc.want || got.Left(started.Add(tc.runs)) > 0 {
				t.Errorf("%q after %s, want %q", got.Reason, tc.runs, tc.want)
			}
			if until := got.Until.Sub(started); tc.until > 0 && until != tc.until || tc.until == 0 && !got.Until.IsZero() {
				t.Errorf("until %s, want %s", until, tc.until)
			}
		})
	}
}
