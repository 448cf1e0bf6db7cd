package karmada

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ClusterKind is a member of Karmada, of cluster scope.
func ClusterKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "cluster.karmada.io", Version: "v1alpha1", Kind: "Cluster"}
}

// PolicyKinds are the policies by which Karmada propagates objects: that of a namespace, and that of the whole control
// plane.
func PolicyKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{
		{Group: "policy.karmada.io", Version: "v1alpha1", Kind: "PropagationPolicy"},
		{Group: "policy.karmada.io", Version: "v1alpha1", Kind: "ClusterPropagationPolicy"},
	}
}

// Object returns an empty object of a kind, for caches and clients.
func Object(kind schema.GroupVersionKind) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	return u
}

// List returns an empty list of a kind.
func List(kind schema.GroupVersionKind) *unstructured.UnstructuredList {
	u := &unstructured.UnstructuredList{}
	u.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	return u
}

// TaintPrefix begins the keys of the taints that Karmada sets by itself.
const TaintPrefix = "cluster.karmada.io/"

// TaintUnschedulable is the key of the one of them that a person asks for, by cordoning the Cluster. The others
// (not-ready, unreachable, terminating) say what the condition Ready and the deletion say too.
const TaintUnschedulable = TaintPrefix + "unschedulable"

// ConditionReady of a Cluster: True, False, or Unknown once its agent has not renewed its Lease for Karmada's grace
// period.
const ConditionReady = "Ready"

// Cluster is a member of Karmada.
type Cluster struct {
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what Karmada was told of the member.
	Spec ClusterSpec `json:"spec,omitempty"`
	// Status is what Karmada sees of it.
	Status ClusterStatus `json:"status,omitempty"`
}

// ClusterSpec is what Karmada was told of a member.
type ClusterSpec struct {
	// ID is the uid of the member's namespace kube-system, or what its ClusterProperty says.
	ID string `json:"id,omitempty"`
	// Provider is the name of the cloud, a free text.
	Provider string `json:"provider,omitempty"`
	// Region of the member.
	Region string `json:"region,omitempty"`
	// Zone is what Zones replaced.
	Zone string `json:"zone,omitempty"`
	// Zones of the member, as a person said them.
	Zones []string `json:"zones,omitempty"`
	// Taints of the member.
	Taints []corev1.Taint `json:"taints,omitempty"`
}

// ClusterStatus is what Karmada sees of a member.
type ClusterStatus struct {
	// KubernetesVersion of the member's API server.
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// Conditions of the member; Ready is read.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// NodeSummary counts its nodes, nil where Karmada does not collect that.
	NodeSummary *NodeSummary `json:"nodeSummary,omitempty"`
	// ResourceSummary is its capacity, nil where Karmada does not collect that.
	ResourceSummary *ResourceSummary `json:"resourceSummary,omitempty"`
}

// NodeSummary counts nodes.
type NodeSummary struct {
	// TotalNum is how many there are, ReadyNum how many of them are ready.
	TotalNum int32 `json:"totalNum,omitempty"`
	ReadyNum int32 `json:"readyNum,omitempty"`
}

// ResourceSummary is the capacity of a whole cluster.
type ResourceSummary struct {
	// Allocatable is what its nodes give to pods.
	Allocatable corev1.ResourceList `json:"allocatable,omitempty"`
	// Allocating are the requests of pods that have no node yet.
	Allocating corev1.ResourceList `json:"allocating,omitempty"`
	// Allocated are the requests of pods that have one.
	Allocated corev1.ResourceList `json:"allocated,omitempty"`
}

// PropagationPolicy is a policy of either scope.
type PropagationPolicy struct {
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec of the policy.
	Spec PropagationSpec `json:"spec,omitempty"`
}

// PropagationSpec is what a policy selects.
type PropagationSpec struct {
	// ResourceSelectors select objects; one of them is enough.
	ResourceSelectors []ResourceSelector `json:"resourceSelectors,omitempty"`
}

// ResourceSelector selects objects of one kind.
type ResourceSelector struct {
	// APIVersion and Kind of the objects.
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Namespace of the objects; empty for that of the policy, or with a ClusterPropagationPolicy for every one.
	Namespace string `json:"namespace,omitempty"`
	// Name of the object; empty for all that LabelSelector selects.
	Name string `json:"name,omitempty"`
	// LabelSelector of the objects, nil for all. It does not count beside a name.
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
}
