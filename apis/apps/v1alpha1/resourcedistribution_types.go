package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// ResourceDistributionSpec says what is copied, and into which namespaces.
type ResourceDistributionSpec struct {
	// resource is the Secret or ConfigMap to copy, without a namespace. Its apiVersion, kind and name cannot change later.
	// +kubebuilder:validation:EmbeddedResource
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:XValidation:rule="self.apiVersion == 'v1' && self.kind in ['Secret', 'ConfigMap']",message="resource is neither a Secret nor a ConfigMap of apiVersion v1: no other kind can be distributed",messageExpression="'resource is a %s of %s: only Secrets and ConfigMaps of apiVersion v1 can be distributed'.format([self.kind, self.apiVersion])"
	// +kubebuilder:validation:XValidation:rule="has(self.metadata.name) && self.metadata.name != ''",message="resource has no metadata.name: give the name that the copies are to have"
	// +kubebuilder:validation:XValidation:rule="self.kind == oldSelf.kind && self.metadata.name == oldSelf.metadata.name",message="kind and name of resource cannot change, because the copies made so far would stay behind: set them back, or make another ResourceDistribution"
	Resource runtime.RawExtension `json:"resource"`
	// targets are the namespaces that get a copy: those of includedNamespaces, allNamespaces and namespaceLabelSelector
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
	ExcludedNamespaces v1beta1.ResourceDistributionTargetNamespaces `json:"excludedNamespaces,omitempty"`
	// includedNamespaces are selected by their names. Default: none.
	// +optional
	IncludedNamespaces v1beta1.ResourceDistributionTargetNamespaces `json:"includedNamespaces,omitempty"`
	// namespaceLabelSelector selects namespaces by their labels. An empty one selects none. Default: none.
	// +optional
	NamespaceLabelSelector metav1.LabelSelector `json:"namespaceLabelSelector,omitempty"`
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

// ResourceDistributionCondition is a condition of a ResourceDistribution.
type ResourceDistributionCondition struct {
	// type of the condition.
	Type v1beta1.ResourceDistributionConditionType `json:"type"`
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
	// failedNamespace are the namespaces that the condition is about, at most 1000 of them, sorted.
	// +optional
	// +listType=atomic
	FailedNamespaces []string `json:"failedNamespace,omitempty"`
}

// ResourceDistribution keeps a copy of one Secret or ConfigMap in several namespaces.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=distributor
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
