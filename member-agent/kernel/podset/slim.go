package podset

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// environmentPrefix begins the names of the variables that our kinds give a meaning to, such as KRUISE_CONTAINER_PRIORITY.
const environmentPrefix = "KRUISE_"

// Slim is the cache's transform of pods: it keeps what controllers of this agent read, and drops the rest, which is most of
// a pod. It changes the object that it is given. Pods from the cache must therefore never be sent to the API server as a
// whole; they are only patched. Objects of other types lose their managedFields.
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
	}
	pod.Status = corev1.PodStatus{
		ObservedGeneration: pod.Status.ObservedGeneration, Phase: pod.Status.Phase, Conditions: pod.Status.Conditions,
		Reason: pod.Status.Reason, QOSClass: pod.Status.QOSClass, Resize: pod.Status.Resize,
		ContainerStatuses: slimStatuses(pod.Status.ContainerStatuses),
	}
	return pod, nil
}

func slimContainers(containers []corev1.Container) []corev1.Container {
	for i := range containers {
		c := &containers[i]
		containers[i] = corev1.Container{
			Name: c.Name, Image: c.Image, Resources: c.Resources, ResizePolicy: c.ResizePolicy, RestartPolicy: c.RestartPolicy,
			Env: slimEnvironment(c.Env),
		}
	}
	return containers
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

func slimStatuses(statuses []corev1.ContainerStatus) []corev1.ContainerStatus {
	for i := range statuses {
		s := &statuses[i]
		s.LastTerminationState = corev1.ContainerState{}
		s.VolumeMounts, s.User, s.AllocatedResourcesStatus = nil, nil, nil
	}
	return statuses
}
