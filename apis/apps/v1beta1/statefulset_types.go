package v1beta1

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// AnnotationOwnedByStatefulSet is on a claim that volumeClaimUpdateStrategy OnPodRollingUpdate has resized: the name of
// the StatefulSet.
const AnnotationOwnedByStatefulSet = "apps.kruise.io/owned-by-asts"

// StatefulSetSpec is the spec of a StatefulSet of apps.kruise.io, and of the children of a UnitedDeployment with
// advancedStatefulSetTemplate. The schema gives defaults to StatefulSets only.
type StatefulSetSpec struct {
	// replicas is the number of pods to run. Default 1. On a hub it is the number over all clusters together. Inside a
	// UnitedDeployment each subset has its own number, and this field is ignored.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`
	// selector finds the pods that belong to this StatefulSet. It must match the labels of template, it cannot be empty,
	// and it cannot change. Inside a UnitedDeployment it is optional: the UnitedDeployment's selector is used.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// template is the template of the pods (a core/v1 PodTemplateSpec). A change creates a new revision, and
	// updateStrategy says how pods get it. Its labels must match selector; restartPolicy is Always or unset.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Template PodTemplate `json:"template"`
	// volumeClaimTemplates are templates of claims (core/v1 PersistentVolumeClaims). Each ordinal has its own claims,
	// named "<claim template>-<StatefulSet>-<ordinal>". volumeClaimUpdateStrategy says when existing claims follow a
	// change.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	VolumeClaimTemplates []corev1.PersistentVolumeClaim `json:"volumeClaimTemplates,omitempty"`
	// volumeClaimUpdateStrategy says when existing claims follow a change of volumeClaimTemplates.
	// +optional
	VolumeClaimUpdateStrategy VolumeClaimUpdateStrategy `json:"volumeClaimUpdateStrategy,omitempty"`
	// serviceName is the name of the headless Service that gives the pods their DNS names. It cannot change.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$')",message="serviceName is no name of a Service: use at most 63 of a-z, 0-9 and -, beginning and ending with a letter or a digit",messageExpression="'serviceName %s is no name of a Service: use at most 63 of a-z, 0-9 and -, beginning and ending with a letter or a digit'.format([self])"
	ServiceName string `json:"serviceName,omitempty"`
	// podManagementPolicy is OrderedReady (pods are created in the order of their ordinals, each after the previous one is
	// available, and deleted in the reverse order) or Parallel (no pod waits for another). Default OrderedReady. It cannot
	// change.
	// +optional
	// +kubebuilder:default=OrderedReady
	// +kubebuilder:validation:Enum=OrderedReady;Parallel;""
	PodManagementPolicy appsv1.PodManagementPolicyType `json:"podManagementPolicy,omitempty"`
	// updateStrategy says how pods get a new revision of template.
	// +optional
	// +kubebuilder:default={}
	UpdateStrategy StatefulSetUpdateStrategy `json:"updateStrategy,omitempty"`
	// revisionHistoryLimit is the number of old revisions to keep for a rollback, in addition to those that pods use.
	// Default 10.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=0
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
	// reserveOrdinals are ordinals without a pod: numbers, or ranges "a-b" with both ends included. A reserved ordinal's
	// pod is deleted, and the next free ordinal gets a pod instead. Ordinals above those in use have no effect.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10000
	ReserveOrdinals []intstr.IntOrString `json:"reserveOrdinals,omitempty"`
	// lifecycle has hooks that hold a pod until a controller of yours has done its work. Default: no hooks.
	// +optional
	Lifecycle *Lifecycle `json:"lifecycle,omitempty"`
	// scaleStrategy limits how many pods may be unavailable while pods are created.
	// +optional
	ScaleStrategy *StatefulSetScaleStrategy `json:"scaleStrategy,omitempty"`
	// persistentVolumeClaimRetentionPolicy says whether claims are deleted after their pods. Default: all claims are kept.
	// +optional
	PersistentVolumeClaimRetentionPolicy *PersistentVolumeClaimRetentionPolicy `json:"persistentVolumeClaimRetentionPolicy,omitempty"`
	// ordinals sets the first ordinal. Default: the first ordinal is 0.
	// +optional
	Ordinals *StatefulSetOrdinals `json:"ordinals,omitempty"`
	// flotilla is what Flotilla adds: steps at which an update stops by itself. Default: none. OpenKruise ignores it. The
	// templates of a UnitedDeployment do not have it.
	// +optional
	Flotilla *FlotillaSpec `json:"flotilla,omitempty"`
}

