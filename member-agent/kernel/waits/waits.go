package waits

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/lifecycle"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
)

// Reasons of waits of pods.
const (
	// ReasonPodTerminating: a node or a finalizer keeps a pod that is being deleted.
	ReasonPodTerminating = "PodTerminating"
	// ReasonClaimNotBound: the scheduler finds no node because of a PersistentVolumeClaim.
	ReasonClaimNotBound = "ClaimNotBound"
	// ReasonContainerFailing: a container cannot start, or ends again and again.
	ReasonContainerFailing = "ContainerFailing"
	// ReasonReadinessGateNotSet: the containers are ready, and nobody sets a readiness gate.
	ReasonReadinessGateNotSet = "ReadinessGateNotSet"
)

// After these times a wait counts.
const (
	// Soon is for what Kubernetes ends within seconds if it ends it at all.
	Soon = time.Minute
	// Long is for what may still end by itself. It is the default progressDeadlineSeconds of a Deployment.
	Long = 10 * time.Minute
)

// restartsOfALoop is how many restarts of a container that is not ready are a crash loop: the kubelet waits 40 s before
// the next one.
const restartsOfALoop = 3

// Wait is what a pod waits for.
type Wait struct {
	conditions.Cause
	// Since is when the wait began; it counts Patience later.
	Since    time.Time
	Patience time.Duration
}

// New returns a wait.
func New(reason string, since time.Time, patience time.Duration, message string, args ...any) *Wait {
	return &Wait{conditions.Cause{Reason: reason, Message: fmt.Sprintf(message, args...)}, since, patience}
}

// Left returns how long it takes until the wait counts, 0 if it does. The wait begins at floor at the earliest.
func (w *Wait) Left(floor, now time.Time) time.Duration {
	since := w.Since
	if since.Before(floor) {
		since = floor
	}
	return max(0, since.Add(w.Patience).Sub(now))
}

// Of returns what the pod waits for, nil if that ends by itself.
func Of(pod *corev1.Pod) *Wait {
	switch {
	case pod.DeletionTimestamp != nil:
		return terminating(pod)
	case podstate.Ended(pod) || podstate.Ready(pod):
		return nil
	case podstate.Unschedulable(pod):
		return unbound(pod)
	}
	if problem := Failing(pod); problem != "" {
		return New(ReasonContainerFailing, NotReadySince(pod), Long,
			"pod %s: %s; correct the template, or take the change back: kubectl describe pod %s -n %s",
			pod.Name, problem, pod.Name, pod.Namespace)
	}
	return gated(pod)
}

func terminating(pod *corev1.Pod) *Wait {
	since := pod.DeletionTimestamp.Time // with the grace period
	if len(pod.Finalizers) > 0 {
		return New(ReasonPodTerminating, since, Soon,
			"pod %s is being deleted and kept by finalizer %s: look at the controller that removes it; "+
				"if there is none: kubectl patch pod %s -n %s --type=merge -p '{\"metadata\":{\"finalizers\":null}}'",
			pod.Name, strings.Join(pod.Finalizers, ", "), pod.Name, pod.Namespace)
	}
	return New(ReasonPodTerminating, since, Soon,
		"pod %s is being deleted, and node %s does not confirm it: bring the node back, or, only if its machine is off: "+
			"kubectl taint node %s node.kubernetes.io/out-of-service=nodeshutdown:NoExecute",
		pod.Name, pod.Spec.NodeName, pod.Spec.NodeName)
}

// unbound returns the wait of a pod without a node. The scheduler's plugins for volumes name the claim or its volume.
func unbound(pod *corev1.Pod) *Wait {
	scheduled := podstate.Condition(pod, corev1.PodScheduled)
	text := strings.ToLower(scheduled.Message)
	if !strings.Contains(text, "persistentvolumeclaim") && !strings.Contains(text, "persistent volume") {
		return nil
	}
	var claims []string
	for i := range pod.Spec.Volumes {
		if claim := pod.Spec.Volumes[i].PersistentVolumeClaim; claim != nil {
			claims = append(claims, claim.ClaimName)
		}
	}
	return New(ReasonClaimNotBound, scheduled.LastTransitionTime.Time, Soon,
		"pod %s has no node, because a claim is not bound; see why: kubectl describe pvc %s -n %s",
		pod.Name, strings.Join(claims, " "), pod.Namespace)
}

