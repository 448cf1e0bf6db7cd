package v1beta1

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// DaemonSetSpec is the spec of a DaemonSet of apps.kruise.io.
type DaemonSetSpec struct {
	// selector finds the pods that belong to this DaemonSet. It must match the labels of template, it cannot be empty, and
	// it cannot change.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// template is the template of the pods (a core/v1 PodTemplateSpec). One pod runs on each node that its nodeName,
	// nodeSelector, required node affinity and tolerations allow. A change creates a new revision, and updateStrategy says
	// how pods get it. Its labels must match selector; restartPolicy is Always or unset.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Template PodTemplate `json:"template"`
	// updateStrategy says how pods get a new revision of template.
	// +optional
	// +kubebuilder:default={}
	UpdateStrategy DaemonSetUpdateStrategy `json:"updateStrategy,omitempty"`
	// minReadySeconds is how long, in seconds, a pod must be ready before it is available. Default 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`
	// burstReplicas is how many pods may be created, and how many deleted, at once: a number, or a percentage of the nodes
	// that run the pod, rounded down, at least 1 above 0%. Default 250. 0 holds creation and deletion.
	// +optional
	// +kubebuilder:default=250
	BurstReplicas *intstr.IntOrString `json:"burstReplicas,omitempty"`
	// revisionHistoryLimit is the number of old revisions to keep for a rollback, in addition to those that pods use.
	// Default 10.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=0
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
	// lifecycle has the hook preDelete, which holds a pod that will be deleted until a controller of yours has done its
	// work. Default: no hook. preNormal has no effect, and inPlaceUpdate is refused.
	// +optional
	Lifecycle *Lifecycle `json:"lifecycle,omitempty"`
	// scaleStrategy says on which nodes new pods are created.
	// +optional
	ScaleStrategy *DaemonSetScaleStrategy `json:"scaleStrategy,omitempty"`
}

// DaemonSetUpdateStrategy says how pods get a new revision of the template.
type DaemonSetUpdateStrategy struct {
	// type is RollingUpdate (pods are updated within the limits of rollingUpdate) or OnDelete (a node gets the new
	// revision after a user deletes its pod). Default RollingUpdate.
	// +optional
	// +kubebuilder:default=RollingUpdate
	// +kubebuilder:validation:Enum=RollingUpdate;OnDelete;""
	Type appsv1.DaemonSetUpdateStrategyType `json:"type,omitempty"`
	// rollingUpdate has the limits and the order of a rolling update. It has no effect with type OnDelete.
	// +optional
	// +kubebuilder:default={maxUnavailable: 1, maxSurge: 0}
	RollingUpdate *RollingUpdateDaemonSet `json:"rollingUpdate,omitempty"`
}

// DaemonSetRollingUpdateType says how a pod gets a new revision.
// +kubebuilder:validation:Enum=Standard;InPlaceIfPossible;""
type DaemonSetRollingUpdateType string

// The rolling update types.
const (
	// StandardDaemonSetRollingUpdateType replaces pods.
	StandardDaemonSetRollingUpdateType DaemonSetRollingUpdateType = "Standard"
	// InPlaceIfPossibleDaemonSetRollingUpdateType changes running pods where the change allows it.
	InPlaceIfPossibleDaemonSetRollingUpdateType DaemonSetRollingUpdateType = "InPlaceIfPossible"
)

