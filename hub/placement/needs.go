package placement

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
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

// NeedsOf returns what a pod template names of its namespace, sorted, each object once. patches are JSON texts of the shape
// of a template that change it in places; what they name is needed too. Objects that every cluster makes for itself are left
// out.
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
	slices.SortFunc(needs, func(a, b Need) int { return compareRefs(a.DependencyReference, b.DependencyReference) })
	return needs
}

func compareRefs(a, b topology.DependencyReference) int {
	return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
}

// collector gathers references; the value tells whether all that name the object can do without it.
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
		c.add(secretKind, spec.ImagePullSecrets[i].Name, nil)
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
			c.add(secretKind, ref.Name, ref.Optional)
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
			c.add(secretKind, ref.Name, ref.Optional)
		}
	}
}

func (c collector) volume(v *corev1.VolumeSource) {
	if v.ConfigMap != nil {
		c.add("ConfigMap", v.ConfigMap.Name, v.ConfigMap.Optional)
	}
	if v.Secret != nil {
		c.add(secretKind, v.Secret.SecretName, v.Secret.Optional)
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
				c.add(secretKind, ref.Name, ref.Optional)
			}
		}
	}
	c.storage(v)
}

// storage takes the Secrets by which volumes are reached.
func (c collector) storage(v *corev1.VolumeSource) {
	local := func(ref *corev1.LocalObjectReference) {
		if ref != nil {
			c.add(secretKind, ref.Name, nil)
		}
	}
	switch {
	case v.CSI != nil:
		local(v.CSI.NodePublishSecretRef)
	case v.AzureFile != nil:
		c.add(secretKind, v.AzureFile.SecretName, nil)
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

// dependencies returns what goes with the workload under a policy, sorted, and what there is to say about it. absent tells
// which objects do not exist on the hub.
func dependencies(f *Facts) ([]topology.Dependency, []Note) {
	policy := f.Dependencies
	var wanted []Need
	if policy.Mode != topology.DependenciesNone {
		wanted = slices.Clone(f.Workload.Needs)
	}
	for _, ref := range policy.Extra {
		if !slices.ContainsFunc(wanted, func(n Need) bool { return n.DependencyReference == ref }) && !ClusterMade(ref.Kind, "", ref.Name, nil) {
			wanted = append(wanted, Need{DependencyReference: ref})
		}
	}
	slices.SortFunc(wanted, func(a, b Need) int { return compareRefs(a.DependencyReference, b.DependencyReference) })
	var carried []topology.Dependency
	var missing, secrets, tokens []string
	for _, n := range wanted {
		switch {
		case n.Kind == secretKind && policy.Secrets != topology.SecretsCarry:
			if !n.Optional {
				secrets = append(secrets, n.Name)
			}
			continue
		case f.Local[n.DependencyReference]:
			if !n.Optional {
				tokens = append(tokens, n.Name)
			}
			continue
		case f.Absent[n.DependencyReference] && !n.Optional:
			missing = append(missing, n.Kind+" "+n.Name)
		}
		carried = append(carried, topology.Dependency{DependencyReference: n.DependencyReference, Missing: f.Absent[n.DependencyReference]})
	}
	var notes []Note
	if len(missing) > 0 {
		notes = append(notes, Note{Reason: DependencyMissing, Message: fmt.Sprintf(
			"%s does not exist in namespace %s of the hub, and %s needs it; create it there, or in each member", listed(missing), f.Workload.Key.Namespace, f.Workload.Key.Sentence())})
	}
	if len(secrets) > 0 {
		notes = append(notes, Note{Reason: topology.PolicySecretsNotCarried, Message: fmt.Sprintf(
			"%s names Secret %s, and Secrets stay on the hub; set spec.dependencies.secrets: Carry in %s %s, or make it in each member",
			f.Workload.Key.Sentence(), listed(secrets), f.Policy.Kind, f.Policy.Name)})
	}
	if len(tokens) > 0 {
		notes = append(notes, Note{Reason: topology.PolicySecretsNotCarried, Message: fmt.Sprintf(
			"%s names Secret %s, the token of a ServiceAccount of the hub, which is worth nothing in a member and stays; make one of that name in each member",
			f.Workload.Key.Sentence(), listed(tokens))})
	}
	if over := len(carried) - topology.MaxDependencies; over > 0 {
		carried = carried[:topology.MaxDependencies]
		notes = append(notes, Note{Reason: TooManyDependencies, Stalled: true, Message: fmt.Sprintf(
			"%s names %d objects, and at most %d go with a workload; the last %d by kind and name do not: make them in each member, or put several into one",
			f.Workload.Key.Sentence(), topology.MaxDependencies+over, topology.MaxDependencies, over)})
	}
	return carried, notes
}

// listed joins names for a sentence; of many the first are named.
func listed(names []string) string {
	if more := len(names) - clustersInColumn; more > 0 {
		names = append(slices.Clone(names[:clustersInColumn]), fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}
