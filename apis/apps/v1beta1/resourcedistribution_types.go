package v1beta1

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Annotations of the copies that a ResourceDistribution makes, as published.
const (
	// AnnotationDistributedFrom is the name of the ResourceDistribution.
	AnnotationDistributedFrom = "kruise.io/resourcedistribution.resource.from"
	// AnnotationDistributedHash is the SHA-256 of the resource in its spec, in hexadecimal.
	AnnotationDistributedHash = "kruise.io/resourcedistribution.resource.hashcode"
)

// LabelDistribution is on the copies that a ResourceDistribution makes: its uid. Agents watch objects with it alone.
const LabelDistribution = "apps.flotilla.dev/resource-distribution"

// ResourceDistributionSpec says what is copied, and into which namespaces.
type ResourceDistributionSpec struct {
	// resource is the Secret or ConfigMap to copy, without a namespace. Its apiVersion, kind and name cannot change later.
	// +kubebuilder:validation:EmbeddedResource
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:XValidation:rule="self.apiVersion == 'v1' && self.kind in ['Secret', 'ConfigMap']",message="resource is neither a Secret nor a ConfigMap of apiVersion v1: no other kind can be distributed",messageExpression="'resource is a %s of %s: only Secrets and ConfigMaps of apiVersion v1 can be distributed'.format([self.kind, self.apiVersion])"
	// +kubebuilder:validation:XValidation:rule="has(self.metadata.name) && self.metadata.name != ''",message="resource has no metadata.name: give the name that the copies are to have"
	// +kubebuilder:validation:XValidation:rule="self.kind == oldSelf.kind && self.metadata.name == oldSelf.metadata.name",message="kind and name of resource cannot change, because the copies made so far would stay behind: set them back, or make another ResourceDistribution"
	Resource runtime.RawExtension `json:"resource"`
	// targets are the namespaces that get a copy: those of includedNamespaces, allNamespaces and namespaceSelector
	// together, without those of excludedNamespaces. kube-system and kube-public never get one.
	Targets ResourceDistributionTargets `json:"targets"`
}

// ResourceDistributionTargets are namespaces.
type ResourceDistributionTargets struct {
	// allNamespaces selects all namespaces. Default false.
	// +optional
	AllNamespaces bool `json:"allNamespaces,omitempty"`
	// excludedNamespaces get no copy, whatever else selects them. Default: none.
	// +optional
	ExcludedNamespaces ResourceDistributionTargetNamespaces `json:"excludedNamespaces,omitempty"`
	// includedNamespaces are selected by their names. Default: none.
	// +optional
	IncludedNamespaces ResourceDistributionTargetNamespaces `json:"includedNamespaces,omitempty"`
	// namespaceSelector selects namespaces by their labels. An empty one selects none. Default: none.
	// +optional
	NamespaceSelector metav1.LabelSelector `json:"namespaceSelector,omitempty"`
}

// ResourceDistributionTargetNamespaces is a list of namespaces.
type ResourceDistributionTargetNamespaces struct {
	// list of the namespaces.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=4096
	List []ResourceDistributionNamespace `json:"list,omitempty"`
}

// ResourceDistributionNamespace names a namespace.
type ResourceDistributionNamespace struct {
	// name of the namespace.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="name is no name of a namespace (a-z, 0-9 and -): correct it",messageExpression="'name %s is no name of a namespace (a-z, 0-9 and -): correct it'.format([self])"
	Name string `json:"name"`
}

// ResourceDistributionStatus is the observed state of a ResourceDistribution.
type ResourceDistributionStatus struct {
	// observedGeneration is the generation that the controller acted on last.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// desired is how many namespaces are to have a copy, with those that are named and do not exist.
	// +optional
	Desired int32 `json:"desired"`
	// succeeded is how many of them have one that is as spec.resource.
	// +optional
	Succeeded int32 `json:"succeeded"`
	// failed is how many of them have none, or one that is not as spec.resource.
	// +optional
	Failed int32 `json:"failed"`
	// conditions are first the six published ones, in a fixed order: GetResourceFailed, CreateResourceFailed,
	// UpdateResourceFailed, DeleteResourceFailed, ConflictOccurred and NamespaceNotExists. They are followed by Ready,
	// Reconciling and Stalled.
	// +optional
	// +listType=atomic
	Conditions []ResourceDistributionCondition `json:"conditions,omitempty"`
}