// RollingUpdateDaemonSet has the limits and the order of a rolling update.
// +kubebuilder:validation:XValidation:rule="!has(self.maxUnavailable) || @numberOrPercent{self.maxUnavailable}",fieldPath=".maxUnavailable",message="maxUnavailable must be an integer of 0 or more, or a percentage from 0% to 100%",messageExpression="'maxUnavailable is %s: it must be an integer of 0 or more, without quotes, or a percentage from 0%% to 100%% (an integer without leading zeros, and the sign %%)'.format([self.maxUnavailable])"
// +kubebuilder:validation:XValidation:rule="!has(self.maxSurge) || @numberOrPercent{self.maxSurge}",fieldPath=".maxSurge",message="maxSurge must be an integer of 0 or more, or a percentage from 0% to 100%",messageExpression="'maxSurge is %s: it must be an integer of 0 or more, without quotes, or a percentage from 0%% to 100%% (an integer without leading zeros, and the sign %%)'.format([self.maxSurge])"
// +kubebuilder:validation:XValidation:rule="!has(self.partition) || @numberOrPercent{self.partition}",fieldPath=".partition",message="partition must be an integer of 0 or more, or a percentage from 0% to 100%",messageExpression="'partition is %s: it must be an integer of 0 or more, without quotes, or a percentage from 0%% to 100%% (an integer without leading zeros, and the sign %%)'.format([self.partition])"
// +kubebuilder:validation:XValidation:rule="!has(self.maxSurge) || self.maxSurge == 0 || self.maxSurge == '0%' || !has(self.maxUnavailable) || self.maxUnavailable == 0 || self.maxUnavailable == '0%'",fieldPath=".maxSurge",message="maxUnavailable and maxSurge are both set, and an update uses one of them: set maxUnavailable to 0, or maxSurge to 0",messageExpression="'maxUnavailable is %s and maxSurge is %s, and an update uses one of them: set maxUnavailable to 0, or maxSurge to 0'.format([self.maxUnavailable, self.maxSurge])"
// +kubebuilder:validation:XValidation:rule="!has(self.maxUnavailable) || self.maxUnavailable != 0 && self.maxUnavailable != '0%' || has(self.maxSurge) && self.maxSurge != 0 && self.maxSurge != '0%'",fieldPath=".maxUnavailable",message="maxUnavailable cannot be 0 when maxSurge is 0, because no pod could ever be updated: set one of them to 1 or more, or set paused to hold the update"
// +kubebuilder:validation:XValidation:rule="!has(self.rollingUpdateType) || self.rollingUpdateType != 'InPlaceIfPossible' || !has(self.maxSurge) || self.maxSurge == 0 || self.maxSurge == '0%'",fieldPath=".maxSurge",message="maxSurge does not go with rollingUpdateType InPlaceIfPossible, which keeps the pods: set maxSurge to 0 and maxUnavailable to 1 or more, or use rollingUpdateType Standard",messageExpression="'maxSurge is %s: it does not go with rollingUpdateType InPlaceIfPossible, which keeps the pods; set maxSurge to 0 and maxUnavailable to 1 or more, or use rollingUpdateType Standard'.format([self.maxSurge])"
type RollingUpdateDaemonSet struct {
	// rollingUpdateType is Standard (a pod is replaced) or InPlaceIfPossible (changes of images, of labels, annotations,
	// cpu and memory are made on the running pod, any other change replaces it). Default Standard. Pods without the
	// readiness gate InPlaceUpdateReady, which all new pods get, are replaced at their first update.
	// +optional
	// +kubebuilder:default=Standard
	Type DaemonSetRollingUpdateType `json:"rollingUpdateType,omitempty"`
	// maxUnavailable is on how many nodes the pod may be unavailable during the update: a number, or a percentage of the
	// nodes that run the pod, rounded up. Default 1, or 0 with maxSurge. Old pods that are unavailable already can always
	// be updated. On a hub it is the limit over all clusters together.
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// maxSurge is on how many nodes a new pod may run beside the old one, which is deleted once the new one is available:
	// a number, or a percentage of the nodes that run the pod, rounded up. Default 0. It needs maxUnavailable 0. On a hub
	// it is the limit over all clusters together.
	// +optional
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`
	// selector selects, by their labels, the nodes that are updated, such as those of a canary. Default: all nodes. A node
	// that is updated and is no longer selected keeps the new revision.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// partition is on how many nodes the old revision stays: a number, or a percentage of the nodes that run the pod,
	// rounded down. Default 0. Nodes are updated in descending order of their names, so those with the lowest names stay.
	// On a hub it is the number over all clusters together.
	// +optional
	// +kubebuilder:default=0
	Partition *intstr.IntOrString `json:"partition,omitempty"`
	// paused stops the update. Creation and deletion go on. Default false.
	// +optional
	Paused *bool `json:"paused,omitempty"`
}

// DaemonSetScaleStrategy says on which nodes new pods are created.
type DaemonSetScaleStrategy struct {
	// partitionedScaling creates new pods only where rollingUpdate.partition and rollingUpdate.selector let a node have
	// the new revision. Default false: on all nodes, from the previous revision where they do not.
	// +optional
	PartitionedScaling bool `json:"partitionedScaling,omitempty"`
}

// DaemonSetConditionType names a condition of a DaemonSet.
type DaemonSetConditionType string

// Conditions that a DaemonSet has while something fails.
const (
	// DaemonSetConditionFailedCreatePod is True while pods cannot be created or deleted.
	DaemonSetConditionFailedCreatePod DaemonSetConditionType = "FailedCreatePod"
	// DaemonSetConditionFailedUpdatePod is True while pods cannot be updated.
	DaemonSetConditionFailedUpdatePod DaemonSetConditionType = "FailedUpdatePod"
)

// DaemonSetCondition is one observed aspect of a DaemonSet.
type DaemonSetCondition struct {
	// type of the condition: Ready, Progressing, Reconciling, Stalled, FailedCreatePod, FailedUpdatePod, and Federated on
	// a hub.
	// +kubebuilder:validation:MaxLength=316
	Type DaemonSetConditionType `json:"type"`
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

// DaemonSetNodeCounts are counts of nodes that the published counters lack. All are of nodes that should run the pod.
type DaemonSetNodeCounts struct {
	// updatedAvailable is the number of nodes that have an available pod of the newest revision.
	// +optional
	UpdatedAvailable int32 `json:"updatedAvailable,omitempty"`
	// surging is the number of nodes that have a pod of the newest revision beside an available one of an old revision.
	// +optional
	Surging int32 `json:"surging,omitempty"`
	// withheld is the number of nodes that get no pod, since scaleStrategy.partitionedScaling creates none where the
	// newest revision may not run.
	// +optional
	Withheld int32 `json:"withheld,omitempty"`
	// notUpdatable is the number of nodes that do not get the newest revision whatever the partition is: the selector of
	// rollingUpdate does not select them, or they would get no new pod.
	// +optional
	NotUpdatable int32 `json:"notUpdatable,omitempty"`
	// lostUnavailable is the number of nodes that are NotReady for 5 minutes or more and lack an available pod. They do not
	// count for maxUnavailable.
	// +optional
	LostUnavailable int32 `json:"lostUnavailable,omitempty"`
	// lostOutdated is the number of nodes that are NotReady for 5 minutes or more and lack the newest revision, which they
	// get when they are back.
	// +optional
	LostOutdated int32 `json:"lostOutdated,omitempty"`
}

// DaemonSetStatus is the observed state of a DaemonSet. Counters are written also when they are zero. On a hub they are
// sums over all clusters.
type DaemonSetStatus struct {
	// currentNumberScheduled is the number of nodes that run the pod and should.
	CurrentNumberScheduled int32 `json:"currentNumberScheduled"`
	// numberMisscheduled is the number of nodes that run the pod and should not.
	NumberMisscheduled int32 `json:"numberMisscheduled"`
	// desiredNumberScheduled is the number of nodes that should run the pod.
	DesiredNumberScheduled int32 `json:"desiredNumberScheduled"`
	// numberReady is the number of nodes that should run the pod and have one that is ready.
	NumberReady int32 `json:"numberReady"`
	// observedGeneration is the generation of the DaemonSet that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// updatedNumberScheduled is the number of nodes that should run the pod and have one of updateRevision.
	// +optional
	UpdatedNumberScheduled int32 `json:"updatedNumberScheduled"`
	// numberAvailable is the number of nodes that should run the pod and have one that is available.
	// +optional
	NumberAvailable int32 `json:"numberAvailable"`
	// numberUnavailable is the number of nodes that should run the pod and have none that is available.
	// +optional
	NumberUnavailable int32 `json:"numberUnavailable"`
	// nodeCounts is Flotilla's addition: counts of nodes that the counters above lack. Counts of zero are left out.
	// +optional
	NodeCounts *DaemonSetNodeCounts `json:"nodeCounts,omitempty"`
	// collisionCount counts the revision names that other objects have already. It goes into the hash of the next name.
	// +optional
	CollisionCount *int32 `json:"collisionCount,omitempty"`
	// conditions are the observed aspects, one of each type.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []DaemonSetCondition `json:"conditions,omitempty"`
	// updateRevision is the hash of the newest revision of template, the label controller-revision-hash of its pods.
	// +optional
	UpdateRevision string `json:"updateRevision,omitempty"`
	// currentRevision is Flotilla's addition: the hash of the revision that pods keep, or get where they are created, on
	// nodes that may not be updated yet. It becomes updateRevision when all nodes that should run the pod have one of
	// updateRevision that is available.
	// +optional
	CurrentRevision string `json:"currentRevision,omitempty"`
	// observedSequence is Flotilla's addition: the annotation topology.flotilla.dev/sequence that the controller acts on.
	// An order of the hub may change its budget alone, which is an annotation and does not raise the generation.
	// +optional
	ObservedSequence int64 `json:"observedSequence,omitempty"`
}

// DaemonSet runs one pod on each node that fits it. It has updates in place, surge, partitions, and canaries by node
// labels.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=daemon;ads
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="DESIRED",type=integer,JSONPath=`.status.desiredNumberScheduled`,description="nodes that should run the pod"
// +kubebuilder:printcolumn:name="CURRENT",type=integer,JSONPath=`.status.currentNumberScheduled`,description="nodes that run the pod"
// +kubebuilder:printcolumn:name="READY",type=integer,JSONPath=`.status.numberReady`,description="nodes whose pod is ready"
// +kubebuilder:printcolumn:name="UP-TO-DATE",type=integer,JSONPath=`.status.updatedNumberScheduled`,description="nodes whose pod has the newest revision"
// +kubebuilder:printcolumn:name="AVAILABLE",type=integer,JSONPath=`.status.numberAvailable`,description="nodes whose pod is available"
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`,description="time since the DaemonSet was created"
// +kubebuilder:printcolumn:name="CONTAINERS",type=string,priority=1,JSONPath=`.spec.template.spec.containers[*].name`,description="containers of the template"
// +kubebuilder:printcolumn:name="IMAGES",type=string,priority=1,JSONPath=`.spec.template.spec.containers[*].image`,description="images of the template"
type DaemonSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +kubebuilder:validation:XValidation:rule="has(self.selector) && ((has(self.selector.matchLabels) && size(self.selector.matchLabels) > 0) || (has(self.selector.matchExpressions) && size(self.selector.matchExpressions) > 0))",fieldPath=".selector",message="selector is missing or empty, it would match every pod of the namespace: give matchLabels that the labels of template have"
	// +kubebuilder:validation:XValidation:rule="!has(oldSelf.selector) || (has(self.selector) && self.selector == oldSelf.selector)",fieldPath=".selector",message="selector cannot change, because running pods would no longer belong to the DaemonSet: set it back, or create a DaemonSet of another name"
	// +kubebuilder:validation:XValidation:rule="!has(self.selector) || @selectorMatches{self.selector}{self.template}",fieldPath=".selector",message="selector does not match the labels of template.metadata.labels, so that no pod would ever belong to this DaemonSet: give the template the labels that selector requires"
	// +kubebuilder:validation:XValidation:rule="!has(self.burstReplicas) || @numberOrPercent{self.burstReplicas}",fieldPath=".burstReplicas",message="burstReplicas must be an integer of 0 or more, or a percentage from 0% to 100%",messageExpression="'burstReplicas is %s: it must be an integer of 0 or more, without quotes, or a percentage from 0%% to 100%% (an integer without leading zeros, and the sign %%)'.format([self.burstReplicas])"
	// +kubebuilder:validation:XValidation:rule="!has(self.lifecycle) || !has(self.lifecycle.inPlaceUpdate)",fieldPath=".lifecycle.inPlaceUpdate",message="the hook inPlaceUpdate is not supported for DaemonSets: remove it"
	Spec DaemonSetSpec `json:"spec"`
	// status is the observed state.
	// +optional
	Status DaemonSetStatus `json:"status,omitempty"`
}

// DaemonSetList is a list of DaemonSets.
// +kubebuilder:object:root=true
type DaemonSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []DaemonSet `json:"items"`
}
