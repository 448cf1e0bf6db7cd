package waits

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
)

// Reasons of pods that are not Ready, in reports to a hub. A container that fails for another reason of the kubelet
// has that one, such as CreateContainerConfigError.
const (
	// ReasonImagePullBackOff: the image of a container cannot be pulled.
	ReasonImagePullBackOff = "ImagePullBackOff"
	// ReasonCrashLoopBackOff: a container ends again and again.
	ReasonCrashLoopBackOff = "CrashLoopBackOff"
	// ReasonContainerCreating: the node cannot set up the pod.
	ReasonContainerCreating = "ContainerCreating"
	// ReasonReadinessProbeFailing: a container runs, and its readiness probe does not succeed.
	ReasonReadinessProbeFailing = "ReadinessProbeFailing"
	// ReasonStartupProbeFailing: a container runs, and its startup probe has not succeeded.
	ReasonStartupProbeFailing = "StartupProbeFailing"
)

const (
	// schedulingTime is how long a pod may have no node before that is a reason: an autoscaler or a volume may bring one.
	schedulingTime = 10 * time.Second
	// probeTime is how long a container may run before a probe that does not succeed is a reason.
	probeTime = 30 * time.Second
	// backOff is how long a container that ended may stay so before the next start is a late one: the kubelet waits 40 s
	// before the one after restartsOfALoop.
	backOff = 30 * time.Second
	// steadyTime is how long a container must have run to be no crash loop: the kubelet starts such a one again at once.
	steadyTime = 10 * time.Minute
	// setupTime is how long a node may take to set up a pod: it attaches volumes.
	setupTime = 2 * time.Minute
)

// NotReady is why a pod is not Ready, or not gone. It counts Patience after Since.
type NotReady struct {
	Reason, Message string
	// Container is the container that the reason is about, "" for none.
	Container string
	Since     time.Time
	Patience  time.Duration
	// Until is when another reason, or none, may count if the container still runs then; zero: time changes nothing.
	Until time.Time
}

// Left returns how long it takes until the reason counts, 0 if it does.
func (n *NotReady) Left(now time.Time) time.Duration {
	return max(0, n.Since.Add(n.Patience).Sub(now))
}

// NotReadyOf returns why the pod is not Ready, or not gone; nil if it is Ready or has ended, or if nothing is known
// but that it starts. Messages have at most [work.LongestPodMessage] bytes, and stay the same while the pod fails in
// the same way. A container that ended again and again and runs now counts as one that will end again: see NotReadyAt.
func NotReadyOf(pod *corev1.Pod) *NotReady { return NotReadyAt(pod, time.Time{}) }

// NotReadyAt is NotReadyOf at a time: a container that has run for longer than before it ended last ends no more.
func NotReadyAt(pod *corev1.Pod, now time.Time) *NotReady {
	var found *NotReady
	switch {
	case pod.DeletionTimestamp != nil:
		found = notGone(pod)
	case podstate.Ended(pod) || podstate.Ready(pod):
		return nil
	case podstate.Unschedulable(pod):
		scheduled := podstate.Condition(pod, corev1.PodScheduled)
		found = &NotReady{Reason: work.ReasonUnschedulable, Message: schedulerWords(scheduled.Message),
			Since: scheduled.LastTransitionTime.Time, Patience: schedulingTime}
	default:
		found = inContainers(pod, now)
	}
	if found == nil {
		return nil
	}
	found.Message = cut(found.Message, work.LongestPodMessage)
	return found
}

func notGone(pod *corev1.Pod) *NotReady {
	message := "being deleted, and its node does not confirm it"
	if len(pod.Finalizers) > 0 {
		message = "being deleted, and kept by finalizer " + strings.Join(pod.Finalizers, ", ")
	}
	return &NotReady{Reason: ReasonPodTerminating, Message: message, Since: pod.DeletionTimestamp.Time, Patience: Soon}
}

// schedulerWords returns the scheduler's message without what it says about preemption, which repeats the rest.
func schedulerWords(message string) string {
	words, _, _ := strings.Cut(message, " preemption:")
	return strings.TrimRight(strings.TrimSpace(words), ".,;")
}

// inContainers returns why a pod with a node is not Ready.
func inContainers(pod *corev1.Pod, now time.Time) *NotReady {
	failing := func(pod *corev1.Pod, status *corev1.ContainerStatus) *NotReady { return failing(pod, status, now) }
	lists := [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses}
	for _, find := range []func(*corev1.Pod, *corev1.ContainerStatus) *NotReady{failing, probed} {
		for _, statuses := range lists {
			for i := range statuses {
				if found := find(pod, &statuses[i]); found != nil {
					found.Container = statuses[i].Name
					return found
				}
			}
		}
	}
	if found := beingSetUp(pod); found != nil {
		return found
	}
	gate, since := closedGate(pod)
	if gate == "" {
		return nil
	}
	return &NotReady{Reason: ReasonReadinessGateNotSet, Since: since, Patience: Long,
		Message: fmt.Sprintf("containers are ready, and condition %s of the readiness gates is not True", gate)}
}

