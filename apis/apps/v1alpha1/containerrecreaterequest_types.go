package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

const (
	// AnnotationCRRSyncContainerStatuses on a ContainerRecreateRequest is status.containerStatusSnapshot of v1beta1, as
	// JSON.
	AnnotationCRRSyncContainerStatuses = "crr.apps.kruise.io/sync-container-statuses"
	// AnnotationCRRUnreadyAcquired on a ContainerRecreateRequest is lastTransitionTime of the condition PreRecreateGrace
	// of v1beta1 (RFC 3339, in UTC).
	AnnotationCRRUnreadyAcquired = "crr.apps.kruise.io/unready-acquired"
)

// ContainerRecreateRequestStatus is the observed state of a ContainerRecreateRequest.
type ContainerRecreateRequestStatus struct {
	// phase is Pending (another request of the pod is served first), Recreating or Completed.
	// +optional
	Phase v1beta1.ContainerRecreateRequestPhase `json:"phase,omitempty"`
	// completionTime is when the request ended.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// message is a sentence for people.
	// +optional
	Message string `json:"message,omitempty"`
	// containerRecreateStates are the containers of the request.
	// +optional
	// +listType=map
	// +listMapKey=name
	ContainerRecreateStates []v1beta1.ContainerRecreateState `json:"containerRecreateStates,omitempty"`
}

// ContainerRecreateRequest restarts containers of a pod in place. The pod keeps its node, its address and its volumes.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=crr
// +kubebuilder:printcolumn:name="PHASE",type=string,JSONPath=`.status.phase`,description="how far the request is"
// +kubebuilder:printcolumn:name="POD",type=string,JSONPath=`.spec.podName`,description="pod of the containers"
// +kubebuilder:printcolumn:name="NODE",type=string,JSONPath=`.metadata.labels.crr\.apps\.kruise\.io/node-name`,description="node of the pod"
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`,description="time since the ContainerRecreateRequest was created"
type ContainerRecreateRequest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	Spec v1beta1.ContainerRecreateRequestSpec `json:"spec"`
	// status is the observed state.
	// +optional
	Status ContainerRecreateRequestStatus `json:"status,omitempty"`
}

// ContainerRecreateRequestList is a list of ContainerRecreateRequests.
// +kubebuilder:object:root=true
type ContainerRecreateRequestList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ContainerRecreateRequest `json:"items"`
}
