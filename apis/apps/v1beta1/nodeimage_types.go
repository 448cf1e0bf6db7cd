package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LabelFakeNodeImage keeps a NodeImage without a node of its name.
const LabelFakeNodeImage = "apps.kruise.io/fake-nodeimage"

// NodeImageSpec says which images a node pulls.
type NodeImageSpec struct {
	// images by their names without tags and digests, such as nginx or registry.example/web, at most 256.
	// +optional
	// +kubebuilder:validation:MaxProperties=256
	// +kubebuilder:validation:XValidation:rule="self.all(name, size(name) > 0 && size(name) <= 1024)",message="the name of an image is empty or has more than 1024 characters: give the name without its tag, such as registry.example/web"
	Images map[string]ImageSpec `json:"images,omitempty"`
}

// ImageSpec says which tags of an image a node pulls.
type ImageSpec struct {
	// pullSecrets are the Secrets with credentials for the registry, at most 64. The daemon reads those that the agent
	// copied for running jobs. Default: none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	PullSecrets []PullSecretReference `json:"pullSecrets,omitempty"`
	// tags and digests to pull, each once, at most 256.
	// +listType=map
	// +listMapKey=tag
	// +kubebuilder:validation:MaxItems=256
	Tags []ImageTagSpec `json:"tags"`
	// sandboxConfig has labels and annotations of the pod sandbox that the container runtime pulls for. Default: none.
	// +optional
	SandboxConfig *SandboxConfig `json:"sandboxConfig,omitempty"`
}

// PullSecretReference names a Secret.
type PullSecretReference struct {
	// namespace of the Secret.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// name of the Secret.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// mode is batch for a Secret that is copied once for all jobs that use it.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Mode string `json:"mode,omitempty"`
}

// ImageTagSpec says how one tag of an image is pulled.
type ImageTagSpec struct {
	// tag of the image, such as 1.2, or a digest, such as sha256:….
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="size(self) > 0",message="tag is empty: give a tag or a digest, such as latest"
	Tag string `json:"tag"`
	// createdAt is when a job asked for this version of the tag. pullPolicy counts its times from it.
	// +optional
	CreatedAt *metav1.Time `json:"createdAt,omitempty"`
	// pullPolicy limits the pull, and says when the tag leaves the list.
	// +kubebuilder:validation:XValidation:rule="has(self.ttlSecondsAfterFinished)",message="pullPolicy has no ttlSecondsAfterFinished, so that the tag would stay in the list for ever: give it in seconds, such as 86400"
	PullPolicy *ImageTagPullPolicy `json:"pullPolicy"`
	// ownerReferences are the jobs that the tag is pulled for. A tag leaves the list when none of them exists.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	OwnerReferences []JobReference `json:"ownerReferences,omitempty"`
	// version of the request, 0 or more. A greater one pulls again. Default 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Version int64 `json:"version,omitempty"`
	// imagePullPolicy is Always (a pull asks the registry) or IfNotPresent (a node that has the image does not). Default
	// IfNotPresent.
	// +optional
	ImagePullPolicy ImagePullPolicy `json:"imagePullPolicy,omitempty"`
}

// ImageTagPullPolicy limits a pull, and says when its tag leaves the list.
type ImageTagPullPolicy struct {
	// timeoutSeconds is how long one attempt to pull may take, in seconds, at least 1. Default 600.
	// +optional
	// +kubebuilder:default=600
	// +kubebuilder:validation:Minimum=1
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`
	// backoffLimit is how many attempts follow a failed one, after waits of 1, 2, 4 … 30 seconds. Default 3.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=0
	BackoffLimit *int32 `json:"backoffLimit,omitempty"`
	// ttlSecondsAfterFinished is how long, in seconds, the tag stays in the list after its pull has ended.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
	// activeDeadlineSeconds is how long all attempts together may take, in seconds. Default: no limit.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`
}

// NodeImageStatus is what the daemon of the node has done. Counters are written also when they are zero.
type NodeImageStatus struct {
	// desired is the number of tags to pull.
	// +optional
	Desired int32 `json:"desired"`
	// succeeded is the number of tags that the node has.
	// +optional
	Succeeded int32 `json:"succeeded"`
	// failed is the number of tags that could not be pulled.
	// +optional
	Failed int32 `json:"failed"`
	// pulling is the number of tags that are being pulled.
	// +optional
	Pulling int32 `json:"pulling"`
	// waiting is the number of tags whose pull has not begun.
	// +optional
	Waiting int32 `json:"waiting"`
	// imageStatuses are the images by their names.
	// +optional
	ImageStatuses map[string]ImageStatus `json:"imageStatuses,omitempty"`
	// firstSyncStatus is written once, when all tags of the node have ended for the first time: the node is prepared.
	// +optional
	FirstSyncStatus *SyncStatus `json:"firstSyncStatus,omitempty"`
	// conditions are the observed aspects of the daemon, one of each type. Ready is False while it has no connection to
	// the container runtime. Flotilla's addition.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ImageStatus is what the node has of an image.
type ImageStatus struct {
	// tags and digests, each once.
	// +listType=map
	// +listMapKey=tag
	Tags []ImageTagStatus `json:"tags"`
}

// ImageTagStatus is the pull of one tag.
type ImageTagStatus struct {
	// tag of the image, or its digest.
	Tag string `json:"tag"`
	// phase is Waiting, Pulling, Succeeded or Failed.
	Phase ImagePullPhase `json:"phase"`
	// progress of the pull in percent, from 0 to 100. It is 0 until the pull has ended where the container runtime does
	// not report it.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Progress int32 `json:"progress,omitempty"`
	// startTime is when the first attempt began.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// completionTime is when the pull ended.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// version of the request that this is about.
	// +optional
	Version int64 `json:"version,omitempty"`
	// imageID is the image of the container runtime, as <name>@<id>.
	// +optional
	ImageID string `json:"imageID,omitempty"`
	// message is a sentence for people: what the registry or the container runtime answered.
	// +optional
	Message string `json:"message,omitempty"`
}

// ImagePullPhase says how far a pull is.
// +kubebuilder:validation:Enum=Waiting;Pulling;Succeeded;Failed
type ImagePullPhase string

// The phases of a pull.
const (
	ImagePhaseWaiting   ImagePullPhase = "Waiting"
	ImagePhasePulling   ImagePullPhase = "Pulling"
	ImagePhaseSucceeded ImagePullPhase = "Succeeded"
	ImagePhaseFailed    ImagePullPhase = "Failed"
)

// SyncStatus is the end of the first pulls of a node.
type SyncStatus struct {
	// syncAt is when they had ended.
	// +optional
	SyncAt metav1.Time `json:"syncAt,omitempty"`
	// status is Succeeded, or Failed if some tag could not be pulled.
	// +optional
	Status SyncStatusPhase `json:"status,omitempty"`
	// message is a sentence for people.
	// +optional
	Message string `json:"message,omitempty"`
}

// SyncStatusPhase is how the first pulls of a node ended.
type SyncStatusPhase string

// The ends.
const (
	SyncStatusSucceeded SyncStatusPhase = "Succeeded"
	SyncStatusFailed    SyncStatusPhase = "Failed"
)

// NodeImage lists the images that the daemon of the node of its name pulls, and what it has pulled. The agent writes
// its spec and the daemon its status.
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
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
	Spec NodeImageSpec `json:"spec,omitempty"`
	// status is the observed state.
	// +optional
	Status NodeImageStatus `json:"status,omitempty"`
}

// NodeImageList is a list of NodeImages.
// +kubebuilder:object:root=true
type NodeImageList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeImage `json:"items"`
}
