package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	// LabelBroadcastJobName is on the pods of a BroadcastJob: its name.
	LabelBroadcastJobName = "broadcastjob-name"
	// LabelBroadcastJobUID is on the pods of a BroadcastJob: its UID.
	LabelBroadcastJobUID = "broadcastjob-controller-uid"

	// LabelBatch is on the pods of a BroadcastJob with batches: the number of the batch.
	LabelBatch = "topology.flotilla.dev/batch"
	// LabelBatchCheck is on the pods of checks of batches: the name of the check.
	LabelBatchCheck = "topology.flotilla.dev/batch-check"
	// AnnotationRestarts is on the pods of a BroadcastJob with maxRestarts: how often containers of the other pods on the
	// node had restarted before, as "<uid>=<restarts>" with commas between. Pods without restarts are left out.
	AnnotationRestarts = "topology.flotilla.dev/restarts-before"
	// AnnotationResume on a BroadcastJob that halted lets it go on: status.flotilla.halted.time, or a later time.
	// flotilla rollout resume writes it.
	AnnotationResume = "topology.flotilla.dev/resume"
	// AnnotationPromote on a BroadcastJob is the number of a batch after which the next one begins without a soak and
	// whatever the checks say. flotilla rollout promote writes it.
	AnnotationPromote = "topology.flotilla.dev/promote"
)

// BroadcastJobSpec is the spec of a BroadcastJob, and of the children of an AdvancedCronJob with broadcastJobTemplate.
// The schema gives defaults to BroadcastJobs only.
// +kubebuilder:validation:XValidation:rule="!has(self.parallelism) || @numberOrPercent{self.parallelism}",fieldPath=".parallelism",message="parallelism must be an integer of 0 or more, or a percentage from 0% to 100%",messageExpression="'parallelism is %s: it must be an integer of 0 or more, without quotes, or a percentage from 0%% to 100%% (an integer without leading zeros, and the sign %%)'.format([self.parallelism])"
// +kubebuilder:validation:XValidation:rule="!has(self.template.metadata) || !has(self.template.metadata.labels) || !('broadcastjob-name' in self.template.metadata.labels || 'broadcastjob-controller-uid' in self.template.metadata.labels)",fieldPath=".template",message="the labels broadcastjob-name and broadcastjob-controller-uid of template.metadata.labels are set for each job: remove them"
type BroadcastJobSpec struct {
	// parallelism is on how many nodes the pods may run at the same time: a number, or a percentage of the nodes, rounded
	// up. Default 2147483647: on all nodes. 0 creates no pods. On a hub it is the limit over all clusters together.
	// +optional
	// +kubebuilder:default=2147483647
	Parallelism *intstr.IntOrString `json:"parallelism,omitempty"`
	// template is the template of the pods (a core/v1 PodTemplateSpec). One pod runs on each node that its nodeName,
	// nodeSelector, required node affinity, tolerations and requests allow. restartPolicy is Never or OnFailure, which is
	// the default.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Template PodTemplate `json:"template"`
	// completionPolicy says when the job ends.
	// +optional
	// +kubebuilder:default={}
	CompletionPolicy CompletionPolicy `json:"completionPolicy,omitempty"`
	// paused creates no more pods. Running pods go on. Default false.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// failurePolicy says what follows a failed pod.
	// +optional
	// +kubebuilder:default={}
	FailurePolicy FailurePolicy `json:"failurePolicy,omitempty"`
	// flotilla has fields that Flotilla adds to the published ones. Default: none.
	// +optional
	Flotilla *BroadcastJobFlotilla `json:"flotilla,omitempty"`
}

// CompletionPolicyType says when a job ends.
// +kubebuilder:validation:Enum=Always;Never;""
type CompletionPolicyType string

// The completion policies.
const (
	// AlwaysCompletionPolicyType: the job ends when the pods of all nodes have ended.
	AlwaysCompletionPolicyType CompletionPolicyType = "Always"
	// NeverCompletionPolicyType: the job goes on, also on nodes that come later.
	NeverCompletionPolicyType CompletionPolicyType = "Never"
)

