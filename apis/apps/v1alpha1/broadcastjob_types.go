package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// BroadcastJob runs one pod on each node that fits it, to its end.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=bcj
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.status.desired`,description="nodes that should run a pod"
// +kubebuilder:printcolumn:name="Active",type=integer,JSONPath=`.status.active`,description="pods that run"
// +kubebuilder:printcolumn:name="Succeeded",type=integer,JSONPath=`.status.succeeded`,description="pods that succeeded"
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.failed`,description="pods that failed"
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`,description="time since the BroadcastJob was created"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="the name of a BroadcastJob may have at most 63 characters, because it is a label of its pods: choose a shorter name",messageExpression="'the name %s has %d characters; a BroadcastJob may have at most 63, because the name is a label of its pods: choose a shorter name'.format([dyn(self.metadata.name), dyn(self.metadata.name.size())])"
type BroadcastJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	Spec v1beta1.BroadcastJobSpec `json:"spec"`
	// status is the observed state.
	// +optional
	Status v1beta1.BroadcastJobStatus `json:"status,omitempty"`
}

// BroadcastJobList is a list of BroadcastJobs.
// +kubebuilder:object:root=true
type BroadcastJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []BroadcastJob `json:"items"`
}
