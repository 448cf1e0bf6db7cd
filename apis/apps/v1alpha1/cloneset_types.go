package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// CloneSetSpec says what a CloneSet runs and how it changes.
// +kubebuilder:validation:XValidation:rule="!has(self.progressDeadlineSeconds) || self.progressDeadlineSeconds == 2147483647 || self.progressDeadlineSeconds > (has(self.minReadySeconds) ? self.minReadySeconds : 0)",fieldPath=".progressDeadlineSeconds",message="progressDeadlineSeconds must be greater than minReadySeconds: raise it, or remove it to watch no deadline",messageExpression="'progressDeadlineSeconds is %d, which is not greater than minReadySeconds: raise it, or remove it to watch no deadline'.format([self.progressDeadlineSeconds])"
type CloneSetSpec struct {
	// replicas is the number of pods to run. Default 1. Surge pods of an update come on top of it.
	// On a hub it is the number over all clusters together.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`
	// selector finds the pods that belong to this CloneSet. It must match the labels of template, it cannot be empty, and
	// it cannot change later.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// template is what the pods are made from (a core/v1 PodTemplateSpec). A change makes a new revision, which
	// updateStrategy brings to the pods. Its labels must match selector; restartPolicy is Always or left out.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Template v1beta1.PodTemplate `json:"template"`
	// volumeClaimTemplates are claims that every pod gets of its own (core/v1 PersistentVolumeClaims), named
	// "<claim template>-<CloneSet>-<instance id>". A change holds for claims that are made after it.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	VolumeClaimTemplates []corev1.PersistentVolumeClaim `json:"volumeClaimTemplates,omitempty"`
	// scaleStrategy says which pods go first, and how fast new ones come.
	// +optional
	ScaleStrategy CloneSetScaleStrategy `json:"scaleStrategy,omitempty"`
	// updateStrategy says how pods get a new revision of template.
	// +optional
	// +kubebuilder:default={}
	UpdateStrategy CloneSetUpdateStrategy `json:"updateStrategy,omitempty"`
	// revisionHistoryLimit is how many old revisions are kept to go back to, beside those that pods still use. Default 10.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=0
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
	// minReadySeconds is how long a pod must have been ready, in seconds, before it counts as available. Default 0: at
	// once. Updates and scale-ins wait for available pods.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`
	// lifecycle holds pods at moments of their life until something outside has done its work. Default: no hooks.
	// +optional
	Lifecycle *v1beta1.Lifecycle `json:"lifecycle,omitempty"`
	// progressDeadlineSeconds is how long an update may make no progress, in seconds, before condition Progressing turns
	// False with reason ProgressDeadlineExceeded. It must be greater than minReadySeconds. Default: no deadline, and no
	// condition Progressing; 2147483647 means the same. Time in which the update is paused does not count.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`
}

// CloneSetScaleStrategy says which pods go, and how fast pods come.
// +kubebuilder:validation:XValidation:rule="!has(self.maxUnavailable) || @numberOrPercent{self.maxUnavailable}",fieldPath=".maxUnavailable",message="maxUnavailable must be an integer of 0 or more, or a percentage from 0% to 100%",messageExpression="'maxUnavailable is %s: it must be an integer of 0 or more, without quotes, or a percentage from 0%% to 100%% (an integer without leading zeros, and the sign %%)'.format([self.maxUnavailable])"
type CloneSetScaleStrategy struct {
	// podsToDelete are names of pods that go first: when replicas falls these are taken, when it stays they are replaced.
	// Names of pods that are gone are removed from the list.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=10000
	// +kubebuilder:validation:items:MaxLength=253
	PodsToDelete []string `json:"podsToDelete,omitempty"`
	// maxUnavailable is how many pods may be unavailable while new ones are made: a number, or a percentage of replicas
	// that rounds up. Default: no limit. It bounds scaling out only; updateStrategy has a limit of its own.
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// disablePVCReuse deletes the claims of a pod together with it. Default false: claims of a pod that was deleted are
	// kept, and the next pod gets its instance id and its claims. v1beta1 has the opposite default.
	// +optional
	DisablePVCReuse bool `json:"disablePVCReuse,omitempty"`
}

// CloneSetUpdateStrategyType is how a pod gets a new revision.
// +kubebuilder:validation:Enum=ReCreate;InPlaceIfPossible;InPlaceOnly;OnDelete;""
type CloneSetUpdateStrategyType string

