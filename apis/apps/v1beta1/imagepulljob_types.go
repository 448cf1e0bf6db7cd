package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	// AnnotationPullSecretSource is on a copy of a Secret for nodes: <namespace>/<name> of the original.
	AnnotationPullSecretSource = "imagepulljobs.kruise.io/source-key"
	// AnnotationPullSecretReferences is on a copy of a Secret for nodes: <namespace>/<name> of the ImagePullJobs that use
	// it, sorted, with commas between them.
	AnnotationPullSecretReferences = "imagepulljobs.kruise.io/references"
	// AnnotationPullSecretMode is on a copy of a Secret for nodes. Its value is PullSecretModeBatch.
	AnnotationPullSecretMode = "imagepulljobs.kruise.io/mode"
	// PullSecretModeBatch is the mode of a Secret that is copied once for all ImagePullJobs that use it.
	PullSecretModeBatch = "batch"
	// LabelImagePullJobUID is on pods that pull for an ImagePullJob: its UID.
	LabelImagePullJobUID = "apps.flotilla.dev/imagepulljob-uid"
	// FinalizerImagePullJob is on jobs of OpenKruise until the copies of their Secrets are released. Flotilla only takes
	// it away.
	FinalizerImagePullJob = "apps.kruise.io/deletion-protection"
)

// ImagePullJobTemplate says on which nodes, how and until when images are pulled.
// +kubebuilder:validation:XValidation:rule="!has(self.selector) || !has(self.podSelector)",fieldPath=".podSelector",message="selector and podSelector are both given, and each says on which nodes to pull: give one of them"
// +kubebuilder:validation:XValidation:rule="!has(self.parallelism) || @numberOrPercent{self.parallelism}",fieldPath=".parallelism",message="parallelism must be an integer of 0 or more, or a percentage from 0% to 100%",messageExpression="'parallelism is %s: it must be an integer of 0 or more, without quotes, or a percentage from 0%% to 100%% (an integer without leading zeros, and the sign %%)'.format([self.parallelism])"
// +kubebuilder:validation:XValidation:rule="!has(self.completionPolicy) || !has(self.completionPolicy.activeDeadlineSeconds) || self.completionPolicy.activeDeadlineSeconds >= (has(self.pullPolicy) && has(self.pullPolicy.timeoutSeconds) ? self.pullPolicy.timeoutSeconds : 600)",fieldPath=".completionPolicy.activeDeadlineSeconds",message="activeDeadlineSeconds is below pullPolicy.timeoutSeconds, which is 600 by default, so that no pull could use its time: raise it, or lower timeoutSeconds",messageExpression="'activeDeadlineSeconds is %d, below pullPolicy.timeoutSeconds, which is %d, so that no pull could use its time: raise it, or lower timeoutSeconds'.format([self.completionPolicy.activeDeadlineSeconds, has(self.pullPolicy) && has(self.pullPolicy.timeoutSeconds) ? self.pullPolicy.timeoutSeconds : 600])"
type ImagePullJobTemplate struct {
	// pullSecrets are names of Secrets of the job's namespace with credentials for the registries, at most 64. A Secret
	// that does not exist stops the job: condition Stalled names it. Default: none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	PullSecrets []string `json:"pullSecrets,omitempty"`
	// selector selects the nodes to pull on. Default: all nodes. Not together with podSelector.
	// +optional
	Selector *ImagePullJobNodeSelector `json:"selector,omitempty"`
	// podSelector selects pods of the job's namespace: images are pulled on their nodes. Not together with selector.
	// +optional
	PodSelector *metav1.LabelSelector `json:"podSelector,omitempty"`
	// parallelism is on how many nodes an image is pulled at the same time: a number, or a percentage of the nodes,
	// rounded up. 0 starts no pulls. Default 1. A change holds for the pulls that start later.
	// +optional
	// +kubebuilder:default=1
	Parallelism *intstr.IntOrString `json:"parallelism,omitempty"`
	// pullPolicy limits each pull.
	// +optional
	// +kubebuilder:default={}
	PullPolicy *PullPolicy `json:"pullPolicy,omitempty"`
	// completionPolicy says when the job ends.
	// +optional
	// +kubebuilder:default={}
	CompletionPolicy ImagePullCompletionPolicy `json:"completionPolicy,omitempty"`
	// sandboxConfig has labels and annotations of the pod sandbox that the container runtime pulls for. Some credential
	// helpers and mirrors of runtimes read them. Default: none.
	// +optional
	SandboxConfig *SandboxConfig `json:"sandboxConfig,omitempty"`
	// imagePullPolicy is Always (a pull asks the registry) or IfNotPresent (a node that has the image does not). Default
	// IfNotPresent.
	// +optional
	// +kubebuilder:default=IfNotPresent
	ImagePullPolicy ImagePullPolicy `json:"imagePullPolicy,omitempty"`
	// flotilla has what Flotilla adds to the published fields.
	// +optional
	Flotilla *ImagePullJobFlotilla `json:"flotilla,omitempty"`
}