// VolumeClaimUpdateStrategyType says when claims follow a change of volumeClaimTemplates.
// +kubebuilder:validation:Enum=OnDelete;OnPodRollingUpdate;""
type VolumeClaimUpdateStrategyType string

// The volume claim update strategies.
const (
	// OnDeleteVolumeClaimUpdateStrategyType: a claim follows after a user deletes it and it is created again.
	OnDeleteVolumeClaimUpdateStrategyType VolumeClaimUpdateStrategyType = "OnDelete"
	// OnPodRollingUpdateVolumeClaimUpdateStrategyType: claims grow when their pod is updated.
	OnPodRollingUpdateVolumeClaimUpdateStrategyType VolumeClaimUpdateStrategyType = "OnPodRollingUpdate"
)

// VolumeClaimUpdateStrategy says when claims follow a change of volumeClaimTemplates.
type VolumeClaimUpdateStrategy struct {
	// type is OnDelete (existing claims never change; a claim that is deleted is created from the new template) or
	// OnPodRollingUpdate (claims are resized when their pod is updated: only storage requests may change, and only grow).
	// Default OnDelete.
	// +optional
	// +kubebuilder:default=OnDelete
	Type VolumeClaimUpdateStrategyType `json:"type,omitempty"`
}

// StatefulSetUpdateStrategy says how pods get a new revision of the template.
type StatefulSetUpdateStrategy struct {
	// type is RollingUpdate (pods are updated within the limits of rollingUpdate) or OnDelete (a pod gets the new revision
	// after a user deletes it). Default RollingUpdate.
	// +optional
	// +kubebuilder:default=RollingUpdate
	// +kubebuilder:validation:Enum=RollingUpdate;OnDelete;""
	Type appsv1.StatefulSetUpdateStrategyType `json:"type,omitempty"`
	// rollingUpdate has the limits and the order of a rolling update. It cannot be set with type OnDelete.
	// +optional
	RollingUpdate *RollingUpdateStatefulSetStrategy `json:"rollingUpdate,omitempty"`
}

