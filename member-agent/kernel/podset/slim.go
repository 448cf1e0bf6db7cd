package podset

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// environmentPrefix begins the names of the variables that our kinds give a meaning to, such as
// KRUISE_CONTAINER_PRIORITY.
const environmentPrefix = "KRUISE_"

// Slim is the cache's transform of pods: it keeps what controllers of this agent read, and drops the rest, which is
// most of a pod. It changes the object that it is given. Pods from the cache must therefore never be sent to the API
// server as a whole; they are only patched. Objects of other types lose their managedFields.
func Slim(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return cache.TransformStripManagedFields()(obj)
	}
	pod.ManagedFields = nil
	pod.Spec = corev1.PodSpec{
		NodeName: pod.Spec.NodeName, RestartPolicy: pod.Spec.RestartPolicy, ReadinessGates: pod.Spec.ReadinessGates,
		Containers: slimContainers(pod.Spec.Containers), InitContainers: slimContainers(pod.Spec.InitContainers),
		Volumes: claimVolumes(pod.Spec.Volumes), Overhead: pod.Spec.Overhead, Resources: pod.Spec.Resources,
		Affinity: slimAffinity(pod), ActiveDeadlineSeconds: pod.Spec.ActiveDeadlineSeconds,
		EphemeralContainers: slimEphemeral(pod.Spec.EphemeralContainers),
	}
	pod.Status = corev1.PodStatus{
		ObservedGeneration: pod.Status.ObservedGeneration, Phase: pod.Status.Phase,
		Conditions: slimConditions(pod.Status.Conditions, pod.Spec.ReadinessGates),
		Reason:     pod.Status.Reason, QOSClass: pod.Status.QOSClass, Resize: pod.Status.Resize,
		ContainerStatuses:     slimStatuses(pod.Status.ContainerStatuses, pod.Spec.Containers),
		StartTime:             pod.Status.StartTime,
		PodIP:                 pod.Status.PodIP,
		InitContainerStatuses: slimInitStatuses(pod.Status.InitContainerStatuses, pod.Spec.InitContainers),

		EphemeralContainerStatuses: slimEphemeralStatuses(pod.Status.EphemeralContainerStatuses),
	}
	return pod, nil
}

// slimEphemeral keeps the names of ephemeral containers, and which job made them. Most pods have none.
func slimEphemeral(containers []corev1.EphemeralContainer) []corev1.EphemeralContainer {
	for i := range containers {
		c := &containers[i]
		containers[i] = corev1.EphemeralContainer{
			EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: c.Name, Env: slimEnvironment(c.Env)},
		}
	}
	return containers
}

// slimEphemeralStatuses keeps how far ephemeral containers are.
func slimEphemeralStatuses(statuses []corev1.ContainerStatus) []corev1.ContainerStatus {
	for i := range statuses {
		statuses[i] = corev1.ContainerStatus{Name: statuses[i].Name, State: statuses[i].State}
	}
	return statuses
}

// slimConditions drops the conditions of a pod that starts, which nearly every pod has. Only a node that has not set
// up the pod is asked for.
func slimConditions(all []corev1.PodCondition, gates []corev1.PodReadinessGate) []corev1.PodCondition {
	return fitting(slices.DeleteFunc(all, func(c corev1.PodCondition) bool {
		starting := c.Type == corev1.PodInitialized ||
			c.Type == corev1.PodReadyToStartContainers && c.Status != corev1.ConditionFalse
		return starting && !slices.Contains(gates, corev1.PodReadinessGate{ConditionType: c.Type})
	}))
}

// slimInitStatuses keeps why init containers are not through, how often they restarted, how they ended, and what
// native sidecars run.
// Of most pods that is nothing.
func slimInitStatuses(statuses []corev1.ContainerStatus, containers []corev1.Container) []corev1.ContainerStatus {
	var kept []corev1.ContainerStatus
	for i := range statuses {
		s := &statuses[i]
		native := slices.ContainsFunc(containers, func(c corev1.Container) bool {
			return c.Name == s.Name && c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
		})
		if !native && s.RestartCount == 0 && (s.Ready || s.State.Waiting == nil) {
			continue
		}
		slim := corev1.ContainerStatus{
			Name: s.Name, Ready: s.Ready, RestartCount: s.RestartCount, State: corev1.ContainerState{Waiting: s.State.Waiting},
		}
		if !s.Ready {
			slim.LastTerminationState.Terminated = slimEnd(s.LastTerminationState.Terminated)
		}
		if native {
			slim.Image, slim.ImageID = s.Image, s.ImageID
		}
		if native && !s.Ready {
			slim.State.Running, slim.Started = s.State.Running, s.Started
		}
		kept = append(kept, slim)
	}
	return kept
}