// failing returns why a container cannot start or ends again and again, nil if it does neither.
func failing(pod *corev1.Pod, status *corev1.ContainerStatus, now time.Time) *NotReady {
	reason := failure(status)
	switch reason {
	case "":
		return nil
	case ReasonImagePullBackOff, "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable",
		"SignatureValidationFailed":
		image := status.Image
		if container := containerOf(pod, status.Name); container != nil {
			image = container.Image
		}
		return &NotReady{Reason: reason, Message: "cannot pull image " + image}
	case "CreateContainerConfigError":
		words, _, _ := strings.Cut(status.State.Waiting.Message, " (pod: ") // each pod would be a reason of its own
		return &NotReady{Reason: reason, Message: "cannot be created: " + words}
	case ReasonCrashLoopBackOff:
		if status.State.Waiting == nil || status.State.Waiting.Reason != ReasonCrashLoopBackOff {
			return loop(pod, status, now)
		}
		return crashes(status)
	case "RunContainerError", "PostStartHookError":
		return crashes(status) // the kubelet changes between these and CrashLoopBackOff
	case "CreateContainerError":
		if lastEnd(status) != nil {
			return crashes(status)
		}
	}
	return &NotReady{Reason: reason, Message: "cannot start"}
}

func crashes(status *corev1.ContainerStatus) *NotReady {
	message := "cannot start"
	if ended := lastEnd(status); ended != nil {
		message = endOf(ended)
	}
	return &NotReady{Reason: ReasonCrashLoopBackOff, Message: message}
}

// loop returns that a container ends again and again which the kubelet does not keep from starting now: its last run
// was short, the start after it was late, and it was not ready since. nil if it restarted for another reason, such as
// an update in place, or long ago, or if it has run for long enough since.
func loop(pod *corev1.Pod, status *corev1.ContainerStatus, now time.Time) *NotReady {
	gate := podstate.Condition(pod, v1beta1.InPlaceUpdateReady)
	ended, running := lastEnd(status), status.State.Running
	switch {
	case status.State.Waiting != nil, gate != nil && gate.Status != corev1.ConditionTrue, ended == nil,
		ended.FinishedAt.Sub(ended.StartedAt.Time) >= steadyTime:
		return nil
	case running != nil && (running.StartedAt.Sub(ended.FinishedAt.Time) < backOff || readySince(pod, running)):
		return nil
	case running == nil:
		return crashes(status)
	}
	until := running.StartedAt.Add(max(probeTime, ended.FinishedAt.Sub(ended.StartedAt.Time)))
	if !now.Before(until) {
		return nil
	}
	found := crashes(status)
	found.Until = until
	return found
}

// readySince reports whether the containers of the pod were ready after one of them started.
func readySince(pod *corev1.Pod, running *corev1.ContainerStateRunning) bool {
	ready := podstate.Condition(pod, corev1.ContainersReady)
	return ready != nil && ready.LastTransitionTime.After(running.StartedAt.Time)
}

// lastEnd returns how the container ended last, nil if that is not known.
func lastEnd(status *corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	if status.State.Terminated != nil {
		return status.State.Terminated
	}
	return status.LastTerminationState.Terminated
}

func endOf(ended *corev1.ContainerStateTerminated) string {
	switch ended.Reason {
	case "", "Error", "Completed":
		return fmt.Sprintf("ends with exit code %d", ended.ExitCode)
	case "OOMKilled":
		return fmt.Sprintf("ends with exit code %d: it uses more memory than its limit (OOMKilled)", ended.ExitCode)
	}
	return fmt.Sprintf("ends with exit code %d (%s)", ended.ExitCode, ended.Reason)
}

// probed returns which probe of a running container does not succeed, nil for none.
func probed(pod *corev1.Pod, status *corev1.ContainerStatus) *NotReady {
	container := containerOf(pod, status.Name)
	if container == nil || status.Ready || status.State.Running == nil {
		return nil
	}
	running := status.State.Running
	if container.StartupProbe != nil && (status.Started == nil || !*status.Started) {
		return &NotReady{Reason: ReasonStartupProbeFailing, Message: "runs, and its startup probe has not succeeded",
			Since: begins(running, container.StartupProbe), Patience: probeTime}
	}
	if container.ReadinessProbe == nil {
		return nil
	}
	since := begins(running, container.ReadinessProbe)
	if ready := podstate.Condition(pod, corev1.ContainersReady); ready != nil && ready.LastTransitionTime.After(since) {
		since = ready.LastTransitionTime.Time
	}
	return &NotReady{Reason: ReasonReadinessProbeFailing, Message: "runs, and its readiness probe does not succeed",
		Since: since, Patience: probeTime}
}

// begins returns when a probe of a container is first asked.
func begins(running *corev1.ContainerStateRunning, probe *corev1.Probe) time.Time {
	return running.StartedAt.Add(time.Duration(probe.InitialDelaySeconds) * time.Second)
}

// beingSetUp returns that the node sets up the pod, nil if it has done so. It pulls images after that.
func beingSetUp(pod *corev1.Pod) *NotReady {
	sandbox := podstate.Condition(pod, corev1.PodReadyToStartContainers)
	if pod.Spec.NodeName == "" || pod.Status.Phase != corev1.PodPending || sandbox == nil ||
		sandbox.Status != corev1.ConditionFalse {
		return nil
	}
	return &NotReady{Reason: ReasonContainerCreating, Since: sandbox.LastTransitionTime.Time, Patience: setupTime,
		Message: "the node cannot set up the pod: a volume, a Secret, a ConfigMap or the network may be missing"}
}

// containerOf returns the container with the name, also an init container; nil for none.
func containerOf(pod *corev1.Pod, name string) *corev1.Container {
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

// cut returns the text on one line, with at most so many bytes and whole characters.
func cut(text string, most int) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "")), " ")
	if len(text) <= most {
		return text
	}
	const more = "…"
	at := most - len(more)
	for at > 0 && !utf8.RuneStart(text[at]) {
		at--
	}
	return text[:at] + more
}