// ImagePullJobFlotilla has what Flotilla adds to the published fields.
type ImagePullJobFlotilla struct {
	// pullBy is who pulls: Daemon (the daemon of each node, which flotilla-node is), Pod (a short pod on each node, in the
	// namespace of the job) or Auto (Daemon if the daemon of any node of the cluster has ever reported when the job
	// begins, else Pod). A change holds for jobs that begin later. Default Auto.
	// +optional
	// +kubebuilder:default=Auto
	PullBy ImagePuller `json:"pullBy,omitempty"`
}

// ImagePuller is who pulls images onto nodes.
// +kubebuilder:validation:Enum=Auto;Daemon;Pod;""
type ImagePuller string

// Who pulls images.
const (
	PullByAuto   ImagePuller = "Auto"
	PullByDaemon ImagePuller = "Daemon"
	PullByPod    ImagePuller = "Pod"
)

// ImagePullJobProgress is what Flotilla adds to the published status of an ImagePullJob.
type ImagePullJobProgress struct {
	// image is the image that the status describes. When spec.image changes, the job begins again with all nodes.
	// +optional
	Image string `json:"image,omitempty"`
	// pullBy is who pulls for this job: Daemon or Pod. It does not change.
	// +optional
	PullBy ImagePuller `json:"pullBy,omitempty"`
	// pulledNodes are the names of the nodes whose pods have pulled the image, sorted, at most 10000 of them. Their pods
	// are gone.
	// +optional
	// +listType=atomic
	PulledNodes []string `json:"pulledNodes,omitempty"`
}

// ImagePullPolicy says whether an image that a node has is pulled.
// +kubebuilder:validation:Enum=Always;IfNotPresent;""
type ImagePullPolicy string

// The pull policies.
const (
	PullAlways       ImagePullPolicy = "Always"
	PullIfNotPresent ImagePullPolicy = "IfNotPresent"
)

// ImagePullJobNodeSelector selects nodes by names or by labels.
// +kubebuilder:validation:XValidation:rule="!has(self.names) || size(self.names) == 0 || (!has(self.matchLabels) || size(self.matchLabels) == 0) && (!has(self.matchExpressions) || size(self.matchExpressions) == 0)",fieldPath=".names",message="names and labels both select nodes: give names, or matchLabels and matchExpressions"
type ImagePullJobNodeSelector struct {
	// names of nodes, at most 10000. A name without a node is left out until the node comes. Default: labels select the
	// nodes.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10000
	// +kubebuilder:validation:items:MaxLength=253
	Names                []string `json:"names,omitempty"`
	metav1.LabelSelector `json:",inline"`
}

