package kinds

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// Need is an object of the namespace that a pod template names.
type Need struct {
	topology.DependencyReference
	// Optional: the pods start without it.
	Optional bool
}

// NeedsOf returns the objects of its namespace that a pod template names, sorted, each object once. patches are JSON
// texts in the shape of a template; the objects that they name are needed too. Objects that every cluster creates
// itself are left out.
func NeedsOf(template *corev1.PodTemplateSpec, patches ...[]byte) []Need {
	c := collector{}
	c.pod(&template.Spec)
	for _, patch := range patches {
		var part corev1.PodTemplateSpec
		if json.NewDecoder(bytes.NewReader(patch)).Decode(&part) == nil {
			c.pod(&part.Spec)
		}
	}
	needs := make([]Need, 0, len(c))
	for ref, optional := range c {
		needs = append(needs, Need{ref, optional})
	}
	slices.SortFunc(needs, func(a, b Need) int { return CompareRefs(a.DependencyReference, b.DependencyReference) })
	return needs
}

// CompareRefs orders references by kind and name.
func CompareRefs(a, b topology.DependencyReference) int {
	return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
}

// collector gathers references. The value reports whether the reference is optional wherever it occurs.
type collector map[topology.DependencyReference]bool

func (c collector) add(kind, name string, optional *bool) {
	if name == "" || ClusterMade(kind, "", name, nil) {
		return
	}
	ref := topology.DependencyReference{Kind: kind, Name: name}
	before, named := c[ref]
	c[ref] = optional != nil && *optional && (before || !named)
}

func (c collector) pod(spec *corev1.PodSpec) {
	c.add("ServiceAccount", cmp.Or(spec.ServiceAccountName, spec.DeprecatedServiceAccount), nil)
	for i := range spec.ImagePullSecrets {
		c.add(SecretKind, spec.ImagePullSecrets[i].Name, nil)
	}
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			c.container(&list[i])
		}
	}
	for i := range spec.Volumes {
		c.volume(&spec.Volumes[i].VolumeSource)
	}
}

func (c collector) container(container *corev1.Container) {
	for i := range container.EnvFrom {
		if ref := container.EnvFrom[i].ConfigMapRef; ref != nil {
			c.add("ConfigMap", ref.Name, ref.Optional)
		}
		if ref := container.EnvFrom[i].SecretRef; ref != nil {
			c.add(SecretKind, ref.Name, ref.Optional)
		}
	}
	for i := range container.Env {
		from := container.Env[i].ValueFrom
		if from == nil {
			continue
		}
		if ref := from.ConfigMapKeyRef; ref != nil {
			c.add("ConfigMap", ref.Name, ref.Optional)
		}
		if ref := from.SecretKeyRef; ref != nil {
			c.add(SecretKind, ref.Name, ref.Optional)
		}
	}
}

func (c collector) volume(v *corev1.VolumeSource) {
	if v.ConfigMap != nil {
		c.add("ConfigMap", v.ConfigMap.Name, v.ConfigMap.Optional)
	}
	if v.Secret != nil {
		c.add(SecretKind, v.Secret.SecretName, v.Secret.Optional)
	}
	if v.PersistentVolumeClaim != nil {
		c.add("PersistentVolumeClaim", v.PersistentVolumeClaim.ClaimName, nil)
	}
	if v.Projected != nil {
		for i := range v.Projected.Sources {
			if ref := v.Projected.Sources[i].ConfigMap; ref != nil {
				c.add("ConfigMap", ref.Name, ref.Optional)
			}
			if ref := v.Projected.Sources[i].Secret; ref != nil {
				c.add(SecretKind, ref.Name, ref.Optional)
			}
		}
	}
	c.storage(v)
}

// storage takes the Secrets by which volumes are reached.
func (c collector) storage(v *corev1.VolumeSource) {
	local := func(ref *corev1.LocalObjectReference) {
		if ref != nil {
			c.add(SecretKind, ref.Name, nil)
		}
	}
	switch {
	case v.CSI != nil:
		local(v.CSI.NodePublishSecretRef)
	case v.AzureFile != nil:
		c.add(SecretKind, v.AzureFile.SecretName, nil)
	case v.CephFS != nil:
		local(v.CephFS.SecretRef)
	case v.Cinder != nil:
		local(v.Cinder.SecretRef)
	case v.FlexVolume != nil:
		local(v.FlexVolume.SecretRef)
	case v.ISCSI != nil:
		local(v.ISCSI.SecretRef)
	case v.RBD != nil:
		local(v.RBD.SecretRef)
	case v.ScaleIO != nil:
		local(v.ScaleIO.SecretRef)
	case v.StorageOS != nil:
		local(v.StorageOS.SecretRef)
	}
}