// ResourceDistributionConditionType names a condition of a ResourceDistribution.
type ResourceDistributionConditionType string

// The published conditions of a ResourceDistribution, in the order that they have in its status. Each is True while
// something of its kind fails.
const (
	ResourceDistributionGetResourceFailed    ResourceDistributionConditionType = "GetResourceFailed"
	ResourceDistributionCreateResourceFailed ResourceDistributionConditionType = "CreateResourceFailed"
	ResourceDistributionUpdateResourceFailed ResourceDistributionConditionType = "UpdateResourceFailed"
	ResourceDistributionDeleteResourceFailed ResourceDistributionConditionType = "DeleteResourceFailed"
	// ResourceDistributionConflictOccurred: a namespace has an object of this name that is not ours. It stays as it is.
	ResourceDistributionConflictOccurred   ResourceDistributionConditionType = "ConflictOccurred"
	ResourceDistributionNamespaceNotExists ResourceDistributionConditionType = "NamespaceNotExists"
)

// ResourceDistributionConditions returns the published conditions in their order, which is part of the contract.
func ResourceDistributionConditions() []ResourceDistributionConditionType {
	return []ResourceDistributionConditionType{
		ResourceDistributionGetResourceFailed, ResourceDistributionCreateResourceFailed,
		ResourceDistributionUpdateResourceFailed, ResourceDistributionDeleteResourceFailed,
		ResourceDistributionConflictOccurred, ResourceDistributionNamespaceNotExists,
	}
}

// ReasonResourceDistributionSucceeded is the published reason of these conditions where nothing fails.
const ReasonResourceDistributionSucceeded = "Succeeded"

// MostFailedNamespaces is how many namespaces a condition names at most.
const MostFailedNamespaces = 1000

// KeepTransitions returns the conditions that are to be, each with the transition time that it has in have while its
// status is the same; others changed now.
func KeepTransitions(have, want []ResourceDistributionCondition, now time.Time) []ResourceDistributionCondition {
	before := map[ResourceDistributionConditionType]ResourceDistributionCondition{}
	for _, c := range have {
		before[c.Type] = c
	}
	out := slices.Clone(want)
	for i := range out {
		c := &out[i]
		c.LastTransitionTime = metav1.NewTime(now)
		if had, ok := before[c.Type]; ok && had.Status == c.Status {
			c.LastTransitionTime = had.LastTransitionTime
		}
	}
	return out
}

// ResourceDistributionCondition is a condition of a ResourceDistribution.
type ResourceDistributionCondition struct {
	// type of the condition.
	Type ResourceDistributionConditionType `json:"type"`
	// status is True, False or Unknown.
	Status metav1.ConditionStatus `json:"status"`
	// lastTransitionTime is when status changed last.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`
	// reason is a stable word in CamelCase for programs.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message is a sentence for people.
	// +optional
	Message string `json:"message,omitempty"`
	// failedNamespaces are the namespaces that the condition is about, at most 1000 of them, sorted.
	// +optional
	// +listType=atomic
	FailedNamespaces []string `json:"failedNamespaces,omitempty"`
}

// ResourceDistribution keeps a copy of one Secret or ConfigMap in several namespaces.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=distributor
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="TOTAL",type=integer,JSONPath=`.status.desired`,description="namespaces that are to have a copy"
// +kubebuilder:printcolumn:name="SUCCEED",type=integer,JSONPath=`.status.succeeded`,description="namespaces that have it"
// +kubebuilder:printcolumn:name="FAILED",type=integer,JSONPath=`.status.failed`,description="namespaces that do not have it"
type ResourceDistribution struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	Spec ResourceDistributionSpec `json:"spec"`
	// status is the observed state.
	// +optional
	Status ResourceDistributionStatus `json:"status,omitempty"`
}

// ResourceDistributionList is a list of ResourceDistributions.
// +kubebuilder:object:root=true
type ResourceDistributionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ResourceDistribution `json:"items"`
}