// gated returns the wait for a readiness gate that is not ours.
func gated(pod *corev1.Pod) *Wait {
	gate, since := closedGate(pod)
	if gate == "" {
		return nil
	}
	return New(ReasonReadinessGateNotSet, since, Long,
		"pod %s has ready containers, and condition %s of its readiness gates is not True: "+
			"look at the controller that sets it, or remove the gate from the template",
		pod.Name, gate)
}

// closedGate returns the first readiness gate that is not ours and not True, and since when the containers are ready.
// It is "" if there is none, or a container is not ready.
func closedGate(pod *corev1.Pod) (gate corev1.PodConditionType, since time.Time) {
	ready := podstate.Condition(pod, corev1.ContainersReady)
	if ready == nil || ready.Status != corev1.ConditionTrue {
		return "", time.Time{}
	}
	i := slices.IndexFunc(pod.Spec.ReadinessGates, func(gate corev1.PodReadinessGate) bool {
		own := gate.ConditionType == v1beta1.InPlaceUpdateReady || gate.ConditionType == lifecycle.KruisePodReady
		set := podstate.Condition(pod, gate.ConditionType)
		return !own && (set == nil || set.Status != corev1.ConditionTrue)
	})
	if i < 0 {
		return "", time.Time{}
	}
	return pod.Spec.ReadinessGates[i].ConditionType, ready.LastTransitionTime.Time
}

// Failing says which container of the pod cannot start or ends again and again, "" if none does.
func Failing(pod *corev1.Pod) string {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			if problem := failure(&statuses[i]); problem != "" {
				return fmt.Sprintf("container %s fails with %s", statuses[i].Name, problem)
			}
		}
	}
	return ""
}

// failure returns the reason why a container fails. Those between which the kubelet changes to and fro are one.
func failure(status *corev1.ContainerStatus) string {
	if waiting := status.State.Waiting; waiting != nil {
		switch waiting.Reason {
		case "ErrImagePull", "ImagePullBackOff":
			return ReasonImagePullBackOff
		case "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable",
			"SignatureValidationFailed", "CreateContainerConfigError", "CreateContainerError", "RunContainerError",
			"PreCreateHookError", "PreStartHookError", "PostStartHookError":
			return waiting.Reason
		case ReasonCrashLoopBackOff:
			return ReasonCrashLoopBackOff
		}
	}
	if !status.Ready && status.RestartCount >= restartsOfALoop {
		return ReasonCrashLoopBackOff
	}
	return ""
}

// NotReadySince returns since when the pod is not Ready.
func NotReadySince(pod *corev1.Pod) time.Time {
	if ready := podstate.Condition(pod, corev1.PodReady); ready != nil && !ready.LastTransitionTime.IsZero() {
		return ready.LastTransitionTime.Time
	}
	return pod.CreationTimestamp.Time
}

// NeverReady reports whether the pod certainly never was Ready: no kubelet has reported on it, or its condition Ready
// is False since the kubelet took the pod. The kubelet sets both times together, and moves that of the condition when
// the pod gets Ready. Times have whole seconds, and the kubelet looks at containers once a second, so a pod that was
// Ready has a later time in its condition. A pod whose spec was changed in place may be an exception, so it is not
// certain.
func NeverReady(pod *corev1.Pod) bool {
	ready := podstate.Condition(pod, corev1.PodReady)
	if ready == nil {
		return pod.Status.Phase == corev1.PodPending
	}
	start, since := pod.Status.StartTime, ready.LastTransitionTime
	return pod.Generation <= 1 && ready.Status == corev1.ConditionFalse &&
		start != nil && !since.IsZero() && !since.After(start.Time)
}
