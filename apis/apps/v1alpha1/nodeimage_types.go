package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// NodeImage lists the images that the daemon of the node of its name pulls, and what it has pulled. The agent writes
// its spec and the daemon its status.
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="DESIRED",type=integer,JSONPath=`.status.desired`,description="tags to pull"
// +kubebuilder:printcolumn:name="PULLING",type=integer,JSONPath=`.status.pulling`,description="tags that are being pulled"
// +kubebuilder:printcolumn:name="SUCCEED",type=integer,JSONPath=`.status.succeeded`,description="tags that the node has"
// +kubebuilder:printcolumn:name="FAILED",type=integer,JSONPath=`.status.failed`,description="tags that could not be pulled"
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`,description="time since the NodeImage was created"
type NodeImage struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +optional
	Spec v1beta1.NodeImageSpec `json:"spec,omitempty"`
	// status is the observed state.
	// +optional
	Status v1beta1.NodeImageStatus `json:"status,omitempty"`
}

// NodeImageList is a list of NodeImages.
// +kubebuilder:object:root=true
type NodeImageList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeImage `json:"items"`
}
