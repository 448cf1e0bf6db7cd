package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// PersistentPodStateSpec says what is kept of the pods of a workload.
// +kubebuilder:validation:XValidation:rule="has(self.requiredPersistentTopology) || has(self.preferredPersistentTopology) && size(self.preferredPersistentTopology) > 0 || has(self.persistentPodAnnotations) && size(self.persistentPodAnnotations) > 0",message="nothing is kept: give requiredPersistentTopology, preferredPersistentTopology or persistentPodAnnotations"
type PersistentPodStateSpec struct {
	// targetRef is the workload. It cannot change.
	TargetReference v1beta1.PersistentPodStateTarget `json:"targetRef"`
	// persistentPodAnnotations are annotations that a pod gets back. Default: none.
	// +optional
	// +listType=map
	// +listMapKey=key
	// +kubebuilder:validation:MaxItems=32
	PersistentPodAnnotations []v1beta1.PersistentPodAnnotation `json:"persistentPodAnnotations,omitempty"`
	// requiredPersistentTopology are node labels whose values a pod needs again: it starts only on nodes that have them.
	// Default: none.
	// +optional
	RequiredPersistentTopology *NodeTopologyTerm `json:"requiredPersistentTopology,omitempty"`
	// preferredPersistentTopology are node labels whose values a pod prefers. Default: none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	PreferredPersistentTopology []PreferredTopologyTerm `json:"preferredPersistentTopology,omitempty"`
	// persistentPodStateRetentionPolicy is how long the record of a pod is kept: WhenScaled, until the workload is scaled
	// in below it; WhenDeleted, until the workload is deleted. Default: WhenScaled.
	// +optional
	PersistentPodStateRetentionPolicy v1beta1.PersistentPodStateRetentionPolicy `json:"persistentPodStateRetentionPolicy,omitempty"`
	// flotilla is what Flotilla adds. Default: none. OpenKruise ignores it.
	// +optional
	Flotilla *v1beta1.PersistentPodStateFlotilla `json:"flotilla,omitempty"`
}

// NodeTopologyTerm are keys of labels of nodes.
type NodeTopologyTerm struct {
	// nodeTopologyKeys are the keys of the labels.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=set
	NodeTopologyKeys []v1beta1.TopologyKey `json:"nodeTopologyKeys"`
}

// PreferredTopologyTerm weighs the values of node labels.
type PreferredTopologyTerm struct {
	// weight of the term, from 1 to 100.
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 100",message="weight must be from 1 to 100",messageExpression="'weight is %d: give a number from 1 to 100'.format([self])"
	Weight int32 `json:"weight"`
	// preference are the labels.
	Preference NodeTopologyTerm `json:"preference"`
}

// PersistentPodState keeps on which nodes the pods of a workload were, and some of their annotations, and gives that back
// to pods of the same names.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced
type PersistentPodState struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	Spec PersistentPodStateSpec `json:"spec"`
	// status is the observed state.
	// +optional
	Status v1beta1.PersistentPodStateStatus `json:"status,omitempty"`
}

// PersistentPodStateList is a list of PersistentPodStates.
// +kubebuilder:object:root=true
type PersistentPodStateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PersistentPodState `json:"items"`
}