// The update strategies.
const (
	RecreateCloneSetUpdateStrategyType          CloneSetUpdateStrategyType = "ReCreate"
	InPlaceIfPossibleCloneSetUpdateStrategyType CloneSetUpdateStrategyType = "InPlaceIfPossible"
	InPlaceOnlyCloneSetUpdateStrategyType       CloneSetUpdateStrategyType = "InPlaceOnly"
	OnDeleteCloneSetUpdateStrategyType          CloneSetUpdateStrategyType = "OnDelete"
)

// CloneSetUpdateStrategy says how pods get a new template.
// +kubebuilder:validation:XValidation:rule="!(has(self.type) && self.type == 'InPlaceOnly' && has(self.maxSurge) && self.maxSurge != 0 && self.maxSurge != '0%')",fieldPath=".maxSurge",message="maxSurge does not go with type InPlaceOnly, which makes no new pods: remove maxSurge, or use InPlaceIfPossible"
type CloneSetUpdateStrategy struct {
	// type is ReCreate (a pod is replaced), InPlaceIfPossible (changes of images, labels, annotations, cpu and memory are
	// made on the running pod, anything else replaces it), InPlaceOnly (a change that cannot be made on the running pod is
	// not carried out) or OnDelete (a pod gets the new revision when somebody deletes it). Default ReCreate.
	// +optional
	// +kubebuilder:default=ReCreate
	Type CloneSetUpdateStrategyType `json:"type,omitempty"`
	// The limits and the order of the update stand beside the type.
	CloneSetUpdateLimits `json:",inline"`
}

