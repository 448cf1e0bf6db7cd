package imagepulljob

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/pernode"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
)

const (
	// noCommand is run in place of what the image says, and is in no image: the container fails to start once the image
	// is there, and nothing of the image runs.
	noCommand = "/flotilla-pulls-this-image-only"
	// longestName bounds the name of a job in the names of its pods, which end with hashLength characters of a hash.
	longestName = 52
	hashLength  = 10
	// nobody is the user of the container, since some namespaces refuse root.
	nobody = 65532
)

// podOf is the pod that pulls on a node.
type podOf struct {
	pod         *corev1.Pod
	terminating bool
}

// gatherPods reads the pods of the job as the entries of their nodes, and returns the labels of all nodes.
func (r *Reconciler) gatherPods(s *scope) (map[string]map[string]string, error) {
	set, err := r.Pods.Observe(s.job.UID, nil)
	if err != nil {
		return nil, err
	}
	labels := map[string]map[string]string{}
	for _, node := range r.Nodes() {
		if node.Labels[serverlessLabel] != serverlessValue && node.DeletionTimestamp == nil {
			labels[node.Name] = node.Labels
			s.facts.Nodes[node.Name] = Node{Name: node.Name}
		}
	}
	s.pods = map[string]*podOf{}
	for _, list := range [][]*corev1.Pod{set.Active, set.Ended, set.Terminating} {
		for _, pod := range list {
			node := podset.NodeOf(pod)
			if pod.Name != podName(s.job, node) {
				s.replaced = append(s.replaced, pod)
				continue
			}
			s.pods[node] = &podOf{pod: pod, terminating: pod.DeletionTimestamp != nil}
			s.facts.Nodes[node] = s.nodeOfPod(node, pod)
		}
	}
	return labels, nil
}

// serverlessLabel with serverlessValue marks nodes that have no container runtime of their own.
const serverlessLabel, serverlessValue = "type", "virtual-kubelet"

// nodeOfPod returns what a pod says about the pull on its node, as an entry of a NodeImage would.
func (s *scope) nodeOfPod(node string, pod *corev1.Pod) Node {
	timeout, backoff := (&planner{Facts: s.facts}).pullLimits()
	out := Node{Name: node, Tag: &v1beta1.ImageTagSpec{
		Tag: s.tag, CreatedAt: &pod.CreationTimestamp,
		OwnerReferences: []v1beta1.JobReference{{UID: s.job.UID}},
		PullPolicy:      &v1beta1.ImageTagPullPolicy{TimeoutSeconds: &timeout, BackoffLimit: &backoff},
	}}
	phase, message := pulled(pod)
	if message != "" {
		s.messages[node] = message
	}
	if phase == v1beta1.ImagePhaseWaiting {
		s.unschedulable = message
		return out
	}
	out.Status = &v1beta1.ImageTagStatus{Tag: s.tag, Phase: phase, StartTime: &pod.CreationTimestamp}
	return out
}

// pulled returns how far the pull of a pod is: Waiting without a node. The container never runs, so an image that is
// there shows as a container that could not be started.
func pulled(pod *corev1.Pod) (v1beta1.ImagePullPhase, string) {
	var waits *corev1.ContainerStateWaiting
	for i := range pod.Status.ContainerStatuses {
		c := &pod.Status.ContainerStatuses[i]
		if c.ImageID != "" || c.State.Running != nil || c.State.Terminated != nil {
			return v1beta1.ImagePhaseSucceeded, ""
		}
		waits = c.State.Waiting
	}
	switch {
	case waits != nil && slices.Contains(afterPull(), waits.Reason):
		return v1beta1.ImagePhaseSucceeded, ""
	case waits != nil && waits.Reason == "InvalidImageName", pod.Status.Phase == corev1.PodFailed:
		text := pod.Status.Reason
		if waits != nil {
			text = waits.Reason + ": " + waits.Message
		}
		return v1beta1.ImagePhaseFailed, text
	case waits != nil && waits.Message != "":
		return v1beta1.ImagePhasePulling, waits.Reason + ": " + waits.Message
	}
	return scheduled(pod)
}

// scheduled returns how far a pod is that no container says anything of.
func scheduled(pod *corev1.Pod) (v1beta1.ImagePullPhase, string) {
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return v1beta1.ImagePhaseWaiting, c.Message
		}
	}
	if pod.Spec.NodeName == "" {
		return v1beta1.ImagePhaseWaiting, ""
	}
	return v1beta1.ImagePhasePulling, ""
}

// afterPull are the reasons for which a container waits that has its image.
func afterPull() []string {
	return []string{"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "StartError",
		"CrashLoopBackOff", "PreCreateHookError", "PreStartHookError", "PostStartHookError"}
}

// podName returns the name of the pod that pulls the image of the job on a node. Another image has another pod.
func podName(job *v1beta1.ImagePullJob, node string) string {
	sum := sha256.Sum256([]byte(string(job.UID) + "/" + node + "/" + job.Spec.Image))
	return job.Name[:min(len(job.Name), longestName)] + "-" + hex.EncodeToString(sum[:])[:hashLength]
}

// newPod returns the pod that pulls on a node.
func newPod(job *v1beta1.ImagePullJob, node string) *corev1.Pod {
	small := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m"),
		corev1.ResourceMemory: resource.MustParse("16Mi")}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       job.Namespace,
			Name:            podName(job, node),
			Labels:          map[string]string{v1beta1.LabelImagePullJobUID: string(job.UID)},
			Annotations:     map[string]string{"sidecar.istio.io/inject": "false"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, v1beta1.ImagePullJobKind)},
		},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{
				Name: "pull", Image: job.Spec.Image, ImagePullPolicy: corev1.PullPolicy(job.Spec.ImagePullPolicy),
				Command:   []string{noCommand},
				Resources: corev1.ResourceRequirements{Requests: small, Limits: small},
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
					Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
			RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: new(int64(0)),
			AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false),
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: new(true), RunAsUser: new(int64(nobody)),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		},
	}
	for _, name := range job.Spec.PullSecrets {
		pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
	}
	if config := job.Spec.SandboxConfig; config != nil {
		for key, value := range config.Labels {
			if _, ours := pod.Labels[key]; !ours {
				pod.Labels[key] = value
			}
		}
		for key, value := range config.Annotations {
			pod.Annotations[key] = value
		}
	}
	pernode.Pin(&pod.Spec, node)
	return pod
}

// createPod creates the pod that pulls on a node.
func (r *Reconciler) createPod(ctx context.Context, s *scope, node string) error {
	if err := r.CreatePod(ctx, s.pass, newPod(s.job, node), nil); err != nil {
		return fmt.Errorf("create the pod on node %s: %w", node, err)
	}
	return nil
}
