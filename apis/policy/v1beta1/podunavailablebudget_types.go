package v1beta1

import (
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Annotations of a v1alpha1 PodUnavailableBudget, as published. In v1beta1 they are fields; an annotation holds where
// its field is not set.
const (
	// AnnotationProtectOperations has the operations that the budget limits, with commas between them.
	AnnotationProtectOperations = "kruise.io/pub-protect-operations"
	// AnnotationProtectTotalReplicas is how many pods there are to be.
	AnnotationProtectTotalReplicas = "pub.kruise.io/protect-total-replicas"
)

// AnnotationDisruptWithoutHub on a PodUnavailableBudget of a member, with a value that means true, allows what the hub
// granted last also while the hub is not heard. Flotilla's addition.
const AnnotationDisruptWithoutHub = "topology.flotilla.dev/disrupt-without-hub"

// Annotations of pods, as published.
const (
	// AnnotationRelatedPub is on a pod: the name of the PodUnavailableBudget that protects it.
	AnnotationRelatedPub = "pub.kruise.io/related-pub"
	// AnnotationFormerRelatedPub has the same value. Tools that are older than AnnotationRelatedPub read it.
	AnnotationFormerRelatedPub = "kruise.io/related-pub"
	// AnnotationNoProtect on a pod, with a value that means true, takes the protection of every budget off the pod.
	AnnotationNoProtect = "pub.kruise.io/no-protect"
)

// PubOperation is an operation on a pod that can make it unavailable.
// +kubebuilder:validation:Enum=DELETE;UPDATE;EVICT;RESIZE
type PubOperation string

// The operations.
const (
	PubDeleteOperation PubOperation = "DELETE"
	PubUpdateOperation PubOperation = "UPDATE"
	PubEvictOperation  PubOperation = "EVICT"
	PubResizeOperation PubOperation = "RESIZE"
)

// PubOperations returns all operations.
func PubOperations() []PubOperation {
	return []PubOperation{PubDeleteOperation, PubUpdateOperation, PubEvictOperation, PubResizeOperation}
}

// PodUnavailableBudgetSpec says which pods are protected, and how many of them may be unavailable.
// +kubebuilder:validation:XValidation:rule="has(self.selector) != has(self.targetRef)",message="exactly one of selector and targetRef must say which pods are protected: set one of them, and remove the other"
// +kubebuilder:validation:XValidation:rule="has(self.maxUnavailable) != has(self.minAvailable)",message="exactly one of maxUnavailable and minAvailable must say how many pods may be unavailable: set one of them, and remove the other"
// +kubebuilder:validation:XValidation:rule="has(self.selector) == has(oldSelf.selector) && (!has(self.selector) || self.selector == oldSelf.selector)",fieldPath=".selector",message="selector cannot change, because operations on the pods of the old one were allowed already: set it back, or make another PodUnavailableBudget"
// +kubebuilder:validation:XValidation:rule="has(self.targetRef) == has(oldSelf.targetRef) && (!has(self.targetRef) || self.targetRef == oldSelf.targetRef)",fieldPath=".targetRef",message="targetRef cannot change, because operations on the pods of the old one were allowed already: set it back, or make another PodUnavailableBudget"
// +kubebuilder:validation:XValidation:rule="!has(self.maxUnavailable) || @numberOrPercent{self.maxUnavailable}",fieldPath=".maxUnavailable",message="maxUnavailable must be an integer of 0 or more, or a percentage from 0% to 100%",messageExpression="'maxUnavailable is %s: it must be an integer of 0 or more, without quotes, or a percentage from 0%% to 100%% (an integer without leading zeros, and the sign %%)'.format([self.maxUnavailable])"
// +kubebuilder:validation:XValidation:rule="!has(self.minAvailable) || @numberOrPercent{self.minAvailable}",fieldPath=".minAvailable",message="minAvailable must be an integer of 0 or more, or a percentage from 0% to 100%",messageExpression="'minAvailable is %s: it must be an integer of 0 or more, without quotes, or a percentage from 0%% to 100%% (an integer without leading zeros, and the sign %%)'.format([self.minAvailable])"
type PodUnavailableBudgetSpec struct {
	// selector selects the protected pods by their labels, in the namespace of the budget. It cannot change later. A pod
	// has one budget: where two select it, both must allow an operation, and both report that as Stalled.
	// +optional
	// +kubebuilder:validation:XValidation:rule="has(self.matchLabels) && size(self.matchLabels) > 0 || has(self.matchExpressions) && size(self.matchExpressions) > 0",message="selector is empty, so that it would protect every pod of the namespace: name labels, or use targetRef"
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// targetRef names the workload whose pods are protected, in the namespace of the budget. It cannot change later.
	// +optional
	TargetReference *TargetReference `json:"targetRef,omitempty"`
	// maxUnavailable is how many protected pods may be unavailable: an integer, or a percentage of the pods that their
	// workloads ask for, which rounds up.
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// minAvailable is how many protected pods must stay available: an integer, or a percentage of the pods that their
	// workloads ask for, which rounds up.
	// +optional
	MinAvailable *intstr.IntOrString `json:"minAvailable,omitempty"`
	// protectOperations are the operations that the budget limits: DELETE, UPDATE (of what restarts containers, or a label
	// that marks the pod unavailable), EVICT, and RESIZE (of resources without a restart). Default: DELETE, UPDATE, EVICT.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	ProtectOperations []PubOperation `json:"protectOperations,omitempty"`
	// protectTotalReplicas is how many pods there are to be, for pods without a workload, or whose workload has no scale
	// subresource. Default: what their workloads ask for.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 1",message="protectTotalReplicas must be 1 or more",messageExpression="'protectTotalReplicas is %d: it must be 1 or more; remove it to use the replicas of the workloads'.format([self])"
	ProtectTotalReplicas *int32 `json:"protectTotalReplicas,omitempty"`
	// ignoredPodSelector selects pods that the budget does not protect, by their labels. Default: none.
	// +optional
	// +kubebuilder:validation:XValidation:rule="has(self.matchLabels) && size(self.matchLabels) > 0 || has(self.matchExpressions) && size(self.matchExpressions) > 0",message="ignoredPodSelector is empty, so that the budget would protect no pod: name labels, or remove it"
	IgnoredPodSelector *metav1.LabelSelector `json:"ignoredPodSelector,omitempty"`
	// flotilla holds settings that only Flotilla has.
	// +optional
	Flotilla *PodUnavailableBudgetSettings `json:"flotilla,omitempty"`
}

// PodUnavailableBudgetSettings are settings that only Flotilla has.
type PodUnavailableBudgetSettings struct {
	// failurePolicy is what happens to operations while no agent answers: Ignore allows them, Fail refuses them, as well
	// as evictions of pods with names like theirs. Condition Enforced says from when on Fail holds. Default Ignore.
	// +optional
	FailurePolicy PubFailurePolicy `json:"failurePolicy,omitempty"`
}

// PubFailurePolicy is Fail or Ignore.
// +kubebuilder:validation:Enum=Fail;Ignore
type PubFailurePolicy string

// The failure policies.
const (
	PubFail   PubFailurePolicy = "Fail"
	PubIgnore PubFailurePolicy = "Ignore"
)

// ConditionEnforced is the condition of a budget with failure policy Fail: True while operations are refused if no
// agent answers.
const ConditionEnforced = "Enforced"

// FailurePolicy returns what happens to operations while no agent answers.
func (s *PodUnavailableBudgetSpec) FailurePolicy() PubFailurePolicy {
	if s.Flotilla != nil && s.Flotilla.FailurePolicy == PubFail {
		return PubFail
	}
	return PubIgnore
}

// FixedTotal returns how many pods there are to be by protectTotalReplicas, or by its annotation where the field is not
// set; false if neither has it.
func (p *PodUnavailableBudget) FixedTotal() (int32, bool) {
	if n := p.Spec.ProtectTotalReplicas; n != nil {
		return *n, true
	}
	n, err := strconv.ParseInt(p.Annotations[AnnotationProtectTotalReplicas], 10, 32)
	return int32(n), err == nil && n >= 1
}

// TargetReference names a workload in the namespace of the budget.
// +kubebuilder:validation:XValidation:rule="has(self.apiVersion) && size(self.apiVersion) > 0 && has(self.kind) && size(self.kind) > 0 && has(self.name) && size(self.name) > 0",message="targetRef must have apiVersion, kind and name of the workload: add what is missing"
type TargetReference struct {
	// apiVersion of the workload, such as apps/v1.
	// +optional
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self.matches('^([^/ ]+/)?[^/ ]+$')",message="apiVersion must be a group and a version, such as apps/v1"
	APIVersion string `json:"apiVersion,omitempty"`
	// kind of the workload: one that has a scale subresource, unless protectTotalReplicas is set.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind,omitempty"`
	// name of the workload.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// PodUnavailableBudgetStatus is what was observed. Counters are written also when they are zero.
type PodUnavailableBudgetStatus struct {
	// observedGeneration is the generation that the counters are for. Operations are refused until it is the newest.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// disruptedPods are pods that may be deleted or evicted, with the time of that decision. A pod that is still there
	// after 20 seconds counts as available again.
	// +optional
	DisruptedPods map[string]metav1.Time `json:"disruptedPods,omitempty"`
	// unavailablePods are pods that may be updated, with the time of that decision. They leave the list when they are not
	// ready because of the update, or after 10 seconds.
	// +optional
	UnavailablePods map[string]metav1.Time `json:"unavailablePods,omitempty"`
	// waitingPods are pods that were refused since the hub had granted nothing more to this member, with the time of the
	// last refusal. The hub lends to the members that have any what others do not use. They leave the list when the pod
	// may go, or after a minute. Flotilla's addition.
	// +optional
	WaitingPods map[string]metav1.Time `json:"waitingPods,omitempty"`
	// observedSequence is the order of the hub that the counters are for. Flotilla's addition.
	// +optional
	ObservedSequence int64 `json:"observedSequence,omitempty"`
	// unavailableAllowed is how many more pods may become unavailable now.
	// +optional
	UnavailableAllowed int32 `json:"unavailableAllowed"`
	// currentAvailable is how many protected pods are ready, and in neither list of the status.
	// +optional
	CurrentAvailable int32 `json:"currentAvailable"`
	// desiredAvailable is how many protected pods must stay available.
	// +optional
	DesiredAvailable int32 `json:"desiredAvailable"`
	// totalReplicas is how many pods the workloads of the protected pods ask for, or protectTotalReplicas.
	// +optional
	TotalReplicas int32 `json:"totalReplicas"`
	// conditions are the observed aspects of the budget, one of each type: Ready, Reconciling and Stalled, and Enforced
	// with failure policy Fail. Flotilla's addition.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PodUnavailableBudget limits how many pods are unavailable at a time because they are deleted, evicted or updated.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:shortName=pub
// +kubebuilder:printcolumn:name="Allowed",type=integer,JSONPath=`.status.unavailableAllowed`,description="how many more pods may become unavailable now"
// +kubebuilder:printcolumn:name="Current",type=integer,JSONPath=`.status.currentAvailable`,description="how many pods are available"
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.status.desiredAvailable`,description="how many pods must stay available"
// +kubebuilder:printcolumn:name="Total",type=integer,JSONPath=`.status.totalReplicas`,description="how many pods there are to be"
type PodUnavailableBudget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	Spec PodUnavailableBudgetSpec `json:"spec"`
	// status is the observed state.
	// +optional
	Status PodUnavailableBudgetStatus `json:"status,omitempty"`
}

// PodUnavailableBudgetList is a list of PodUnavailableBudgets.
// +kubebuilder:object:root=true
type PodUnavailableBudgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PodUnavailableBudget `json:"items"`
}