// PullPolicy limits each pull of an image on a node.
type PullPolicy struct {
	// timeoutSeconds is how long one attempt to pull may take, in seconds, at least 1. Default 600.
	// +optional
	// +kubebuilder:default=600
	// +kubebuilder:validation:Minimum=1
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`
	// backoffLimit is how many attempts follow a failed one, after waits of 1, 2, 4 … 30 seconds. Then the node counts as
	// failed. Default 3.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=0
	BackoffLimit *int32 `json:"backoffLimit,omitempty"`
}

// ImagePullCompletionPolicy says when a job that pulls images ends.
// +kubebuilder:validation:XValidation:rule="!has(self.type) || self.type != 'Never' || !has(self.activeDeadlineSeconds)",fieldPath=".activeDeadlineSeconds",message="activeDeadlineSeconds does not go with type Never, which never ends the job: remove it, or use type Always"
// +kubebuilder:validation:XValidation:rule="!has(self.type) || self.type != 'Never' || !has(self.ttlSecondsAfterFinished)",fieldPath=".ttlSecondsAfterFinished",message="ttlSecondsAfterFinished does not go with type Never, which never ends the job: remove it, or use type Always"
type ImagePullCompletionPolicy struct {
	// type is Always (the job ends when every node has the image or has failed) or Never (the job goes on, also on nodes
	// that come later). Default Always.
	// +optional
	// +kubebuilder:default=Always
	Type CompletionPolicyType `json:"type,omitempty"`
	// activeDeadlineSeconds is how long the job may run, in seconds, at least pullPolicy.timeoutSeconds. Then it ends,
	// and nodes without the image count as failed. Default: no limit. It needs type Always.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`
	// ttlSecondsAfterFinished is how long, in seconds, the job is kept after its end; then it is deleted. Images stay on
	// the nodes. Default: the job is kept. It needs type Always.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// SandboxConfig has labels and annotations of a pod sandbox.
type SandboxConfig struct {
	// labels of the sandbox.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// annotations of the sandbox.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// ImagePullJobSpec says which image is pulled, and onto which nodes.
// +kubebuilder:validation:XValidation:rule="has(self.pullSecrets) == has(oldSelf.pullSecrets) && (!has(self.pullSecrets) || self.pullSecrets == oldSelf.pullSecrets)",fieldPath=".pullSecrets",message="pullSecrets cannot change, because nodes may be pulling with the old ones: set them back, or create an ImagePullJob of another name"
type ImagePullJobSpec struct {
	// image to pull: <registry>/<path>:<tag>, or @<digest>. Without a registry it is docker.io, and without a tag and a
	// digest latest.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="@imageReference{self}",message="image is no reference of an image: write for example registry.example/web:1.2",messageExpression="'image %s is no reference of an image: write a registry, a path in lower case and a tag or digest, such as registry.example/web:1.2, without a scheme'.format([self == '' ? '\"\"' : self])"
	Image                string `json:"image"`
	ImagePullJobTemplate `json:",inline"`
}

// ImagePullJobStatus is the observed state of an ImagePullJob. Counters are written also when they are zero.
type ImagePullJobStatus struct {
	// observedGeneration is the generation of the ImagePullJob that this status describes. Flotilla's addition.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// startTime is when the job began.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// completionTime is when the job ended.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// desired is the number of nodes to pull on.
	// +optional
	Desired int32 `json:"desired"`
	// active is the number of nodes that pull now or wait for their daemon to begin.
	// +optional
	Active int32 `json:"active"`
	// succeeded is the number of nodes that have the image.
	// +optional
	Succeeded int32 `json:"succeeded"`
	// failed is the number of nodes that could not pull the image.
	// +optional
	Failed int32 `json:"failed"`
	// message says how far the job is.
	// +optional
	Message string `json:"message,omitempty"`
	// failedNodes are the names of the nodes that could not pull the image, sorted, at most 10000 of them. On a hub they
	// are <member>/<node>.
	// +optional
	// +listType=atomic
	FailedNodes []string `json:"failedNodes,omitempty"`
	// flotilla is what Flotilla adds to the published status.
	// +optional
	Flotilla *ImagePullJobProgress `json:"flotilla,omitempty"`
	// observedSequence is Flotilla's addition: the annotation topology.flotilla.dev/sequence that the controller acts on.
	// An order of the hub may change its budget alone, which is an annotation and does not raise the generation.
	// +optional
	ObservedSequence int64 `json:"observedSequence,omitempty"`
	// conditions are the observed aspects of the job, one of each type: Ready, Reconciling and Stalled. Flotilla's
	// addition.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ImagePullJob pulls an image onto nodes, before pods need it there.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="TOTAL",type=integer,JSONPath=`.status.desired`,description="nodes to pull on"
// +kubebuilder:printcolumn:name="ACTIVE",type=integer,JSONPath=`.status.active`,description="nodes that pull now"
// +kubebuilder:printcolumn:name="SUCCEED",type=integer,JSONPath=`.status.succeeded`,description="nodes that have the image"
// +kubebuilder:printcolumn:name="FAILED",type=integer,JSONPath=`.status.failed`,description="nodes that could not pull it"
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`,description="time since the ImagePullJob was created"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.completionTime) || self.spec == oldSelf.spec",fieldPath=".spec",message="the job has ended, so that a change would do nothing: set spec back, or create an ImagePullJob of another name"
type ImagePullJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	Spec ImagePullJobSpec `json:"spec"`
	// status is the observed state.
	// +optional
	Status ImagePullJobStatus `json:"status,omitempty"`
}

// ImagePullJobList is a list of ImagePullJobs.
// +kubebuilder:object:root=true
type ImagePullJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ImagePullJob `json:"items"`
}

// ImageListPullJobSpec says which images are pulled, and onto which nodes.
type ImageListPullJobSpec struct {
	// images to pull, at least one and at most 255, each once. Each is written as image of an ImagePullJob.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=255
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=1024
	// +kubebuilder:validation:items:XValidation:rule="@imageReference{self}",message="this is no reference of an image: write for example registry.example/web:1.2",messageExpression="'image %s is no reference of an image: write a registry, a path in lower case and a tag or digest, such as registry.example/web:1.2, without a scheme'.format([self])"
	Images               []string `json:"images"`
	ImagePullJobTemplate `json:",inline"`
}

// ImageListPullJobStatus is the observed state of an ImageListPullJob. Counters are written also when they are zero.
type ImageListPullJobStatus struct {
	// observedGeneration is the generation of the ImageListPullJob that this status describes. Flotilla's addition.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// startTime is when the job began.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// completionTime is when the job ended.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// desired is the number of images, each of which has an ImagePullJob.
	// +optional
	Desired int32 `json:"desired"`
	// active is the number of images that are being pulled.
	// +optional
	Active int32 `json:"active"`
	// completed is the number of images whose ImagePullJob has ended.
	// +optional
	Completed int32 `json:"completed"`
	// succeeded is the number of images that all nodes have.
	// +optional
	Succeeded int32 `json:"succeeded"`
	// failedImageStatuses are the images that some nodes could not pull.
	// +optional
	// +listType=atomic
	FailedImageStatuses []FailedImageStatus `json:"failedImageStatuses,omitempty"`
	// conditions are the observed aspects of the job, one of each type: Ready, Reconciling and Stalled. Flotilla's
	// addition.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// FailedImageStatus is an image that some nodes could not pull.
type FailedImageStatus struct {
	// imagePullJob is the name of the ImagePullJob of the image.
	// +optional
	ImagePullJob string `json:"imagePullJob,omitempty"`
	// name of the image.
	// +optional
	Name string `json:"name,omitempty"`
	// message is a sentence for people.
	// +optional
	Message string `json:"message,omitempty"`
}

// ImageListPullJob pulls several images onto nodes, by an ImagePullJob for each.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="TOTAL",type=integer,JSONPath=`.status.desired`,description="images to pull"
// +kubebuilder:printcolumn:name="SUCCEEDED",type=integer,JSONPath=`.status.succeeded`,description="images that all nodes have"
// +kubebuilder:printcolumn:name="COMPLETED",type=integer,JSONPath=`.status.completed`,description="images whose pulls have ended"
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`,description="time since the ImageListPullJob was created"
type ImageListPullJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	Spec ImageListPullJobSpec `json:"spec"`
	// status is the observed state.
	// +optional
	Status ImageListPullJobStatus `json:"status,omitempty"`
}

// ImageListPullJobList is a list of ImageListPullJobs.
// +kubebuilder:object:root=true
type ImageListPullJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ImageListPullJob `json:"items"`
}
