package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// LabelCRRPodUID is on a ContainerRecreateRequest: the UID of its pod.
	LabelCRRPodUID = "crr.apps.kruise.io/pod-uid"
	// LabelCRRNodeName is on a ContainerRecreateRequest: the node of its pod, whose daemon serves the request.
	LabelCRRNodeName = "crr.apps.kruise.io/node-name"
	// LabelCRRActive is on a ContainerRecreateRequest that has not ended.
	LabelCRRActive = "crr.apps.kruise.io/active"
	// FinalizerCRRUnready is on a ContainerRecreateRequest while its pod is not ready because of it.
	FinalizerCRRUnready = "crr.apps.kruise.io/unready-acquired"
	// ConditionPreRecreateGrace is the condition of a ContainerRecreateRequest that is True since its pod is not ready:
	// unreadyGracePeriodSeconds counts from lastTransitionTime.
	ConditionPreRecreateGrace = "PreRecreateGrace"
)

// ContainerRecreateRequestSpec says which containers are restarted, and how. It cannot change.
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec cannot change, because containers may be restarting already: set it back, or create another ContainerRecreateRequest"
type ContainerRecreateRequestSpec struct {
	// podName is the pod, in the namespace of the request. It must run on a node.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="size(self) > 0",message="podName is empty: name a pod of this namespace that runs on a node"
	PodName string `json:"podName"`
	// containers of the pod to restart, each once, at most 256.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:XValidation:rule="size(self) > 0",message="containers is empty: name at least one container of the pod"
	Containers []ContainerRecreateRequestContainer `json:"containers"`
	// strategy says how containers are restarted.
	// +optional
	// +kubebuilder:default={}
	Strategy *ContainerRecreateRequestStrategy `json:"strategy,omitempty"`
	// activeDeadlineSeconds is how long the request may take, in seconds, at least 3. Then it ends, and containers that
	// have not restarted count as failed. Default: no limit.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 3",message="activeDeadlineSeconds must be 3 or more, because a container needs some seconds to restart",messageExpression="'activeDeadlineSeconds is %d: it must be 3 or more, because a container needs some seconds to restart'.format([self])"
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`
	// ttlSecondsAfterFinished is how long, in seconds, the request is kept after its end; then it is deleted. Default: it
	// is kept.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// ContainerRecreateRequestContainer is a container to restart.
type ContainerRecreateRequestContainer struct {
	// name of the container.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="size(self) > 0",message="name is empty: name a container of the pod"
	Name string `json:"name"`
	// preStop is the hook of the container. It is filled in when the request is created; leave it out.
	// +optional
	PreStop *ContainerRecreateRequestHandler `json:"preStop,omitempty"`
	// ports of the container, by which a hook over HTTP finds a port of a name. They are filled in when the request is
	// created; leave them out.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Ports []corev1.ContainerPort `json:"ports,omitempty"`
	// statusContext is the container as it was when the request was created. It is filled in then; leave it out.
	// +optional
	StatusContext *ContainerRecreateRequestContainerContext `json:"statusContext,omitempty"`
}

// ContainerRecreateRequestHandler is a hook of a container: one of its fields.
type ContainerRecreateRequestHandler struct {
	// exec runs a command in the container.
	// +optional
	Exec *corev1.ExecAction `json:"exec,omitempty"`
	// httpGet sends a GET request to the pod.
	// +optional
	HTTPGet *corev1.HTTPGetAction `json:"httpGet,omitempty"`
	// tcpSocket does nothing in a hook.
	// +optional
	TCPSocket *corev1.TCPSocketAction `json:"tcpSocket,omitempty"`
	// sleep waits. OpenKruise does not have it.
	// +optional
	Sleep *corev1.SleepAction `json:"sleep,omitempty"`
}

// ContainerRecreateRequestContainerContext is a container at the creation of the request. One that has restarted since
// is not restarted again, unless forceRecreate is set.
type ContainerRecreateRequestContainerContext struct {
	// containerID of the container, such as containerd://….
	ContainerID string `json:"containerID"`
	// restartCount is how often the container had restarted.
	RestartCount int32 `json:"restartCount"`
}

// ContainerRecreateRequestStrategy says how containers are restarted.
type ContainerRecreateRequestStrategy struct {
	// failurePolicy is Fail (the request ends when a container cannot be stopped) or Ignore (the others go on). Default
	// Fail.
	// +optional
	// +kubebuilder:default=Fail
	FailurePolicy ContainerRecreateRequestFailurePolicy `json:"failurePolicy,omitempty"`
	// orderedRecreate restarts a container only when the one before it in the list has restarted. Default false.
	// +optional
	OrderedRecreate bool `json:"orderedRecreate,omitempty"`
	// forceRecreate restarts also a container that has restarted by itself since the request was created. Default false.
	// +optional
	ForceRecreate bool `json:"forceRecreate,omitempty"`
	// terminationGracePeriodSeconds is how long a container has to stop, hook included, in seconds, before it is killed.
	// It has at least 2 seconds after its hook. Default: that of the pod.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TerminationGracePeriodSeconds *int64 `json:"terminationGracePeriodSeconds,omitempty"`
	// unreadyGracePeriodSeconds is how long the pod is not ready, in seconds, before its containers stop: time for load
	// balancers to let go of it. It needs the readiness gate KruisePodReady. Default: no such time.
	// +optional
	// +kubebuilder:validation:Minimum=0
	UnreadyGracePeriodSeconds *int64 `json:"unreadyGracePeriodSeconds,omitempty"`
	// minStartedSeconds is how long a new container must have run, in seconds, to count as restarted. Default 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MinStartedSeconds int32 `json:"minStartedSeconds,omitempty"`
}

// ContainerRecreateRequestFailurePolicy is Fail or Ignore.
// +kubebuilder:validation:Enum=Fail;Ignore
type ContainerRecreateRequestFailurePolicy string

// The failure policies.
const (
	CRRFail   ContainerRecreateRequestFailurePolicy = "Fail"
	CRRIgnore ContainerRecreateRequestFailurePolicy = "Ignore"
)

// ContainerRecreateRequestPhase says how far a request or a container is.
// +kubebuilder:validation:Enum=Pending;Recreating;Succeeded;Failed;Completed
type ContainerRecreateRequestPhase string

// The phases. A request is Pending, Recreating or Completed, a container all but Completed.
const (
	CRRPending    ContainerRecreateRequestPhase = "Pending"
	CRRRecreating ContainerRecreateRequestPhase = "Recreating"
	CRRSucceeded  ContainerRecreateRequestPhase = "Succeeded"
	CRRFailed     ContainerRecreateRequestPhase = "Failed"
	CRRCompleted  ContainerRecreateRequestPhase = "Completed"
)

// ContainerRecreateRequestStatus is the observed state of a ContainerRecreateRequest.
type ContainerRecreateRequestStatus struct {
	// phase is Pending (another request of the pod is served first), Recreating or Completed.
	// +optional
	Phase ContainerRecreateRequestPhase `json:"phase,omitempty"`
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
	ContainerRecreateStates []ContainerRecreateState `json:"containerRecreateStates,omitempty"`
	// containerStatusSnapshot are containers of the pod as they are since the request was created. The agent writes them,
	// and the daemon reads them, while the request is Recreating.
	// +optional
	// +listType=atomic
	ContainerStatusSnapshot []ContainerStatusSnapshot `json:"containerStatusSnapshot,omitempty"`
	// conditions are the observed aspects of the request, one of each type, such as PreRecreateGrace: True since the pod
	// is not ready because of the request.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ContainerRecreateState is the restart of one container.
type ContainerRecreateState struct {
	// name of the container.
	Name string `json:"name"`
	// phase is Pending, Recreating, Succeeded or Failed.
	Phase ContainerRecreateRequestPhase `json:"phase"`
	// message is a sentence for people.
	// +optional
	Message string `json:"message,omitempty"`
	// isKilled reports whether the request stopped the container. It is false for one that restarted by itself.
	// +optional
	IsKilled bool `json:"isKilled,omitempty"`
}

// ContainerStatusSnapshot is a container of the pod.
type ContainerStatusSnapshot struct {
	// name of the container.
	Name string `json:"name"`
	// ready reports whether the container is ready.
	Ready bool `json:"ready"`
	// restartCount is how often the container has restarted.
	RestartCount int32 `json:"restartCount"`
	// containerID of the container, such as containerd://….
	// +optional
	ContainerID string `json:"containerID,omitempty"`
}

// ContainerRecreateRequest restarts containers of a pod in place. The pod keeps its node, its address and its volumes.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:shortName=crr
// +kubebuilder:printcolumn:name="PHASE",type=string,JSONPath=`.status.phase`,description="how far the request is"
// +kubebuilder:printcolumn:name="POD",type=string,JSONPath=`.spec.podName`,description="pod of the containers"
// +kubebuilder:printcolumn:name="NODE",type=string,JSONPath=`.metadata.labels.crr\.apps\.kruise\.io/node-name`,description="node of the pod"
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`,description="time since the ContainerRecreateRequest was created"
type ContainerRecreateRequest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	Spec ContainerRecreateRequestSpec `json:"spec"`
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
