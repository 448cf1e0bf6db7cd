package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FinalizerNodePodProbe is on PodProbeMarkers of OpenKruise. Flotilla only takes it away.
const FinalizerNodePodProbe = "kruise.io/node-pod-probe-cleanup"

// AnnotationProbeMarks is on a pod: which labels, annotations and conditions it has of PodProbeMarkers, and what they
// replaced.
const AnnotationProbeMarks = "apps.flotilla.dev/probe-marks"

// PodProbeMarkerSpec says which pods are probed, how, and what a result changes on them.
// +kubebuilder:validation:XValidation:rule="self.selector == oldSelf.selector",fieldPath=".selector",message="selector cannot change, because the marks of the pods selected so far would stay: set it back, or create another PodProbeMarker"
type PodProbeMarkerSpec struct {
	// selector selects the pods by their labels, in the namespace of the PodProbeMarker. It cannot change later.
	// +kubebuilder:validation:XValidation:rule="has(self.matchLabels) && size(self.matchLabels) > 0 || has(self.matchExpressions) && size(self.matchExpressions) > 0",message="selector is empty, so that it would select every pod of the namespace: name labels"
	Selector *metav1.LabelSelector `json:"selector"`
	// probes of the pods, at least one and at most 32.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="size(self) > 0",message="probes is empty: give at least one probe"
	// +kubebuilder:validation:XValidation:rule="self.all(a, !has(a.podConditionType) || self.exists_one(b, has(b.podConditionType) && b.podConditionType == a.podConditionType))",message="two probes have the same podConditionType, and each would overwrite the other: give each its own"
	Probes []PodContainerProbe `json:"probes"`
}

