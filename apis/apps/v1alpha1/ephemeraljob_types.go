package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// EnvEphemeralJob is an environment variable of the containers of an EphemeralJob: its UID.
	EnvEphemeralJob = "KRUISE_EJOB_ID"
	// FinalizerEphemeralJob is on an EphemeralJob whose containers are in pods.
	FinalizerEphemeralJob = "apps.kruise.io/ephemeralcontainers-cleanup"
)

// EphemeralJobSpec says which containers are added to which running pods.
type EphemeralJobSpec struct {
	// selector selects the pods by their labels, in the namespace of the job. Pods that come later are taken too, up to
	// replicas.
	// +kubebuilder:validation:XValidation:rule="has(self.matchLabels) && size(self.matchLabels) > 0 || has(self.matchExpressions) && size(self.matchExpressions) > 0",message="selector is empty, so that it would select every pod of the namespace: name labels"
	Selector *metav1.LabelSelector `json:"selector"`
	// replicas is the number of pods that get the containers, the oldest first. Default: all that selector selects.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`
	// parallelism is the number of pods in which the containers run at the same time. 0 starts no more. Default 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	Parallelism *int32 `json:"parallelism,omitempty"`
	// template has the containers. Kubernetes cannot remove them from a pod again. A change holds for the pods that
	// follow.
	Template EphemeralContainerTemplateSpec `json:"template"`
	// paused adds the containers to no more pods. Running ones go on. Default false.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// activeDeadlineSeconds is how long the job may run, in seconds, at least 1. Then it has failed, and its containers
	// go on in their pods. Default: no limit.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`
	// ttlSecondsAfterFinished is how long, in seconds, the job is kept after its end; then it is deleted. Its containers
	// stay in their pods. Default 1800.
	// +optional
	// +kubebuilder:default=1800
	// +kubebuilder:validation:Minimum=0
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// EphemeralContainerTemplateSpec has the containers of an EphemeralJob.
type EphemeralContainerTemplateSpec struct {
	// ephemeralContainers are added to the pods (core/v1 EphemeralContainers), at least one and at most 32, each with its
	// own name. They have no ports, resources, probes and hooks.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	EphemeralContainers []corev1.EphemeralContainer `json:"ephemeralContainers"`
}

// EphemeralJobPhase says how far an EphemeralJob is.
type EphemeralJobPhase string

// The phases, as published.
const (
	EphemeralJobWaiting   EphemeralJobPhase = "Waiting"
	EphemeralJobRunning   EphemeralJobPhase = "Running"
	EphemeralJobSucceeded EphemeralJobPhase = "Succeeded"
	EphemeralJobFailed    EphemeralJobPhase = "Failed"
	EphemeralJobPaused    EphemeralJobPhase = "Paused"
	EphemeralJobUnknown   EphemeralJobPhase = "Unknown"
	EphemeralJobError     EphemeralJobPhase = "Error"
)

// EphemeralJobConditionType names a condition of an EphemeralJob.
type EphemeralJobConditionType string

// OpenKruise's own conditions of an EphemeralJob.
const (
	EphemeralJobConditionInitialized  EphemeralJobConditionType = "Initialized"
	EphemeralJobConditionSucceeded    EphemeralJobConditionType = "JobSucceeded"
	EphemeralJobConditionFailed       EphemeralJobConditionType = "JobFailed"
	EphemeralJobConditionError        EphemeralJobConditionType = "JobError"
	EphemeralJobConditionMatchedEmpty EphemeralJobConditionType = "MatchedEmpty"
)

// EphemeralJobCondition is one observed aspect of an EphemeralJob.
type EphemeralJobCondition struct {
	// type of the condition: Ready, Reconciling, Stalled, and OpenKruise's Initialized, JobSucceeded, JobFailed, JobError
	// and MatchedEmpty.
	// +kubebuilder:validation:MaxLength=316
	Type EphemeralJobConditionType `json:"type"`
	// status of the condition: True, False or Unknown.
	Status corev1.ConditionStatus `json:"status"`
	// lastProbeTime is when the condition was last updated.
	// +optional
	LastProbeTime metav1.Time `json:"lastProbeTime,omitempty"`
	// lastTransitionTime is when status changed last.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`
	// reason is a stable word in CamelCase for programs.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message is a sentence for people.
	// +optional
	Message string `json:"message,omitempty"`
}

// EphemeralJobStatus is the observed state of an EphemeralJob. Counters are written also when they are zero.
type EphemeralJobStatus struct {
	// observedGeneration is the generation of the EphemeralJob that this status describes. Flotilla's addition.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions are the observed aspects of the job, one of each type.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []EphemeralJobCondition `json:"conditions,omitempty"`
	// startTime is when the job began.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// completionTime is when the job ended.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// phase is Waiting, Running, Succeeded, Failed, Paused, Unknown or Error.
	// +optional
	Phase EphemeralJobPhase `json:"phase,omitempty"`
	// match is the number of pods that selector selects.
	// +optional
	Match int32 `json:"match"`
	// running is the number of pods in which containers of the job run.
	// +optional
	Running int32 `json:"running"`
	// succeeded is the number of pods in which all containers of the job ended with exit code 0.
	// +optional
	Succeeded int32 `json:"succeeded"`
	// waiting is the number of pods in which containers of the job have not started.
	// +optional
	Waiting int32 `json:"waiting"`
	// failed is the number of pods in which a container of the job could not start or ended with another exit code.
	// +optional
	Failed int32 `json:"failed"`
}

// EphemeralJob runs ephemeral containers in pods that run already, to look into them or to repair them.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=ejob
// +kubebuilder:printcolumn:name="STATUS",type=string,JSONPath=`.status.phase`,description="how far the job is"
// +kubebuilder:printcolumn:name="MATCH",type=integer,JSONPath=`.status.match`,description="pods that the job selects"
// +kubebuilder:printcolumn:name="SUCCEED",type=integer,JSONPath=`.status.succeeded`,description="pods whose containers succeeded"
// +kubebuilder:printcolumn:name="FAILED",type=integer,JSONPath=`.status.failed`,description="pods with a container that failed"
// +kubebuilder:printcolumn:name="RUNNING",type=integer,JSONPath=`.status.running`,description="pods whose containers run"
// +kubebuilder:printcolumn:name="WAITING",type=integer,JSONPath=`.status.waiting`,description="pods whose containers have not started"
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`,description="time since the EphemeralJob was created"
type EphemeralJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	Spec EphemeralJobSpec `json:"spec"`
	// status is the observed state.
	// +optional
	Status EphemeralJobStatus `json:"status,omitempty"`
}

// EphemeralJobList is a list of EphemeralJobs.
// +kubebuilder:object:root=true
type EphemeralJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EphemeralJob `json:"items"`
}
