package kinds

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// SecretKind is carried only where a policy lets Secrets go to members.
const SecretKind = "Secret"

// copiedKinds are the kinds of which members get copies, whoever runs Kubernetes' own workloads.
func copiedKinds() []schema.GroupVersionKind {
	core := corev1.SchemeGroupVersion
	return []schema.GroupVersionKind{
		core.WithKind("ConfigMap"), core.WithKind(claimKind), core.WithKind(SecretKind), core.WithKind("Service"),
		core.WithKind("ServiceAccount"),
		// Who exports a Service to other clusters says so in each of them: a multi-cluster service implementation
		// reads it there.
		{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Kind: "ServiceExport"},
	}
}

// copied returns the table of the kinds of which every selected member gets a copy, by kind. The hub keeps their
// metadata alone: what they hold is read when it is delivered.
func copied(workloads BuiltIns) Table {
	table, kinds := Table{}, copiedKinds()
	if workloads == MembersRunBuiltIns {
		kinds = append(kinds, builtIns()...)
	}
	for _, gvk := range kinds {
		table[gvk.GroupKind()] = Kind{
			GVK: gvk, Mode: Copy,
			New: func() Object { return metadataOf(gvk) },
			NewList: func() ObjectList {
				list := &metav1.PartialObjectMetadataList{}
				list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
				return list
			},
			Read: func(o Object) (Workload, *Rejection) {
				w := NewWorkload(o, gvk, new(int32(0)))
				w.Ref.Generation = 0 // where it goes does not depend on its content
				return w, nil
			},
			Strip: stripOf(gvk.GroupKind()),
		}
	}
	return table
}

// stripOf returns what is removed from copies of a kind, nil for nothing.
func stripOf(kind schema.GroupKind) func(object *unstructured.Unstructured, labels, annotations map[string]string) {
	switch {
	case IsBuiltIn(kind):
		return stripBuiltIn
	case kind.Kind == "Service":
		return stripService
	case kind.Kind == "ServiceAccount":
		return stripServiceAccount
	case kind.Kind == claimKind:
		return stripClaim
	}
	return nil
}

// claimKind holds data of users: a claim is created in members, and never changed or deleted there.
const claimKind = "PersistentVolumeClaim"

// HoldsData reports whether objects of a kind hold data of users, so that they are created in members and never
// changed or deleted there.
func HoldsData(kind schema.GroupKind) bool { return kind == schema.GroupKind{Kind: claimKind} }

func stripServiceAccount(account *unstructured.Unstructured, _, _ map[string]string) {
	unstructured.RemoveNestedField(account.Object, "secrets") // tokens of the hub
}

func stripClaim(claim *unstructured.Unstructured, _, annotations map[string]string) {
	unstructured.RemoveNestedField(claim.Object, "spec", "volumeName")
	maps.DeleteFunc(annotations, func(key, _ string) bool {
		return strings.HasPrefix(key, "pv.kubernetes.io/") || strings.HasPrefix(key, "volume.kubernetes.io/") ||
			strings.HasPrefix(key, "volume.beta.kubernetes.io/")
	})
}

func metadataOf(gvk schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(gvk)
	return o
}

// ClusterMade reports whether every cluster creates this object of a copied kind itself, so that a copy would conflict
// with it.
func ClusterMade(kind, namespace, name string, annotations map[string]string) bool {
	switch kind {
	case "ConfigMap":
		return name == "kube-root-ca.crt"
	case "ServiceAccount":
		return name == "default"
	case "Service":
		return namespace == metav1.NamespaceDefault && name == "kubernetes"
	case SecretKind:
		return annotations[corev1.ServiceAccountNameKey] != ""
	}
	return false
}

// LetsGo reports whether a policy allows objects of this kind in members.
func LetsGo(spec *topology.FederationPolicySpec, kind string) bool {
	return kind != SecretKind || spec.Dependencies.Secrets == topology.SecretsCarry
}

// stripService takes out the addresses and ports that the hub's cluster gave, and the address families, which are
// those of its network. A headless Service stays headless.
func stripService(service *unstructured.Unstructured, _, _ map[string]string) {
	if ip, _, _ := unstructured.NestedString(service.Object, "spec", "clusterIP"); ip != corev1.ClusterIPNone {
		unstructured.RemoveNestedField(service.Object, "spec", "clusterIP")
	}
	for _, field := range []string{"clusterIPs", "healthCheckNodePort", "ipFamilies"} {
		unstructured.RemoveNestedField(service.Object, "spec", field)
	}
	if policy, _, _ := unstructured.NestedString(service.Object, "spec", "ipFamilyPolicy"); policy == string(
		corev1.IPFamilyPolicySingleStack,
	) {
		unstructured.RemoveNestedField(service.Object, "spec", "ipFamilyPolicy")
	}
	ports, _, _ := unstructured.NestedSlice(service.Object, "spec", "ports")
	for _, port := range ports {
		if p, ok := port.(map[string]any); ok {
			delete(p, "nodePort")
		}
	}
	if len(ports) > 0 {
		// A list of the same shape can always be set.
		_ = unstructured.SetNestedSlice(service.Object, ports, "spec", "ports")
	}
}