// PodContainerProbe is a probe of a container, and what its result changes on the pod.
// +kubebuilder:validation:XValidation:rule="has(self.podConditionType) && size(self.podConditionType) > 0 || has(self.markerPolicy) && size(self.markerPolicy) > 0",message="the probe would change nothing: give podConditionType, markerPolicy or both",messageExpression="'probe %s would change nothing: give podConditionType, markerPolicy or both'.format([self.name])"
type PodContainerProbe struct {
	// name of the probe. In NodePodProbes it is <name of the PodProbeMarker>#<name>.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="size(self) > 0 && !self.contains('#')",message="name of a probe is empty or has a #: give a name without it",messageExpression="'name %s of a probe is empty or has a #: give a name without it'.format([self == '' ? '\"\"' : self])"
	Name string `json:"name"`
	// containerName is the container that is probed. Pods without it are left out.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="size(self) > 0",message="containerName is empty: name a container of the pods"
	ContainerName string `json:"containerName"`
	// probe says how, and how often, the container is probed.
	// +kubebuilder:validation:XValidation:rule="[has(self.exec), has(self.httpGet), has(self.tcpSocket), has(self.grpc)].filter(given, given).size() == 1",message="a probe has one of exec, httpGet, tcpSocket and grpc: give one of them",messageExpression="'the probe has %d of exec, httpGet, tcpSocket and grpc: give one of them'.format([[has(self.exec), has(self.httpGet), has(self.tcpSocket), has(self.grpc)].filter(given, given).size()])"
	// +kubebuilder:validation:XValidation:rule="!has(self.exec) || has(self.exec.command) && size(self.exec.command) > 0",fieldPath=".exec",message="exec has no command: give the command and its arguments as a list"
	// +kubebuilder:validation:XValidation:rule="!has(self.httpGet) || !has(self.httpGet.host) || self.httpGet.host == ''",fieldPath=".httpGet.host",message="host cannot be set, because only the pod itself is probed: remove it"
	// +kubebuilder:validation:XValidation:rule="!has(self.tcpSocket) || !has(self.tcpSocket.host) || self.tcpSocket.host == ''",fieldPath=".tcpSocket.host",message="host cannot be set, because only the pod itself is probed: remove it"
	// +kubebuilder:validation:XValidation:rule="!has(self.httpGet) || !has(self.httpGet.scheme) || self.httpGet.scheme in ['', 'HTTP', 'HTTPS']",fieldPath=".httpGet.scheme",message="scheme must be HTTP or HTTPS: correct it, or remove it, which means HTTP"
	// +kubebuilder:validation:XValidation:rule="!has(self.httpGet) || (type(self.httpGet.port) == int ? self.httpGet.port >= 1 && self.httpGet.port <= 65535 : self.httpGet.port != '')",fieldPath=".httpGet.port",message="port must be from 1 to 65535, or the name of a port of the container"
	// +kubebuilder:validation:XValidation:rule="!has(self.tcpSocket) || (type(self.tcpSocket.port) == int ? self.tcpSocket.port >= 1 && self.tcpSocket.port <= 65535 : self.tcpSocket.port != '')",fieldPath=".tcpSocket.port",message="port must be from 1 to 65535, or the name of a port of the container"
	// +kubebuilder:validation:XValidation:rule="!has(self.grpc) || self.grpc.port >= 1 && self.grpc.port <= 65535",fieldPath=".grpc.port",message="port must be from 1 to 65535",messageExpression="'port is %d: it must be from 1 to 65535'.format([self.grpc.port])"
	Probe ContainerProbeSpec `json:"probe"`
	// markerPolicy sets labels and annotations of the pod by the state of the probe, at most one policy for each state.
	// Those of the other state are removed. Default: none.
	// +optional
	// +listType=map
	// +listMapKey=state
	// +kubebuilder:validation:MaxItems=2
	MarkerPolicy []ProbeMarkerPolicy `json:"markerPolicy,omitempty"`
	// podConditionType is a condition of the pod that is True when the probe succeeds and False when it fails, such as
	// example.org/leader. Default: no condition.
	// +optional
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self == '' || @qualifiedName{self}",message="podConditionType is no type of a condition: write a name such as example.org/leader",messageExpression="'podConditionType %s is no type of a condition: write a name such as example.org/leader'.format([self])"
	// +kubebuilder:validation:XValidation:rule="!(self in ['PodScheduled', 'Initialized', 'Ready', 'ContainersReady', 'PodReadyToStartContainers', 'DisruptionTarget', 'PodResizePending', 'PodResizeInProgress', 'KruisePodReady', 'InPlaceUpdateReady', 'SidecarSetUpgradable'])",message="podConditionType is a condition that others write: use a name of your own, such as example.org/leader",messageExpression="'podConditionType %s is a condition that others write: use a name of your own, such as example.org/leader'.format([self])"
	PodConditionType string `json:"podConditionType,omitempty"`
}

// ContainerProbeSpec says how, and how often, a container is probed: one of exec, httpGet, tcpSocket and grpc.
type ContainerProbeSpec struct {
	// exec runs a command in the container. The probe succeeds when its exit code is 0. Its output, cut at 1024 bytes, is
	// the message of the condition.
	// +optional
	Exec *corev1.ExecAction `json:"exec,omitempty"`
	// httpGet sends a GET request to the pod. The probe succeeds when the code of the answer is from 200 to 399.
	// +optional
	HTTPGet *corev1.HTTPGetAction `json:"httpGet,omitempty"`
	// tcpSocket opens a connection to the pod. The probe succeeds when that works.
	// +optional
	TCPSocket *corev1.TCPSocketAction `json:"tcpSocket,omitempty"`
	// grpc asks the gRPC health service of the pod. The probe succeeds when it serves. Flotilla's addition.
	// +optional
	GRPC *corev1.GRPCAction `json:"grpc,omitempty"`
	// initialDelaySeconds is how long after the start of the container, in seconds, the first probe runs. Default 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	InitialDelaySeconds int32 `json:"initialDelaySeconds,omitempty"`
	// timeoutSeconds is how long a probe may take, in seconds; then it has failed. Default 1, also for 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
	// periodSeconds is how long after a probe, in seconds, the next one runs. Default 10, also for 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	PeriodSeconds int32 `json:"periodSeconds,omitempty"`
	// successThreshold is how many probes in a row must succeed for the state Succeeded. Default 1, also for 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	SuccessThreshold int32 `json:"successThreshold,omitempty"`
	// failureThreshold is how many probes in a row must fail for the state Failed. Default 3, also for 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	FailureThreshold int32 `json:"failureThreshold,omitempty"`
	// terminationGracePeriodSeconds does nothing: these probes never stop a container.
	// +optional
	TerminationGracePeriodSeconds *int64 `json:"terminationGracePeriodSeconds,omitempty"`
}

