// Package defaults owns the question "which values do absent fields of a container or a volume have". It is pure.
//
// There are two answers. [Container] and [Volume] are what an API server makes of them in a pod. [Sidecar] is what an
// OpenKruise manager wrote into a SidecarSet before it computed its hashes, which is less: startup probes, gRPC
// services and file keys stay as they are.
package defaults

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// Container sets what an API server sets in a container of a pod by itself.
func Container(c *corev1.Container) {
	published(c)
	set(&c.StartupProbe, probe)
	for _, p := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		if p != nil && p.GRPC != nil && p.GRPC.Service == nil {
			p.GRPC.Service = new("")
		}
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil && from.FileKeyRef != nil && from.FileKeyRef.Optional == nil {
			from.FileKeyRef.Optional = new(false)
		}
	}
}

// Sidecar sets what an OpenKruise manager sets in a container of a SidecarSet. place is the default of its
// podInjectPolicy: BeforeAppContainer for containers, AfterAppContainer for init containers.
func Sidecar(c *v1beta1.SidecarContainer, place v1beta1.PodInjectPolicyType) {
	text(&c.PodInjectPolicy, place)
	text(&c.UpgradeStrategy.UpgradeType, v1beta1.SidecarContainerColdUpgrade)
	text(&c.ShareVolumePolicy.Type, v1beta1.ShareVolumePolicyDisabled)
	for i := range c.TransferEnv {
		if from := c.TransferEnv[i].SourceContainerNameFrom; from != nil && from.FieldRef != nil {
			text(&from.FieldRef.APIVersion, "v1")
		}
	}
	published(&c.Container)
}

// published sets what both set.
func published(c *corev1.Container) {
	text(&c.ImagePullPolicy, pullPolicy(c.Image))
	text(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	text(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	for i := range c.Ports {
		text(&c.Ports[i].Protocol, corev1.ProtocolTCP)
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil {
			set(&from.FieldRef, fieldRef)
		}
	}
	amounts(c.Resources.Limits)
	amounts(c.Resources.Requests)
	set(&c.LivenessProbe, probe)
	set(&c.ReadinessProbe, probe)
	if c.Lifecycle != nil {
		set(&c.Lifecycle.PostStart, func(h *corev1.LifecycleHandler) { set(&h.HTTPGet, httpGet) })
		set(&c.Lifecycle.PreStop, func(h *corev1.LifecycleHandler) { set(&h.HTTPGet, httpGet) })
	}
}

func probe(p *corev1.Probe) {
	number(&p.TimeoutSeconds, 1)
	number(&p.PeriodSeconds, 10)
	number(&p.SuccessThreshold, 1)
	number(&p.FailureThreshold, 3)
	set(&p.HTTPGet, httpGet)
}

func httpGet(h *corev1.HTTPGetAction) {
	text(&h.Path, "/")
	text(&h.Scheme, corev1.URISchemeHTTP)
}

func fieldRef(f *corev1.ObjectFieldSelector) { text(&f.APIVersion, "v1") }

// amounts rounds up what is less than a thousandth.
func amounts(list corev1.ResourceList) {
	for name, quantity := range list {
		quantity.RoundUp(-3)
		list[name] = quantity
	}
}

// set applies f to what the field points to, if anything.
func set[T any](field **T, f func(*T)) {
	if *field != nil {
		f(*field)
	}
}

// value points the field to the default if it points to nothing.
func value[T any](field **T, to T) {
	if *field == nil {
		*field = &to
	}
}

func text[T ~string](field *T, to T) {
	if *field == "" {
		*field = to
	}
}

func number[T ~int32](field *T, to T) {
	if *field == 0 {
		*field = to
	}
}
