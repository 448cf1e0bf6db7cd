package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// NodePodProbeSpec says which pods of a node its daemon probes.
type NodePodProbeSpec struct {
	// podProbes are the pods of the node that have probes, each once.
	// +optional
	// +listType=map
	// +listMapKey=uid
	// +kubebuilder:validation:MaxItems=4096
	PodProbes []PodProbe `json:"podProbes,omitempty"`
}

// PodProbe are the probes of a pod.
type PodProbe struct {
	// name of the pod.
	Name string `json:"name"`
	// namespace of the pod.
	Namespace string `json:"namespace"`
	// uid of the pod.
	UID types.UID `json:"uid"`
	// IP of the pod. The daemon connects to it for httpGet, tcpSocket and grpc.
	// +optional
	IP string `json:"IP,omitempty"`
	// probes of the pod, each once.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	Probes []ContainerProbe `json:"probes,omitempty"`
}

// ContainerProbe is a probe of a container.
type ContainerProbe struct {
	// name of the probe: <name of the PodProbeMarker>#<name of its probe>.
	Name string `json:"name"`
	// containerName is the container that is probed.
	ContainerName string `json:"containerName"`
	// probe says how, and how often, the container is probed. Its ports are numbers.
	Probe ContainerProbeSpec `json:"probe"`
}

// NodePodProbeStatus are the results of the probes.
type NodePodProbeStatus struct {
	// podProbeStatuses are the results by pods.
	// +optional
	// +listType=map
	// +listMapKey=uid
	PodProbeStatuses []PodProbeStatus `json:"podProbeStatuses,omitempty"`
}

// PodProbeStatus are the results of the probes of a pod.
type PodProbeStatus struct {
	// name of the pod.
	Name string `json:"name"`
	// namespace of the pod.
	Namespace string `json:"namespace"`
	// uid of the pod.
	UID types.UID `json:"uid"`
	// probeStates are the results by probes.
	// +optional
	// +listType=map
	// +listMapKey=name
	ProbeStates []ContainerProbeState `json:"probeStates,omitempty"`
}

// ContainerProbeState is the result of a probe.
type ContainerProbeState struct {
	// name of the probe: <name of the PodProbeMarker>#<name of its probe>.
	Name string `json:"name"`
	// state is Succeeded, Failed, or Unknown: there is no result yet, or the probe could not reach the container.
	State ProbeState `json:"state"`
	// lastProbeTime is when the probe that is reported ran. Later ones with the same result are not reported.
	// +optional
	LastProbeTime metav1.Time `json:"lastProbeTime,omitempty"`
	// lastTransitionTime is when state changed last.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`
	// message is the output of the probe, cut at 1024 bytes, or why it failed.
	// +optional
	Message string `json:"message,omitempty"`
}

// NodePodProbe lists the probes that the daemon of the node of its name runs, and their results. The agent writes its
// spec and the daemon its status.
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:subresource:status
type NodePodProbe struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +optional
	Spec NodePodProbeSpec `json:"spec,omitempty"`
	// status is the observed state.
	// +optional
	Status NodePodProbeStatus `json:"status,omitempty"`
}

// NodePodProbeList is a list of NodePodProbes.
// +kubebuilder:object:root=true
type NodePodProbeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodePodProbe `json:"items"`
}