// slimEnd keeps how a container ended, and when.
func slimEnd(end *corev1.ContainerStateTerminated) *corev1.ContainerStateTerminated {
	if end == nil {
		return nil
	}
	return &corev1.ContainerStateTerminated{ExitCode: end.ExitCode, Reason: end.Reason, StartedAt: end.StartedAt,
		FinishedAt: end.FinishedAt}
}

// slimProbe keeps that there is a probe, and when it begins.
func slimProbe(probe *corev1.Probe) *corev1.Probe {
	if probe == nil {
		return nil
	}
	return &corev1.Probe{InitialDelaySeconds: probe.InitialDelaySeconds}
}

func slimContainers(containers []corev1.Container) []corev1.Container {
	for i := range containers {
		c := &containers[i]
		containers[i] = corev1.Container{
			Name: c.Name, Image: c.Image, Resources: c.Resources, ResizePolicy: c.ResizePolicy, RestartPolicy: c.RestartPolicy,
			Env: slimEnvironment(c.Env), ImagePullPolicy: constant(c.ImagePullPolicy), Ports: namedPorts(c.Ports),
			ReadinessProbe: slimProbe(c.ReadinessProbe), StartupProbe: slimProbe(c.StartupProbe),
		}
	}
	return containers
}

// namedPorts keeps the numbers of ports with a name, which probes may give.
func namedPorts(ports []corev1.ContainerPort) []corev1.ContainerPort {
	var kept []corev1.ContainerPort
	for i := range ports {
		if ports[i].Name != "" {
			kept = append(kept, corev1.ContainerPort{Name: ports[i].Name, ContainerPort: ports[i].ContainerPort})
		}
	}
	return kept
}

// constant returns the same policy without memory of its own.
func constant(policy corev1.PullPolicy) corev1.PullPolicy {
	switch policy {
	case corev1.PullAlways:
		return corev1.PullAlways
	case corev1.PullIfNotPresent:
		return corev1.PullIfNotPresent
	case corev1.PullNever:
		return corev1.PullNever
	}
	return policy
}

// slimEnvironment keeps variables that are fed from the pod, and those that our kinds give a meaning to.
func slimEnvironment(all []corev1.EnvVar) []corev1.EnvVar {
	var kept []corev1.EnvVar
	for i := range all {
		if all[i].ValueFrom != nil && all[i].ValueFrom.FieldRef != nil || strings.HasPrefix(all[i].Name, environmentPrefix) {
			kept = append(kept, all[i])
		}
	}
	return kept
}

// claimVolumes keeps the volumes that are claims.
func claimVolumes(all []corev1.Volume) []corev1.Volume {
	var kept []corev1.Volume
	for i := range all {
		if all[i].PersistentVolumeClaim != nil {
			kept = append(kept, all[i])
		}
	}
	return kept
}

func slimStatuses(statuses []corev1.ContainerStatus, containers []corev1.Container) []corev1.ContainerStatus {
	statuses = fitting(statuses)
	for i := range statuses {
		s := &statuses[i]
		end := s.LastTerminationState.Terminated
		s.LastTerminationState = corev1.ContainerState{}
		if !s.Ready {
			s.LastTerminationState.Terminated = slimEnd(end)
		}
		s.VolumeMounts, s.User, s.AllocatedResourcesStatus = nil, nil, nil
		if at := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == s.Name }); at >= 0 {
			shareResources(s, &containers[at].Resources)
		}
	}
	return statuses
}

// shareResources keeps what a container has once where it is what the container asks for: maps of quantities are what
// takes the most memory of a slim pod.
func shareResources(s *corev1.ContainerStatus, asked *corev1.ResourceRequirements) {
	if sameAmounts(s.AllocatedResources, asked.Requests) {
		s.AllocatedResources = asked.Requests
	}
	if s.Resources == nil || len(s.Resources.Claims) > 0 {
		return
	}
	if sameAmounts(s.Resources.Requests, asked.Requests) {
		s.Resources.Requests = asked.Requests
	}
	if sameAmounts(s.Resources.Limits, asked.Limits) {
		s.Resources.Limits = asked.Limits
	}
}

// sameAmounts reports whether two lists, neither of them empty, are the same, in their way of writing too.
func sameAmounts(a, b corev1.ResourceList) bool {
	return len(a) > 0 &&
		maps.EqualFunc(a, b, func(x, y resource.Quantity) bool { return x.Format == y.Format && x.Cmp(y) == 0 })
}

// fitting returns a slice of the same content without the room that decoding left behind it.
func fitting[T any](all []T) []T {
	if len(all) == cap(all) {
		return all
	}
	return append(make([]T, 0, len(all)), all...)
}