// CompletionPolicy says when a job ends.
// +kubebuilder:validation:XValidation:rule="!has(self.type) || self.type != 'Never' || !has(self.activeDeadlineSeconds)",fieldPath=".activeDeadlineSeconds",message="activeDeadlineSeconds does not go with type Never, which never ends the job: remove it, or use type Always"
// +kubebuilder:validation:XValidation:rule="!has(self.type) || self.type != 'Never' || !has(self.ttlSecondsAfterFinished)",fieldPath=".ttlSecondsAfterFinished",message="ttlSecondsAfterFinished does not go with type Never, which never ends the job: remove it, or use type Always"
type CompletionPolicy struct {
	// type is Always (the job ends when the pods of all nodes have ended) or Never (the job goes on, also on nodes that
	// come later). Default Always.
	// +optional
	// +kubebuilder:default=Always
	Type CompletionPolicyType `json:"type,omitempty"`
	// activeDeadlineSeconds is how long the job may run, in seconds; then it fails and its pods are deleted. Default: no
	// limit. It needs type Always.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`
	// ttlSecondsAfterFinished is how long, in seconds, the job is kept after its end; then it is deleted. Default: it is
	// kept. It needs type Always.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// FailurePolicyType says what follows a failed pod.
// +kubebuilder:validation:Enum=FailFast;Continue;Pause;""
type FailurePolicyType string

// The failure policies.
const (
	// FailFastFailurePolicyType: the job fails, and its other pods are deleted.
	FailFastFailurePolicyType FailurePolicyType = "FailFast"
	// ContinueFailurePolicyType: the job goes on.
	ContinueFailurePolicyType FailurePolicyType = "Continue"
	// PauseFailurePolicyType: the job creates no more pods until a person resumes it.
	PauseFailurePolicyType FailurePolicyType = "Pause"
)

// FailurePolicy says what follows a failed pod.
type FailurePolicy struct {
	// type is FailFast (the job fails, and its running pods are deleted), Continue (the job goes on) or Pause (no more
	// pods are created until a person resumes the job; running pods go on). Default FailFast. On a hub a failure in one
	// cluster counts in all.
	// +optional
	// +kubebuilder:default=FailFast
	Type FailurePolicyType `json:"type,omitempty"`
	// restartLimit is how many times the containers of a pod with restartPolicy OnFailure may restart, all together,
	// before the pod has failed. Default 0: the first restart fails it.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RestartLimit int32 `json:"restartLimit,omitempty"`
}

// BroadcastJobFlotilla has fields that Flotilla adds to a BroadcastJob.
type BroadcastJobFlotilla struct {
	// batches runs the job on some nodes at a time, and looks at the result before the next nodes. Default: on all nodes,
	// as parallelism allows.
	// +optional
	Batches *BroadcastJobBatches `json:"batches,omitempty"`
}

// BroadcastJobBatches divides the nodes into batches. The next batch begins when the pods of the previous one have
// ended, soak is over and the checks hold. If a check does not hold, the job halts: it touches no further node until a
// person resumes it. failurePolicy says what follows a failed pod.
// +kubebuilder:validation:XValidation:rule="self.size != 0 && self.size != '0%' && @numberOrPercent{self.size}",fieldPath=".size",message="size must be a number of nodes from 1, or a percentage from 1% to 100%: correct it",messageExpression="'size is %s: it must be a number of nodes from 1, or a percentage from 1%% to 100%%: correct it'.format([self.size])"
type BroadcastJobBatches struct {
	// size is how many nodes a batch has: a number, or a percentage of the nodes that the job runs on, rounded up.
	Size intstr.IntOrString `json:"size"`
	// orderBy is a label of nodes, such as topology.kubernetes.io/zone: nodes with the lowest values of it come first, and
	// nodes without it last. Default: nodes are ordered by their names alone.
	// +optional
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')",message="orderBy is no key of a label: write for example topology.kubernetes.io/zone",messageExpression="'orderBy %s is no key of a label: write for example topology.kubernetes.io/zone'.format([self])"
	OrderBy string `json:"orderBy,omitempty"`
	// soak is how long the checks have to hold after the last pod of a batch has ended, such as 10m. Up to 720h.
	// Default 0s.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}(h|m|s)){1,3}$') && duration(self) <= duration('720h')",message="soak is no duration of up to 720h: write hours, minutes and seconds, such as 10m or 1h30m",messageExpression="'soak %s is no duration of up to 720h: write hours, minutes and seconds, such as 10m or 1h30m'.format([self])"
	Soak string `json:"soak,omitempty"`
	// maxRestarts is how many times containers of other pods on a node may restart between the creation of the job's pod
	// there and the end of soak. One more halts the job. Default: restarts are not counted.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MaxRestarts *int32 `json:"maxRestarts,omitempty"`
	// checks have to hold after each batch, from the end of its last pod to the end of soak. They are looked at about
	// every 10 s.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Checks []BatchCheck `json:"checks,omitempty"`
}

// BatchCheck is what has to hold after a batch: an expression over each of its nodes, an answer by HTTP, or a pod that
// has to succeed on each of its nodes.
// +kubebuilder:validation:XValidation:rule="[has(self.expression), has(self.http), has(self.pod)].filter(given, given).size() == 1",message="a check has one of expression, http and pod: give one of them",messageExpression="'check %s has %d of expression, http and pod: give one of them'.format([self.name, [has(self.expression), has(self.http), has(self.pod)].filter(given, given).size()])"
type BatchCheck struct {
	// name of the check, for messages and as a label of its pods.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')",message="name is no value of a label: use letters, digits, and between them -, _ and .",messageExpression="'name %s is no value of a label: use letters, digits, and between them -, _ and .'.format([self])"
	Name string `json:"name"`
	// expression in CEL that is true where the check holds. Its variables are node (the Node) and pods (the other pods on
	// it), such as: node.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	Expression string `json:"expression,omitempty"`
	// http is an address that is asked once for the whole batch.
	// +optional
	HTTP *BatchHTTP `json:"http,omitempty"`
	// pod is a pod that has to succeed on each node of the batch.
	// +optional
	Pod *BatchPod `json:"pod,omitempty"`
	// patience is for how long at a time the check may not hold before the job halts, and how long a pod may take. A pod
	// that fails halts the job at once. Up to 720h. Default 1m.
	// +optional
	// +kubebuilder:default="1m"
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}(h|m|s)){1,3}$') && duration(self) <= duration('720h')",message="patience is no duration of up to 720h: write hours, minutes and seconds, such as 10m or 1h30m",messageExpression="'patience %s is no duration of up to 720h: write hours, minutes and seconds, such as 10m or 1h30m'.format([self])"
	Patience string `json:"patience,omitempty"`
}

