package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
)

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
	TargetReference *v1beta1.TargetReference `json:"targetRef,omitempty"`
	// maxUnavailable is how many protected pods may be unavailable: an integer, or a percentage of the pods that their
	// workloads ask for, which rounds up.
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// minAvailable is how many protected pods must stay available: an integer, or a percentage of the pods that their
	// workloads ask for, which rounds up.
	// +optional
	MinAvailable *intstr.IntOrString `json:"minAvailable,omitempty"`
	// flotilla holds settings that only Flotilla has.
	// +optional
	Flotilla *v1beta1.PodUnavailableBudgetSettings `json:"flotilla,omitempty"`
}

// PodUnavailableBudget limits how many pods are unavailable at a time because they are deleted, evicted or updated.
// Its annotations kruise.io/pub-protect-operations and pub.kruise.io/protect-total-replicas say more about it.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
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
	Status v1beta1.PodUnavailableBudgetStatus `json:"status,omitempty"`
}

// PodUnavailableBudgetList is a list of PodUnavailableBudgets.
// +kubebuilder:object:root=true
type PodUnavailableBudgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PodUnavailableBudget `json:"items"`
}
