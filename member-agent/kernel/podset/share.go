package podset

import (
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// mostShared bounds how many different texts, and how many maps, are remembered. Beyond it they are forgotten: pods
// keep what they have, and later ones share among themselves.
const mostShared = 4096

// shared remembers parts that many pods have in common. It is safe for concurrent use.
type shared struct {
	mu      sync.Mutex
	texts   map[string]string
	labels  map[string]map[string]string
	amounts map[string]corev1.ResourceList
	probes  map[int32]*corev1.Probe // by the seconds before they begin
}

// NewSlim returns Slim for a cache, whose pods share equal labels, resources, probes and names: most pods are replicas
// of others, and a map of their labels takes more memory than the labels.
func NewSlim() func(any) (any, error) {
	s := &shared{texts: map[string]string{}, labels: map[string]map[string]string{},
		amounts: map[string]corev1.ResourceList{}, probes: map[int32]*corev1.Probe{}}
	return func(obj any) (any, error) {
		out, err := Slim(obj)
		if pod, ok := out.(*corev1.Pod); ok && err == nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.share(pod)
		}
		return out, err
	}
}

// share replaces the parts of a slim pod by equal ones.
func (s *shared) share(pod *corev1.Pod) {
	pod.Labels = s.sameLabels(pod.Labels)
	text(s, &pod.Namespace, &pod.GenerateName, &pod.Spec.NodeName, &pod.Status.Reason)
	text(s, &pod.Spec.RestartPolicy)
	text(s, &pod.Status.Phase)
	text(s, &pod.Status.QOSClass)
	for i := range pod.OwnerReferences {
		owner := &pod.OwnerReferences[i]
		text(s, &owner.APIVersion, &owner.Kind, &owner.Name)
		text[types.UID](s, &owner.UID)
	}
	for i := range pod.Spec.ReadinessGates {
		text(s, &pod.Spec.ReadinessGates[i].ConditionType)
	}
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		text(s, &c.Type)
		text(s, &c.Status)
		text(s, &c.Reason)
	}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			c := &containers[i]
			text(s, &c.Name, &c.Image)
			s.resources(&c.Resources)
			c.ReadinessProbe, c.StartupProbe = s.sameProbe(c.ReadinessProbe), s.sameProbe(c.StartupProbe)
			for j := range c.Env {
				text(s, &c.Env[j].Name, &c.Env[j].Value)
			}
		}
	}
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			c := &statuses[i]
			text(s, &c.Name, &c.Image, &c.ImageID)
			if end := c.LastTerminationState.Terminated; end != nil {
				text(s, &end.Reason)
			}
			c.AllocatedResources = s.sameAmounts(c.AllocatedResources)
			if c.Resources != nil {
				s.resources(c.Resources)
			}
		}
	}
}

func (s *shared) resources(r *corev1.ResourceRequirements) {
	r.Requests, r.Limits = s.sameAmounts(r.Requests), s.sameAmounts(r.Limits)
}

// text replaces texts by equal ones.
func text[T ~string](s *shared, all ...*T) {
	for _, t := range all {
		have, ok := s.texts[string(*t)]
		if !ok {
			have = string(*t)
			if len(s.texts) >= mostShared {
				clear(s.texts)
			}
			s.texts[have] = have
		}
		*t = T(have)
	}
}

func (s *shared) sameLabels(labels map[string]string) map[string]string {
	if len(labels) == 0 {
		return labels
	}
	var key strings.Builder
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		key.WriteString(name + "=" + labels[name] + ",") // no label has these characters
	}
	return same(s.labels, key.String(), labels)
}

func (s *shared) sameAmounts(amounts corev1.ResourceList) corev1.ResourceList {
	if len(amounts) == 0 {
		return amounts
	}
	var key strings.Builder
	for _, name := range slices.Sorted(maps.Keys(amounts)) {
		amount := amounts[name]
		key.WriteString(string(name) + "=" + amount.String() + ",")
	}
	return same(s.amounts, key.String(), amounts)
}

func (s *shared) sameProbe(probe *corev1.Probe) *corev1.Probe {
	if probe == nil {
		return nil
	}
	return same(s.probes, probe.InitialDelaySeconds, probe)
}

// same returns what is remembered under the key, and remembers value if that is nothing.
func same[K comparable, V any](all map[K]V, key K, value V) V {
	have, ok := all[key]
	if !ok {
		if len(all) >= mostShared {
			clear(all)
		}
		all[key], have = value, value
	}
	return have
}