// BatchHTTP is an address that is asked with GET, without credentials. Redirects are not followed, and more than 64 KiB
// is no answer.
type BatchHTTP struct {
	// url to ask, of the scheme http or https.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^https?://[^/?#\\\\x40\\\\s]+([/?#][^\\\\s]*)?$') && isURL(self)",message="url is no address that can be asked: write http:// or https://, a host, and a path, without a user's name",messageExpression="'url %s is no address that can be asked: write http:// or https://, a host, and a path, without a user\\'s name'.format([self])"
	URL string `json:"url"`
	// expression in CEL that is true where the check holds. Its variables are status (the number of the answer), text
	// (what was answered) and json (the same read as JSON, null where it is none). Default: status == 200
	// +optional
	// +kubebuilder:default="status == 200"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	Expression string `json:"expression,omitempty"`
	// caBundle are the authorities, as PEM in base64, that the server's certificate may be of. Default: those that the
	// system of the agent trusts.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	CABundle []byte `json:"caBundle,omitempty"`
}

// BatchPod is a pod that has to succeed on each node of a batch.
type BatchPod struct {
	// template of the pod (a core/v1 PodTemplateSpec). restartPolicy is Never or OnFailure, which is the default.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Template PodTemplate `json:"template"`
}

// BroadcastJobPhase is what a BroadcastJob does.
type BroadcastJobPhase string

// The phases, as published.
const (
	PhaseRunning   BroadcastJobPhase = "running"
	PhaseCompleted BroadcastJobPhase = "completed"
	PhasePaused    BroadcastJobPhase = "paused"
	PhaseFailed    BroadcastJobPhase = "failed"
)

// JobConditionType names a condition of a BroadcastJob.
type JobConditionType string

// OpenKruise's own conditions of a BroadcastJob.
const (
	// JobComplete is True when the job has ended, also with failed pods under failurePolicy Continue.
	JobComplete JobConditionType = "Complete"
	// JobFailed is True when the job has failed.
	JobFailed JobConditionType = "Failed"
)

