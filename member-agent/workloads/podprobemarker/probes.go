package podprobemarker

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
)

// nameOf returns the name of a probe in NodePodProbes.
func nameOf(marker, probe string) string { return marker + "#" + probe }

// markerOf returns the name of the marker in the name of a probe. Names of markers have no #.
func markerOf(probe string) string {
	marker, _, _ := strings.Cut(probe, "#")
	return marker
}

// selects reports whether the marker selects the pod by its labels. One that is being deleted selects none.
func selects(marker *v1alpha1.PodProbeMarker, podLabels map[string]string) bool {
	if marker.DeletionTimestamp != nil {
		return false
	}
	selector, err := metav1.LabelSelectorAsSelector(marker.Spec.Selector)
	return err == nil && !selector.Empty() && selector.Matches(labels.Set(podLabels))
}

// sortByAge sorts markers: the older one holds where two want the same.
func sortByAge(markers []*v1alpha1.PodProbeMarker) {
	slices.SortFunc(markers, func(a, b *v1alpha1.PodProbeMarker) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
}

// probed reports whether a pod can be probed: it is active, has a node, and its init containers are through.
func probed(pod *corev1.Pod) bool {
	if !podstate.Active(pod) || pod.Spec.NodeName == "" || len(pod.Status.ContainerStatuses) == 0 {
		return false
	}
	return !slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.State.Waiting != nil && s.State.Waiting.Reason == "PodInitializing"
	})
}

// mostProbes is how many probes of a pod a NodePodProbe takes. One more, and the API server would refuse the whole
// node.
const mostProbes = 256

// specOf returns the pods of a node that are probed, sorted. markers are those of the pods' namespaces, the oldest
// first. cut are those that have probes beyond the limit of a pod, which are left out.
func specOf(
	pods []*corev1.Pod, markers map[string][]*v1alpha1.PodProbeMarker,
) (out []v1alpha1.PodProbe, cut []types.NamespacedName) {
	for _, pod := range pods {
		if !probed(pod) {
			continue
		}
		entry := v1alpha1.PodProbe{Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID, IP: pod.Status.PodIP}
		for _, marker := range markers[pod.Namespace] {
			if !selects(marker, pod.Labels) {
				continue
			}
			probes, _ := probesOf(marker, pod)
			if room := mostProbes - len(entry.Probes); len(probes) > room {
				probes, cut = probes[:room], append(cut, client.ObjectKeyFromObject(marker))
			}
			entry.Probes = append(entry.Probes, probes...)
		}
		if len(entry.Probes) == 0 {
			continue
		}
		slices.SortFunc(entry.Probes,
			func(a, b v1alpha1.ContainerProbe) int { return strings.Compare(a.Name, b.Name) })
		out = append(out, entry)
	}
	slices.SortFunc(out, func(a, b v1alpha1.PodProbe) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name),
			cmp.Compare(a.UID, b.UID))
	})
	return out, cut
}

// probesOf returns the probes of a marker for a pod, with ports as numbers. portless are the names of ports that the
// container does not have: their probes are left out.
func probesOf(marker *v1alpha1.PodProbeMarker, pod *corev1.Pod) (out []v1alpha1.ContainerProbe, portless []string) {
	for i := range marker.Spec.Probes {
		probe := &marker.Spec.Probes[i]
		container := containerOf(pod, probe.ContainerName)
		if container == nil {
			continue
		}
		spec, missing := withNumbers(probe.Probe, container)
		if missing != "" {
			portless = append(portless, missing)
			continue
		}
		out = append(out, v1alpha1.ContainerProbe{Name: nameOf(marker.Name, probe.Name),
			ContainerName: probe.ContainerName, Probe: spec})
	}
	return out, portless
}

// containerOf returns the container of a pod that runs as long as the pod: also a native sidecar.
func containerOf(pod *corev1.Pod, name string) *corev1.Container {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == name {
			return &pod.Spec.Containers[i]
		}
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if c.Name == name && c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			return c
		}
	}
	return nil
}

// withNumbers returns the probe with the number of a port that it names, or the name if the container has no such port.
func withNumbers(
	probe v1alpha1.ContainerProbeSpec, container *corev1.Container,
) (out v1alpha1.ContainerProbeSpec, missing string) {
	out = *probe.DeepCopy()
	var port *intstr.IntOrString
	switch {
	case out.HTTPGet != nil:
		port = &out.HTTPGet.Port
	case out.TCPSocket != nil:
		port = &out.TCPSocket.Port
	}
	if port == nil || port.Type == intstr.Int {
		return out, ""
	}
	for _, p := range container.Ports {
		if p.Name == port.StrVal {
			*port = intstr.FromInt32(p.ContainerPort)
			return out, ""
		}
	}
	return out, port.StrVal
}