// RollingUpdateStatefulSetStrategy has the limits and the order of a rolling update.
// +kubebuilder:validation:XValidation:rule="!has(self.maxUnavailable) || @numberOrPercent{self.maxUnavailable}",fieldPath=".maxUnavailable",message="maxUnavailable must be an integer of 1 or more, or a percentage from 1% to 100%",messageExpression="'maxUnavailable is %s: it must be an integer of 1 or more, without quotes, or a percentage from 1%% to 100%% (an integer without leading zeros, and the sign %%)'.format([self.maxUnavailable])"
// +kubebuilder:validation:XValidation:rule="!has(self.maxUnavailable) || self.maxUnavailable != 0 && self.maxUnavailable != '0%'",fieldPath=".maxUnavailable",message="maxUnavailable is 0: no pod could ever be updated; set it to 1 or more, or set paused to hold the update"
type RollingUpdateStatefulSetStrategy struct {
	// partition is the number of pods that stay on the old revision: the lowest ordinals, or with unorderedUpdate those
	// that its order would update last. Default 0. Lower it step by step for a canary. On a hub it is the number over all
	// clusters together.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	Partition *int32 `json:"partition,omitempty"`
	// maxUnavailable is how many pods may be unavailable during the update: a number, or a percentage of replicas, rounded
	// down, at least 1. Default 1. Any other value needs podManagementPolicy Parallel. Pods that are unavailable already
	// can always be updated. On a hub it is the limit over all clusters together.
	// +optional
	// +kubebuilder:default=1
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// podUpdatePolicy is ReCreate (a pod is replaced), InPlaceIfPossible (changes of images, labels, annotations, cpu and
	// memory are made on the running pod, any other change replaces it) or InPlaceOnly (a change that cannot be made on
	// the running pod is not made). Default ReCreate. Updates in place need the readiness gate InPlaceUpdateReady: new
	// pods get it if template does not have it.
	// +optional
	// +kubebuilder:default=ReCreate
	PodUpdatePolicy PodUpdatePolicyType `json:"podUpdatePolicy,omitempty"`
	// paused stops the update. Scaling goes on. Default false.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// unorderedUpdate updates pods by priority instead of by ordinal. It needs podManagementPolicy Parallel.
	// +optional
	UnorderedUpdate *UnorderedUpdateStrategy `json:"unorderedUpdate,omitempty"`
	// inPlaceUpdateStrategy tunes updates in place.
	// +optional
	InPlaceUpdateStrategy *InPlaceUpdateStrategy `json:"inPlaceUpdateStrategy,omitempty"`
	// minReadySeconds is how long, in seconds, a pod must be ready before it is available. Updates and, with OrderedReady,
	// scaling wait for available pods. Default 0, at most 300.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=300
	MinReadySeconds *int32 `json:"minReadySeconds,omitempty"`
}

// UnorderedUpdateStrategy updates pods by priority instead of by ordinal.
type UnorderedUpdateStrategy struct {
	// priorityStrategy says which pods are updated first. Default: the highest ordinals.
	// +optional
	PriorityStrategy *UpdatePriorityStrategy `json:"priorityStrategy,omitempty"`
}

// StatefulSetScaleStrategy limits how many pods may be unavailable while pods are created.
// +kubebuilder:validation:XValidation:rule="!has(self.maxUnavailable) || @numberOrPercent{self.maxUnavailable}",fieldPath=".maxUnavailable",message="maxUnavailable must be an integer of 1 or more, or a percentage from 1% to 100%",messageExpression="'maxUnavailable is %s: it must be an integer of 1 or more, without quotes, or a percentage from 1%% to 100%% (an integer without leading zeros, and the sign %%)'.format([self.maxUnavailable])"
// +kubebuilder:validation:XValidation:rule="!has(self.maxUnavailable) || self.maxUnavailable != 0 && self.maxUnavailable != '0%'",fieldPath=".maxUnavailable",message="maxUnavailable is 0: no pod could ever be created; set it to 1 or more, or remove it"
type StatefulSetScaleStrategy struct {
	// maxUnavailable is how many pods may be unavailable while pods are created: a number, or a percentage of replicas,
	// rounded down, at least 1. Default: no limit. It needs podManagementPolicy Parallel.
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}

// PersistentVolumeClaimRetentionPolicy says whether claims are deleted after their pods.
type PersistentVolumeClaimRetentionPolicy struct {
	// whenDeleted is Retain or Delete: what happens to the claims when the StatefulSet is deleted. Default Retain.
	// +optional
	// +kubebuilder:default=Retain
	// +kubebuilder:validation:Enum=Retain;Delete;""
	WhenDeleted appsv1.PersistentVolumeClaimRetentionPolicyType `json:"whenDeleted,omitempty"`
	// whenScaled is Retain or Delete: what happens to the claims of pods that a scale-in deletes. Default Retain.
	// +optional
	// +kubebuilder:default=Retain
	// +kubebuilder:validation:Enum=Retain;Delete;""
	WhenScaled appsv1.PersistentVolumeClaimRetentionPolicyType `json:"whenScaled,omitempty"`
}

// StatefulSetOrdinals sets the first ordinal.
type StatefulSetOrdinals struct {
	// start is the first ordinal. Default 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Start int32 `json:"start,omitempty"`
}