// ProbeMarkerPolicy are labels and annotations of a pod in a state of a probe.
// +kubebuilder:validation:XValidation:rule="has(self.labels) && size(self.labels) > 0 || has(self.annotations) && size(self.annotations) > 0",message="the policy sets nothing: give labels, annotations or both",messageExpression="'the policy for state %s sets nothing: give labels, annotations or both'.format([self.state])"
type ProbeMarkerPolicy struct {
	// state of the probe: Succeeded or Failed. Without a policy for Failed, a failure removes what that for Succeeded
	// set.
	// +kubebuilder:validation:Enum=Succeeded;Failed
	State ProbeState `json:"state"`
	// labels that the pod has in this state, at most 64. A key that Kubernetes does not take is reported by condition
	// Stalled.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Labels map[string]string `json:"labels,omitempty"`
	// annotations that the pod has in this state, at most 64. A key that Kubernetes does not take is reported by
	// condition Stalled.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Annotations map[string]string `json:"annotations,omitempty"`
}

// ProbeState is the result of a probe.
type ProbeState string

// The states of a probe. Unknown is that of a probe that has no result yet, or could not reach its container.
const (
	ProbeSucceeded ProbeState = "Succeeded"
	ProbeFailed    ProbeState = "Failed"
	ProbeUnknown   ProbeState = "Unknown"
)

// PodProbeMarkerStatus is the observed state of a PodProbeMarker.
type PodProbeMarkerStatus struct {
	// observedGeneration is the generation of the PodProbeMarker that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// matchedPods is the number of pods that are probed.
	// +optional
	MatchedPods int64 `json:"matchedPods,omitempty"`
	// flotilla is what Flotilla adds to the published status.
	// +optional
	Flotilla *PodProbeMarkerCounts `json:"flotilla,omitempty"`
	// conditions are the observed aspects of the PodProbeMarker, one of each type: Ready, Reconciling and Stalled.
	// Flotilla's addition.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PodProbeMarkerCounts is what Flotilla adds to the published status of a PodProbeMarker.
type PodProbeMarkerCounts struct {
	// probes are how many pods are in which state of each probe, in the order of the spec. On a hub they are sums over
	// its members.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Probes []ProbeCounts `json:"probes,omitempty"`
}

// ProbeCounts are how many pods are in which state of a probe. Counters are written also when they are zero.
type ProbeCounts struct {
	// name of the probe.
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// succeeded is the number of pods whose probe succeeds.
	// +optional
	Succeeded int32 `json:"succeeded"`
	// failed is the number of pods whose probe fails.
	// +optional
	Failed int32 `json:"failed"`
	// unknown is the number of pods that the probe does not reach, or that have no result yet.
	// +optional
	Unknown int32 `json:"unknown"`
}

// PodProbeMarker probes containers of pods and marks the pods with the results: by labels, annotations and conditions.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
type PodProbeMarker struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	Spec PodProbeMarkerSpec `json:"spec"`
	// status is the observed state.
	// +optional
	Status PodProbeMarkerStatus `json:"status,omitempty"`
}

// PodProbeMarkerList is a list of PodProbeMarkers.
// +kubebuilder:object:root=true
type PodProbeMarkerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PodProbeMarker `json:"items"`
}