// CloneSetUpdateLimits are the limits and the order of an update: what v1beta1 has in rollingUpdate. Type OnDelete does
// not use them.
// +kubebuilder:validation:XValidation:rule="!(has(self.maxUnavailable) && (self.maxUnavailable == 0 || self.maxUnavailable == '0%') && (!has(self.maxSurge) || self.maxSurge == 0 || self.maxSurge == '0%'))",message="maxUnavailable and maxSurge are both 0, so that no pod could ever be updated: raise one of them, or set paused to hold the update"
// +kubebuilder:validation:XValidation:rule="!has(self.partition) || @numberOrPercent{self.partition}",fieldPath=".partition",message="partition must be an integer of 0 or more, or a percentage from 0% to 100%",messageExpression="'partition is %s: it must be an integer of 0 or more, without quotes, or a percentage from 0%% to 100%% (an integer without leading zeros, and the sign %%)'.format([self.partition])"
// +kubebuilder:validation:XValidation:rule="!has(self.maxUnavailable) || @numberOrPercent{self.maxUnavailable}",fieldPath=".maxUnavailable",message="maxUnavailable must be an integer of 0 or more, or a percentage from 0% to 100%",messageExpression="'maxUnavailable is %s: it must be an integer of 0 or more, without quotes, or a percentage from 0%% to 100%% (an integer without leading zeros, and the sign %%)'.format([self.maxUnavailable])"
// +kubebuilder:validation:XValidation:rule="!has(self.maxSurge) || (type(self.maxSurge) == int ? self.maxSurge >= 0 : self.maxSurge.matches('^[0-9]+%$'))",fieldPath=".maxSurge",message="maxSurge must be an integer of 0 or more, or a percentage",messageExpression="'maxSurge is %s: it must be an integer of 0 or more, without quotes, or a percentage (an integer and the sign %%)'.format([self.maxSurge])"
type CloneSetUpdateLimits struct {
	// partition is how many pods stay on the old revision: a number, or a percentage of replicas that rounds up, where
	// less than 100% leaves at least one pod to update if there is more than one. Default 0: all pods are updated. Lower
	// it step by step for a canary. On a hub it counts over all clusters together.
	// +optional
	// +kubebuilder:default=0
	Partition *intstr.IntOrString `json:"partition,omitempty"`
	// maxUnavailable is how many pods may be unavailable during the update: a number, or a percentage of replicas that
	// rounds up if maxSurge is 0, else down. Default 20%. Not together with maxSurge 0 at 0. On a hub it counts over all
	// clusters together.
	// +optional
	// +kubebuilder:default="20%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// maxSurge is how many pods there may be above replicas during the update: a number, or a percentage of replicas that
	// rounds up and may exceed 100%. Default 0. It is for pods that are replaced: pods that are updated in place need
	// none. On a hub it counts over all clusters together.
	// +optional
	// +kubebuilder:default=0
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`
	// paused stops the update where it stands. Scaling goes on. Default false.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// priorityStrategy says which pods are updated first. Default: those that are not ready, then the newest.
	// +optional
	PriorityStrategy *v1beta1.UpdatePriorityStrategy `json:"priorityStrategy,omitempty"`
	// scatterStrategy spreads pods with certain label values over the whole update, after priorityStrategy. Each pair of
	// key and value may stand once.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, a.key == b.key && a.value == b.value))",message="scatterStrategy names the same key and value twice: remove one of them"
	ScatterStrategy []v1beta1.UpdateScatterTerm `json:"scatterStrategy,omitempty"`
	// inPlaceUpdateStrategy tunes updates on the running pod.
	// +optional
	InPlaceUpdateStrategy *v1beta1.InPlaceUpdateStrategy `json:"inPlaceUpdateStrategy,omitempty"`
}

// CloneSet runs interchangeable pods of one template, with updates in place, partitions and scale-in of chosen pods.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.labelSelector
// +kubebuilder:resource:shortName=clone
// +kubebuilder:printcolumn:name="DESIRED",type=integer,JSONPath=`.spec.replicas`,description="pods that are asked for"
// +kubebuilder:printcolumn:name="UPDATED",type=integer,JSONPath=`.status.updatedReplicas`,description="pods of the newest revision"
// +kubebuilder:printcolumn:name="UPDATED_READY",type=integer,JSONPath=`.status.updatedReadyReplicas`,description="pods of the newest revision that are ready"
// +kubebuilder:printcolumn:name="UPDATED_AVAILABLE",type=integer,JSONPath=`.status.updatedAvailableReplicas`,description="pods of the newest revision that are available"
// +kubebuilder:printcolumn:name="READY",type=integer,JSONPath=`.status.readyReplicas`,description="pods that are ready"
// +kubebuilder:printcolumn:name="TOTAL",type=integer,JSONPath=`.status.replicas`,description="pods that exist"
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`,description="time since the CloneSet was made"
// +kubebuilder:printcolumn:name="CONTAINERS",type=string,priority=1,JSONPath=`.spec.template.spec.containers[*].name`,description="containers of the template"
// +kubebuilder:printcolumn:name="IMAGES",type=string,priority=1,JSONPath=`.spec.template.spec.containers[*].image`,description="images of the template"
// +kubebuilder:printcolumn:name="SELECTOR",type=string,priority=1,JSONPath=`.status.labelSelector`,description="selector of the pods"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 52",message="the name of a CloneSet may have at most 52 characters, because \"<name>-<hash>\" is a label of its pods: choose a shorter name",messageExpression="'the name %s has %d characters; a CloneSet may have at most 52, because \"<name>-<hash>\" is a label of its pods: choose a shorter name'.format([dyn(self.metadata.name), dyn(self.metadata.name.size())])"
type CloneSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the CloneSet is to run.
	// +kubebuilder:validation:XValidation:rule="has(self.selector) && ((has(self.selector.matchLabels) && size(self.selector.matchLabels) > 0) || (has(self.selector.matchExpressions) && size(self.selector.matchExpressions) > 0))",fieldPath=".selector",message="selector is missing or empty, it would match every pod of the namespace: give matchLabels that the labels of template have"
	// +kubebuilder:validation:XValidation:rule="!has(oldSelf.selector) || (has(self.selector) && self.selector == oldSelf.selector)",fieldPath=".selector",message="selector cannot change, because the pods that run would be lost to it: set it back, or make a CloneSet of another name"
	// +kubebuilder:validation:XValidation:rule="!has(self.selector) || @selectorMatches{self.selector}{self.template}",fieldPath=".selector",message="selector does not match the labels of template.metadata.labels, so that no pod would ever belong to this CloneSet: give the template the labels that the selector asks for"
	Spec CloneSetSpec `json:"spec"`
	// status is what was observed.
	// +optional
	Status v1beta1.CloneSetStatus `json:"status,omitempty"`
}

// CloneSetList is a list of CloneSets.
// +kubebuilder:object:root=true
type CloneSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CloneSet `json:"items"`
}
