package placement

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// secretKind is carried only where a policy lets Secrets go to members.
const secretKind = "Secret"

// copiedKinds are the kinds of which members get copies, whoever runs Kubernetes' own workloads.
func copiedKinds() []schema.GroupVersionKind {
	core := corev1.SchemeGroupVersion
	return []schema.GroupVersionKind{
		core.WithKind("ConfigMap"), core.WithKind("PersistentVolumeClaim"), core.WithKind(secretKind), core.WithKind("Service"), core.WithKind("ServiceAccount"),
		// Who exports a Service to other clusters says so in each of them: a multi-cluster service implementation reads it there.
		{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Kind: "ServiceExport"},
	}
}

// copied returns the table of the kinds of which every selected member gets a copy, by kind. The hub keeps their metadata
// alone: what they hold is read when it is delivered.
func copied(workloads Natives) Table {
	rules, kinds := Table{}, copiedKinds()
	if workloads == MembersRunNatives {
		kinds = append(kinds, natives()...)
	}
	for _, gvk := range kinds {
		rules[gvk.GroupKind()] = Rule{
			GVK: gvk, Copied: true,
			New: func() client.Object { return metadataOf(gvk) },
			NewList: func() client.ObjectList {
				list := &metav1.PartialObjectMetadataList{}
				list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
				return list
			},
			read: func(o client.Object) (Workload, *Refusal) {
				w := newWorkload(o, gvk, new(int32(0)))
				w.Copied = true
				w.Ref.Generation = 0 // where it goes does not depend on what it holds
				return w, nil
			},
		}
	}
	return rules
}

func metadataOf(gvk schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(gvk)
	return o
}

// AllRules returns the table of all kinds that the hub places: those that it divides, and those that it copies, which Kubernetes' own
// workloads are among where members run them.
func AllRules(workloads Natives) Table {
	rules := copied(workloads)
	for kind, rule := range Rules() {
		rules[kind] = rule
	}
	return rules
}

// ClusterMade tells whether an object of a copied kind is one that every cluster makes for itself, so that a copy would be
// in its way.
func ClusterMade(kind, namespace, name string, annotations map[string]string) bool {
	switch kind {
	case "ConfigMap":
		return name == "kube-root-ca.crt"
	case "ServiceAccount":
		return name == "default"
	case "Service":
		return namespace == metav1.NamespaceDefault && name == "kubernetes"
	case secretKind:
		return annotations[corev1.ServiceAccountNameKey] != ""
	}
	return false
}

// planCopies gives every selected member a cell without replicas. A member that is selected no longer loses its copy at
// once: there is nothing to wait for.
func planCopies(f *Facts) Decision {
	spec := topology.WorkloadPlacementSpec{Workload: f.Workload.Ref, Policy: &f.Policy}
	var names []string
	for i := range f.Members {
		if m := &f.Members[i]; m.Selected {
			spec.Cells = append(spec.Cells, topology.Cell{Cluster: m.Name, Reason: topology.Reason{Code: CellCopy}})
			names = append(names, m.Name)
		}
	}
	slices.SortFunc(spec.Cells, func(a, b topology.Cell) int { return strings.Compare(a.Cluster, b.Cluster) })
	number(f, &spec, f.Last == nil)
	spec.Clusters = nameColumn(names)
	if len(names) > 0 {
		return Decision{Spec: spec}
	}
	return Decision{Spec: spec, Notes: []Note{{Reason: NoMember, Stalled: true, Message: noMember(f)}}}
}

// letsGo tells whether a policy lets objects of this kind go to members.
func letsGo(spec *topology.FederationPolicySpec, kind string) bool {
	return kind != secretKind || spec.Dependencies.Secrets == topology.SecretsCarry
}