// JobCondition is one observed aspect of a BroadcastJob or an AdvancedCronJob.
type JobCondition struct {
	// type of the condition: Ready, Progressing, Reconciling, Stalled, Federated on a hub, and Complete and Failed of a
	// BroadcastJob.
	// +kubebuilder:validation:MaxLength=316
	Type JobConditionType `json:"type"`
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

// BroadcastJobStatus is the observed state of a BroadcastJob. Counters are written also when they are zero. On a hub
// they are sums over all clusters.
type BroadcastJobStatus struct {
	// observedGeneration is the generation of the BroadcastJob that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions are the observed aspects, one of each type.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []JobCondition `json:"conditions,omitempty"`
	// startTime is when the job began.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// completionTime is when the job ended, completed or failed.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// active is the number of pods that run or wait for their start.
	// +optional
	Active int32 `json:"active"`
	// succeeded is the number of pods that succeeded.
	// +optional
	Succeeded int32 `json:"succeeded"`
	// failed is the number of pods that failed.
	// +optional
	Failed int32 `json:"failed"`
	// desired is the number of nodes that should run a pod.
	// +optional
	Desired int32 `json:"desired"`
	// phase is running, completed, paused or failed.
	// +optional
	Phase BroadcastJobPhase `json:"phase,omitempty"`
	// flotilla is how far the batches of spec.flotilla are, and why the job halted.
	// +optional
	Flotilla *BroadcastJobProgress `json:"flotilla,omitempty"`
	// observedSequence is Flotilla's addition: the annotation topology.flotilla.dev/sequence that the controller acts on.
	// An order of the hub may change its budget alone, which is an annotation and does not raise the generation.
	// +optional
	ObservedSequence int64 `json:"observedSequence,omitempty"`
	// nodeCounts is Flotilla's addition: what the job uses of the budget that a hub granted it. Absent without a hub.
	// +optional
	NodeCounts *BroadcastJobNodeCounts `json:"nodeCounts,omitempty"`
}

// BroadcastJobNodeCounts are counts of nodes by which a hub divides parallelism and batches over clusters.
type BroadcastJobNodeCounts struct {
	// active is how many pods have not ended, with those that are being deleted.
	Active int32 `json:"active"`
	// touched is how many nodes have a pod, ended or not.
	Touched int32 `json:"touched"`
	// proven is how many nodes have a pod that has ended, without those of a batch whose checks do not hold.
	Proven int32 `json:"proven"`
}

// BroadcastJobProgress is how far the batches are, and why the job halted. It changes only with what it says, never
// with time alone.
type BroadcastJobProgress struct {
	// batch is the number of the batch under way, from 1. Pods have it as a label.
	// +optional
	Batch int32 `json:"batch,omitempty"`
	// batchTime is when the batch began.
	// +optional
	BatchTime *metav1.Time `json:"batchTime,omitempty"`
	// soakTime is when the last pod of the batch had ended: soak begins then.
	// +optional
	SoakTime *metav1.Time `json:"soakTime,omitempty"`
	// left is how many nodes without a pod the batch leaves for later batches, in a cluster without a hub. If a node of
	// the batch is deleted, no other node takes its place.
	// +optional
	Left int32 `json:"left,omitempty"`
	// halted says why the job halted. Default: it has not.
	// +optional
	Halted *BroadcastJobHalt `json:"halted,omitempty"`
	// excusedFailures is how many failed pods do not halt the job, because a person resumed it after them.
	// +optional
	ExcusedFailures int32 `json:"excusedFailures,omitempty"`
	// excusedChecks reports whether the checks of the batch under way do not count, because a person resumed the job.
	// +optional
	ExcusedChecks bool `json:"excusedChecks,omitempty"`
}

// BroadcastJobHalt says when and why a job halted.
type BroadcastJobHalt struct {
	// time is when the job halted. A resume after it lets the job go on.
	Time metav1.Time `json:"time"`
	// reason is a stable word in CamelCase for programs.
	Reason string `json:"reason"`
	// message is a sentence for people: the node, the check or pod, and what was found.
	Message string `json:"message"`
}

// BroadcastJob runs one pod on each node that fits it, to its end.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=bcj
// +kubebuilder:storageversion
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
	Spec BroadcastJobSpec `json:"spec"`
	// status is the observed state.
	// +optional
	Status BroadcastJobStatus `json:"status,omitempty"`
}

// BroadcastJobList is a list of BroadcastJobs.
// +kubebuilder:object:root=true
type BroadcastJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []BroadcastJob `json:"items"`
}