// StatefulSetConditionType names a condition of a StatefulSet.
type StatefulSetConditionType string

// OpenKruise's own conditions of a StatefulSet.
const (
	// StatefulSetConditionFailedCreatePod is True while pods cannot be created.
	StatefulSetConditionFailedCreatePod StatefulSetConditionType = "FailedCreatePod"
	// StatefulSetConditionFailedUpdatePod is True while pods cannot be updated.
	StatefulSetConditionFailedUpdatePod StatefulSetConditionType = "FailedUpdatePod"
)

// StatefulSetCondition is one observed aspect of a StatefulSet.
type StatefulSetCondition struct {
	// type of the condition: Ready, Progressing, Reconciling, Stalled, FailedCreatePod, FailedUpdatePod, and Federated on
	// a hub.
	// +kubebuilder:validation:MaxLength=316
	Type StatefulSetConditionType `json:"type"`
	// status of the condition: True, False or Unknown.
	Status corev1.ConditionStatus `json:"status"`
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

// StatefulSetStatus is the observed state of a StatefulSet. Counters are written also when they are zero. On a hub they
// are sums over all clusters.
type StatefulSetStatus struct {
	// observedGeneration is the generation of the StatefulSet that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// replicas is the number of pods that exist and are neither finished nor being deleted.
	// +optional
	Replicas int32 `json:"replicas"`
	// readyReplicas is the number of pods that are ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`
	// availableReplicas is the number of pods that have been ready for minReadySeconds and that no lifecycle hook holds.
	// +optional
	AvailableReplicas int32 `json:"availableReplicas"`
	// currentReplicas is the number of pods of currentRevision.
	// +optional
	CurrentReplicas int32 `json:"currentReplicas"`
	// updatedReplicas is the number of pods of updateRevision.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas"`
	// updatedReadyReplicas is the number of pods of updateRevision that are ready.
	// +optional
	UpdatedReadyReplicas int32 `json:"updatedReadyReplicas"`
	// updatedAvailableReplicas is the number of pods of updateRevision that are available.
	// +optional
	UpdatedAvailableReplicas int32 `json:"updatedAvailableReplicas"`
	// currentRevision is the name of the revision that pods have before the update. It becomes updateRevision when all
	// pods are updated and ready.
	// +optional
	CurrentRevision string `json:"currentRevision,omitempty"`
	// updateRevision is the name of the newest revision of template.
	// +optional
	UpdateRevision string `json:"updateRevision,omitempty"`
	// collisionCount counts the revision names that other objects have already. It goes into the hash of the next name.
	// +optional
	CollisionCount *int32 `json:"collisionCount,omitempty"`
	// conditions are the observed aspects, one of each type.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []StatefulSetCondition `json:"conditions,omitempty"`
	// observedSequence is Flotilla's addition: the annotation topology.flotilla.dev/sequence that the controller acts on.
	// An order of the hub may change its budget alone, which is an annotation and does not raise the generation.
	// +optional
	ObservedSequence int64 `json:"observedSequence,omitempty"`
	// updateProgress is Flotilla's addition: how far an update with spec.flotilla.steps is.
	// +optional
	UpdateProgress *UpdateProgress `json:"updateProgress,omitempty"`
	// labelSelector is spec.selector as text, for the scale subresource (autoscalers find the pods with it).
	// +optional
	LabelSelector string `json:"labelSelector,omitempty"`
	// volumeClaims count the claims of each claim template that follow it.
	// +optional
	// +listType=map
	// +listMapKey=volumeClaimName
	VolumeClaims []VolumeClaimStatus `json:"volumeClaims,omitempty"`
}

// VolumeClaimStatus counts the claims of one claim template. A claim is compatible if its storage class and access
// modes are those of the template and it requests at least the template's storage.
type VolumeClaimStatus struct {
	// volumeClaimName is the name of the claim template.
	VolumeClaimName string `json:"volumeClaimName"`
	// compatibleReplicas is the number of ordinals whose claim is compatible with the template.
	CompatibleReplicas int32 `json:"compatibleReplicas"`
	// compatibleReadyReplicas is the number of ordinals whose claim is compatible and has the capacity that it requests.
	CompatibleReadyReplicas int32 `json:"compatibleReadyReplicas"`
}

// StatefulSet runs pods with stable ordinals, names and claims. It has updates in place, partitions and reserved
// ordinals.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.labelSelector
// +kubebuilder:resource:shortName=sts;asts
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="DESIRED",type=integer,JSONPath=`.spec.replicas`,description="pods that are asked for"
// +kubebuilder:printcolumn:name="CURRENT",type=integer,JSONPath=`.status.replicas`,description="pods that exist"
// +kubebuilder:printcolumn:name="UPDATED",type=integer,JSONPath=`.status.updatedReplicas`,description="pods of the newest revision"
// +kubebuilder:printcolumn:name="READY",type=integer,JSONPath=`.status.readyReplicas`,description="pods that are ready"
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`,description="time since the StatefulSet was created"
// +kubebuilder:printcolumn:name="CONTAINERS",type=string,priority=1,JSONPath=`.spec.template.spec.containers[*].name`,description="containers of the template"
// +kubebuilder:printcolumn:name="IMAGES",type=string,priority=1,JSONPath=`.spec.template.spec.containers[*].image`,description="images of the template"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 52",message="the name of a StatefulSet may have at most 52 characters, because \"<name>-<hash>\" is a label of its pods: choose a shorter name",messageExpression="'the name %s has %d characters; a StatefulSet may have at most 52, because \"<name>-<hash>\" is a label of its pods: choose a shorter name'.format([dyn(self.metadata.name), dyn(self.metadata.name.size())])"
// +kubebuilder:validation:XValidation:rule="!self.metadata.name.contains('.')",message="the name of a StatefulSet must not have a dot, because \"<name>-<ordinal>\" is the host name of its pods: choose a name without dots",messageExpression="'the name %s has a dot, which host names of pods must not have: choose a name without dots'.format([self.metadata.name])"
type StatefulSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +kubebuilder:validation:XValidation:rule="!(has(self.flotilla) && has(self.flotilla.steps) && size(self.flotilla.steps) > 0 && has(self.updateStrategy) && has(self.updateStrategy.type) && self.updateStrategy.type == 'OnDelete')",fieldPath=".flotilla.steps",message="flotilla.steps do not go with type OnDelete, which updates no pod by itself: remove the steps, or use type RollingUpdate"
	// +kubebuilder:validation:XValidation:rule="!(has(self.updateStrategy) && has(self.updateStrategy.type) && self.updateStrategy.type == 'OnDelete' && has(self.updateStrategy.rollingUpdate))",fieldPath=".updateStrategy.rollingUpdate",message="rollingUpdate does not go with type OnDelete, which updates no pod by itself: remove rollingUpdate, or use type RollingUpdate"
	// +kubebuilder:validation:XValidation:rule="(has(self.podManagementPolicy) && self.podManagementPolicy == 'Parallel') || !(has(self.updateStrategy) && has(self.updateStrategy.rollingUpdate) && has(self.updateStrategy.rollingUpdate.maxUnavailable)) || self.updateStrategy.rollingUpdate.maxUnavailable == 1",fieldPath=".updateStrategy.rollingUpdate.maxUnavailable",message="maxUnavailable must be 1 with podManagementPolicy OrderedReady, which updates one pod after the other: set it to 1, or use Parallel in a StatefulSet of another name",messageExpression="'maxUnavailable is %s: it must be 1 with podManagementPolicy OrderedReady, which updates one pod after the other; set it to 1, or use Parallel in a StatefulSet of another name'.format([self.updateStrategy.rollingUpdate.maxUnavailable])"
	// +kubebuilder:validation:XValidation:rule="(has(self.podManagementPolicy) && self.podManagementPolicy == 'Parallel') || !(has(self.updateStrategy) && has(self.updateStrategy.rollingUpdate) && has(self.updateStrategy.rollingUpdate.unorderedUpdate))",fieldPath=".updateStrategy.rollingUpdate.unorderedUpdate",message="unorderedUpdate needs podManagementPolicy Parallel, because OrderedReady updates pods by ordinal: remove it, or use Parallel in a StatefulSet of another name"
	// +kubebuilder:validation:XValidation:rule="(has(self.podManagementPolicy) && self.podManagementPolicy == 'Parallel') || !(has(self.scaleStrategy) && has(self.scaleStrategy.maxUnavailable))",fieldPath=".scaleStrategy.maxUnavailable",message="maxUnavailable needs podManagementPolicy Parallel, because OrderedReady creates one pod after the other: remove it, or use Parallel in a StatefulSet of another name",messageExpression="'maxUnavailable is %s: it needs podManagementPolicy Parallel, because OrderedReady creates one pod after the other; remove it, or use Parallel in a StatefulSet of another name'.format([self.scaleStrategy.maxUnavailable])"
	// +kubebuilder:validation:XValidation:rule="has(self.selector) && ((has(self.selector.matchLabels) && size(self.selector.matchLabels) > 0) || (has(self.selector.matchExpressions) && size(self.selector.matchExpressions) > 0))",fieldPath=".selector",message="selector is missing or empty, it would match every pod of the namespace: give matchLabels that the labels of template have"
	// +kubebuilder:validation:XValidation:rule="!has(oldSelf.selector) || (has(self.selector) && self.selector == oldSelf.selector)",fieldPath=".selector",message="selector cannot change, because running pods would no longer belong to the StatefulSet: set it back, or create a StatefulSet of another name"
	// +kubebuilder:validation:XValidation:rule="!has(self.selector) || @selectorMatches{self.selector}{self.template}",fieldPath=".selector",message="selector does not match the labels of template.metadata.labels, so that no pod would ever belong to this StatefulSet: give the template the labels that selector requires"
	// +kubebuilder:validation:XValidation:rule="(has(self.serviceName) ? self.serviceName : '') == (has(oldSelf.serviceName) ? oldSelf.serviceName : '')",fieldPath=".serviceName",message="serviceName cannot change, because it is part of the DNS names of running pods: set it back, or create a StatefulSet of another name",messageExpression="'serviceName cannot change from %s, because it is part of the DNS names of running pods: set it back, or create a StatefulSet of another name'.format([has(oldSelf.serviceName) && oldSelf.serviceName != '' ? oldSelf.serviceName : 'none'])"
	// +kubebuilder:validation:XValidation:rule="(has(self.podManagementPolicy) && self.podManagementPolicy == 'Parallel') == (has(oldSelf.podManagementPolicy) && oldSelf.podManagementPolicy == 'Parallel')",fieldPath=".podManagementPolicy",message="podManagementPolicy cannot change: set it back, or create a StatefulSet of another name",messageExpression="'podManagementPolicy cannot change from %s: set it back, or create a StatefulSet of another name'.format([(has(oldSelf.podManagementPolicy) && oldSelf.podManagementPolicy == 'Parallel') ? 'Parallel' : 'OrderedReady'])"
	// +kubebuilder:validation:XValidation:rule="!(has(self.volumeClaimUpdateStrategy) && has(self.volumeClaimUpdateStrategy.type) && self.volumeClaimUpdateStrategy.type == 'OnPodRollingUpdate') || (has(self.volumeClaimTemplates) ? size(self.volumeClaimTemplates) : 0) == (has(oldSelf.volumeClaimTemplates) ? size(oldSelf.volumeClaimTemplates) : 0) && (!has(self.volumeClaimTemplates) || !has(oldSelf.volumeClaimTemplates) || self.volumeClaimTemplates.all(c, oldSelf.volumeClaimTemplates.exists(o, o.metadata.name == c.metadata.name)))",fieldPath=".volumeClaimTemplates",message="volumeClaimTemplates cannot be added, removed or renamed with volumeClaimUpdateStrategy OnPodRollingUpdate: set them back, or use volumeClaimUpdateStrategy OnDelete"
	// +kubebuilder:validation:XValidation:rule="!(has(self.volumeClaimUpdateStrategy) && has(self.volumeClaimUpdateStrategy.type) && self.volumeClaimUpdateStrategy.type == 'OnPodRollingUpdate' && has(self.volumeClaimTemplates) && has(oldSelf.volumeClaimTemplates)) || @firstSeven.all(i, i >= size(self.volumeClaimTemplates) || i >= size(oldSelf.volumeClaimTemplates) || self.volumeClaimTemplates[i].metadata.name != oldSelf.volumeClaimTemplates[i].metadata.name || @storageAtLeast{self.volumeClaimTemplates[i]}{oldSelf.volumeClaimTemplates[i]})",fieldPath=".volumeClaimTemplates",message="storage of volumeClaimTemplates cannot shrink with volumeClaimUpdateStrategy OnPodRollingUpdate: request at least as much as before, or use volumeClaimUpdateStrategy OnDelete",messageExpression="'storage of volumeClaimTemplates %s cannot shrink with volumeClaimUpdateStrategy OnPodRollingUpdate: request at least as much as before, or use volumeClaimUpdateStrategy OnDelete'.format([@firstSeven.filter(i, i < size(self.volumeClaimTemplates) && i < size(oldSelf.volumeClaimTemplates) && self.volumeClaimTemplates[i].metadata.name == oldSelf.volumeClaimTemplates[i].metadata.name && !@storageAtLeast{self.volumeClaimTemplates[i]}{oldSelf.volumeClaimTemplates[i]}).map(i, self.volumeClaimTemplates[i].metadata.name)])"
	// +kubebuilder:validation:XValidation:rule="!(has(self.volumeClaimUpdateStrategy) && has(self.volumeClaimUpdateStrategy.type) && self.volumeClaimUpdateStrategy.type == 'OnPodRollingUpdate' && has(self.volumeClaimTemplates) && has(oldSelf.volumeClaimTemplates)) || @firstSeven.all(i, i >= size(self.volumeClaimTemplates) || i >= size(oldSelf.volumeClaimTemplates) || self.volumeClaimTemplates[i].metadata.name != oldSelf.volumeClaimTemplates[i].metadata.name || @sameStorage{self.volumeClaimTemplates[i]}{oldSelf.volumeClaimTemplates[i]})",fieldPath=".volumeClaimTemplates",message="storageClassName and accessModes of volumeClaimTemplates cannot change with volumeClaimUpdateStrategy OnPodRollingUpdate: set them back, or use volumeClaimUpdateStrategy OnDelete",messageExpression="'storageClassName and accessModes of volumeClaimTemplates %s cannot change with volumeClaimUpdateStrategy OnPodRollingUpdate: set them back, or use volumeClaimUpdateStrategy OnDelete'.format([@firstSeven.filter(i, i < size(self.volumeClaimTemplates) && i < size(oldSelf.volumeClaimTemplates) && self.volumeClaimTemplates[i].metadata.name == oldSelf.volumeClaimTemplates[i].metadata.name && !@sameStorage{self.volumeClaimTemplates[i]}{oldSelf.volumeClaimTemplates[i]}).map(i, self.volumeClaimTemplates[i].metadata.name)])"
	Spec StatefulSetSpec `json:"spec"`
	// status is the observed state.
	// +optional
	Status StatefulSetStatus `json:"status,omitempty"`
}

// StatefulSetList is a list of StatefulSets.
// +kubebuilder:object:root=true
type StatefulSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []StatefulSet `json:"items"`
}
