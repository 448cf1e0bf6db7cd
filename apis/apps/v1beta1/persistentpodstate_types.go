package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Annotations of a workload by which a PersistentPodState of its name is kept for it, as published.
const (
	// AnnotationAutoPersistentPodState: "true" keeps one.
	AnnotationAutoPersistentPodState = "kruise.io/auto-generate-persistent-pod-state"
	// AnnotationRequiredTopology and AnnotationPreferredTopology are keys of node labels, with commas between them.
	AnnotationRequiredTopology  = "kruise.io/required-persistent-topology"
	AnnotationPreferredTopology = "kruise.io/preferred-persistent-topology"
	// AnnotationPersistentAnnotations are keys of pod annotations, with commas between them.
	AnnotationPersistentAnnotations = "kruise.io/persistent-pod-annotations"
)

// AnnotationInjectedPersistentPodState is on a pod that got something from a PersistentPodState: its name.
const AnnotationInjectedPersistentPodState = "kruise.io/injected-persistent-pod-state"

// AnnotationPersistentNodeLabels is on such a pod, if labels are required: the keys of those that it got as a node
// selector, with commas between them. Others of its node selector are of its template.
const AnnotationPersistentNodeLabels = "apps.flotilla.dev/persistent-node-labels"

// TopologyKey is the key of a label of nodes.
// +kubebuilder:validation:MaxLength=317
// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')",message="this is no key of a label: correct it",messageExpression="'%s is no key of a label, such as topology.kubernetes.io/zone: correct it'.format([self])"
type TopologyKey string

// PersistentPodStateSpec says what is kept of the pods of a workload.
// +kubebuilder:validation:XValidation:rule="has(self.requiredPersistentTopology) || has(self.preferredPersistentTopology) && size(self.preferredPersistentTopology) > 0 || has(self.persistentPodAnnotations) && size(self.persistentPodAnnotations) > 0",message="nothing is kept: give requiredPersistentTopology, preferredPersistentTopology or persistentPodAnnotations"
type PersistentPodStateSpec struct {
	// targetRef is the workload. It cannot change.
	TargetReference PersistentPodStateTarget `json:"targetRef"`
	// persistentPodAnnotations are annotations that a pod gets back. Default: none.
	// +optional
	// +listType=map
	// +listMapKey=key
	// +kubebuilder:validation:MaxItems=32
	PersistentPodAnnotations []PersistentPodAnnotation `json:"persistentPodAnnotations,omitempty"`
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
	PersistentPodStateRetentionPolicy PersistentPodStateRetentionPolicy `json:"persistentPodStateRetentionPolicy,omitempty"`
	// flotilla is what Flotilla adds. Default: none. OpenKruise ignores it.
	// +optional
	Flotilla *PersistentPodStateFlotilla `json:"flotilla,omitempty"`
}

// NodeTopologyTerm are keys of labels of nodes.
type NodeTopologyTerm struct {
	// keys are the keys of the labels.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=set
	Keys []TopologyKey `json:"keys"`
}

// PreferredTopologyTerm weighs the values of node labels.
type PreferredTopologyTerm struct {
	// weight of the term, from 1 to 100.
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 100",message="weight must be from 1 to 100",messageExpression="'weight is %d: give a number from 1 to 100'.format([self])"
	Weight int32 `json:"weight"`
	// preference are the labels.
	Preference NodeTopologyTerm `json:"preference"`
}

// PersistentPodStateTarget names a workload in the namespace of the PersistentPodState.
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="targetRef cannot change, because the records are about pods of the old workload: set it back, or make another PersistentPodState"
type PersistentPodStateTarget struct {
	// apiVersion of the workload, such as apps/v1 or apps.kruise.io/v1beta1.
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self.matches('^([^/ ]+/)?[^/ ]+$')",message="apiVersion must be a group and a version, such as apps/v1"
	APIVersion string `json:"apiVersion"`
	// kind of the workload: StatefulSet, or a kind of the white list PPS_Watch_Custom_Workload_WhiteList.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="size(self) > 0",message="kind is empty: name the kind of the workload, such as StatefulSet"
	Kind string `json:"kind"`
	// name of the workload.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="size(self) > 0",message="name is empty: give the name of the workload"
	Name string `json:"name"`
}

// PersistentPodAnnotation names an annotation of pods.
type PersistentPodAnnotation struct {
	// key of the annotation.
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="size(self) > 0",message="key is empty: give the key of the annotation"
	Key string `json:"key"`
}

// PersistentPodStateRetentionPolicy is how long records are kept.
// +kubebuilder:validation:Enum=WhenScaled;WhenDeleted
type PersistentPodStateRetentionPolicy string

// How long records are kept.
const (
	// PersistentPodStateWhenScaled: until the workload is scaled in below the pod.
	PersistentPodStateWhenScaled PersistentPodStateRetentionPolicy = "WhenScaled"
	// PersistentPodStateWhenDeleted: until the workload is deleted.
	PersistentPodStateWhenDeleted PersistentPodStateRetentionPolicy = "WhenDeleted"
)

// PersistentPodStateFlotilla is what Flotilla adds to the spec.
type PersistentPodStateFlotilla struct {
	// missingNodes is what happens to a pod that needs labels which no node has any more, as after its node was replaced:
	// Wait, it waits for such a node, and the condition Ready names it; Release, it starts on any node once there was none
	// for five minutes, and the labels of that node are recorded. Default: Wait.
	// +optional
	MissingNodes MissingNodes `json:"missingNodes,omitempty"`
}

// MissingNodes is what happens to a pod that needs labels which no node has.
// +kubebuilder:validation:Enum=Wait;Release
type MissingNodes string

// What happens to a pod that needs labels which no node has.
const (
	// MissingNodesWait: it waits for such a node.
	MissingNodesWait MissingNodes = "Wait"
	// MissingNodesRelease: it starts on any node, when no node has had them for five minutes.
	MissingNodesRelease MissingNodes = "Release"
)

// PodState is what is recorded of a pod.
type PodState struct {
	// nodeName is the node on which the pod was ready last.
	// +optional
	NodeName string `json:"nodeName,omitempty"`
	// nodeTopologyLabels are the labels of that node with the keys of the spec.
	// +optional
	NodeTopologyLabels map[string]string `json:"nodeTopologyLabels,omitempty"`
	// annotations of the pod with the keys of the spec.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// PersistentPodStateStatus is the observed state of a PersistentPodState.
type PersistentPodStateStatus struct {
	// observedGeneration is the generation that the controller acted on last.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// podStates are the records of pods, by their names.
	// +optional
	PodStates map[string]PodState `json:"podStates,omitempty"`
	// conditions are Ready, Reconciling and Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PersistentPodState keeps on which nodes the pods of a workload were, and some of their annotations, and gives that back
// to pods of the same names.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced
// +kubebuilder:storageversion
type PersistentPodState struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	Spec PersistentPodStateSpec `json:"spec"`
	// status is the observed state.
	// +optional
	Status PersistentPodStateStatus `json:"status,omitempty"`
}

// PersistentPodStateList is a list of PersistentPodStates.
// +kubebuilder:object:root=true
type PersistentPodStateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PersistentPodState `json:"items"`
}
