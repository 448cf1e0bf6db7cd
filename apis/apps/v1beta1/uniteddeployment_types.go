package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// UnitedDeploymentSpec says what runs, and how its replicas are divided over subsets.
type UnitedDeploymentSpec struct {
	// replicas is the number of pods over all subsets together. Default 1. topology divides it.
	// On a hub it is the number over all clusters together.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`
	// selector finds the pods that belong to this UnitedDeployment. It must match the labels of the pods in template, it
	// cannot be empty, and it cannot change later. The children's own selectors are this one and the label of their
	// subset.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// template is what each subset runs: exactly one of statefulSetTemplate, advancedStatefulSetTemplate, cloneSetTemplate
	// and deploymentTemplate. A change makes a new revision, which updateStrategy brings to the subsets.
	// +required
	Template SubsetTemplate `json:"template,omitempty"`
	// topology lists the subsets and says how replicas are divided over them.
	// +optional
	Topology Topology `json:"topology,omitempty"`
	// updateStrategy says how much of each subset gets a new revision of template.
	// +optional
	// +kubebuilder:default={}
	UpdateStrategy UnitedDeploymentUpdateStrategy `json:"updateStrategy,omitempty"`
	// revisionHistoryLimit is how many old revisions are kept to go back to, beside those that subsets still use. Default
	// 10.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=0
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
}

// SubsetTemplate is the template of the children; exactly one of its fields is set.
// +kubebuilder:validation:XValidation:rule="[has(self.statefulSetTemplate), has(self.advancedStatefulSetTemplate), has(self.cloneSetTemplate), has(self.deploymentTemplate)].filter(given, given).size() == 1",message="template needs exactly one of statefulSetTemplate, advancedStatefulSetTemplate, cloneSetTemplate and deploymentTemplate: give one and remove the others"
type SubsetTemplate struct {
	// statefulSetTemplate makes each subset an apps/v1 StatefulSet.
	// +optional
	StatefulSetTemplate *StatefulSetTemplateSpec `json:"statefulSetTemplate,omitempty"`
	// advancedStatefulSetTemplate makes each subset an apps.kruise.io StatefulSet.
	// +optional
	AdvancedStatefulSetTemplate *AdvancedStatefulSetTemplateSpec `json:"advancedStatefulSetTemplate,omitempty"`
	// cloneSetTemplate makes each subset a CloneSet.
	// +optional
	CloneSetTemplate *CloneSetTemplateSpec `json:"cloneSetTemplate,omitempty"`
	// deploymentTemplate makes each subset an apps/v1 Deployment. Deployments have no partition:
	// updateStrategy.manualUpdate does not hold for them.
	// +optional
	DeploymentTemplate *DeploymentTemplateSpec `json:"deploymentTemplate,omitempty"`
}

// StatefulSetTemplateSpec is an apps/v1 StatefulSet child.
type StatefulSetTemplateSpec struct {
	// metadata is put on the children: labels and annotations.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec of the children, an apps/v1 StatefulSetSpec. The subset decides replicas, selector and partition.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Spec NativeStatefulSetSpec `json:"spec"`
}

// AdvancedStatefulSetTemplateSpec is an advanced StatefulSet child.
type AdvancedStatefulSetTemplateSpec struct {
	// metadata is put on the children: labels and annotations.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec of the children. The subset decides replicas, selector and partition.
	Spec StatefulSetSpec `json:"spec"`
}

// CloneSetTemplateSpec is a CloneSet child.
type CloneSetTemplateSpec struct {
	// metadata is put on the children: labels and annotations.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec of the children. The subset decides replicas, selector and partition; the limits of the update hold for each
	// subset.
	Spec CloneSetSpec `json:"spec"`
}

// DeploymentTemplateSpec is an apps/v1 Deployment child.
type DeploymentTemplateSpec struct {
	// metadata is put on the children: labels and annotations.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec of the children, an apps/v1 DeploymentSpec. The subset decides replicas and selector; the limits of the update
	// hold for each subset.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Spec NativeDeploymentSpec `json:"spec"`
}

// Topology lists the subsets.
// +kubebuilder:validation:XValidation:rule="!has(self.subsets) || !has(self.scheduleStrategy) || !has(self.scheduleStrategy.type) || self.scheduleStrategy.type != 'Adaptive' || self.subsets.all(s, !has(s.replicas))",message="scheduleStrategy Adaptive moves pods between subsets, so a subset cannot have fixed replicas: use minReplicas and maxReplicas, or scheduleStrategy Fixed",messageExpression="'scheduleStrategy Adaptive moves pods between subsets, but replicas is fixed for %s: use minReplicas and maxReplicas, or scheduleStrategy Fixed'.format([self.subsets.filter(s, has(s.replicas)).map(s, s.name)])"
// +kubebuilder:validation:XValidation:rule="!has(self.subsets) || size(self.subsets) == 0 || self.subsets.exists(s, !has(s.maxReplicas))",fieldPath=".subsets",message="every subset has maxReplicas, so that replicas above their sum could go nowhere: remove maxReplicas of at least one subset"
// +kubebuilder:validation:XValidation:rule="!has(self.subsets) || self.subsets.map(s, has(s.replicas) && type(s.replicas) == string ? @percent{s.replicas} : 0).sum() <= 100",fieldPath=".subsets",message="the percentages of replicas exceed 100% together: lower them, or remove replicas of one subset, which then takes the rest",messageExpression="'the percentages of replicas are %d%% together, they can be 100%% at most: lower them, or remove replicas of one subset, which then takes the rest'.format([self.subsets.map(s, has(s.replicas) && type(s.replicas) == string ? @percent{s.replicas} : 0).sum()])"
type Topology struct {
	// subsets are the parts of the workload, in order: with minReplicas or maxReplicas earlier ones are filled first.
	// Without any numbers the replicas are divided evenly.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=512
	Subsets []Subset `json:"subsets,omitempty"`
	// scheduleStrategy says whether pods that cannot be scheduled in their subset move to others. Default: they wait.
	// +optional
	ScheduleStrategy UnitedDeploymentScheduleStrategy `json:"scheduleStrategy,omitempty"`
}

// Subset is one part of the workload: where it runs, and how much of it.
// +kubebuilder:validation:XValidation:rule="!(has(self.replicas) && (has(self.minReplicas) || has(self.maxReplicas)))",message="a subset has replicas, or minReplicas and maxReplicas, not both: remove one or the other",messageExpression="'subset %s has replicas and also minReplicas or maxReplicas: remove one or the other'.format([self.name])"
// +kubebuilder:validation:XValidation:rule="!has(self.minReplicas) || !has(self.maxReplicas) || (type(self.minReplicas) == int ? type(self.maxReplicas) != int || int(self.minReplicas) <= int(self.maxReplicas) : type(self.maxReplicas) == int || @percent{self.minReplicas} <= @percent{self.maxReplicas})",fieldPath=".minReplicas",message="minReplicas is greater than maxReplicas: lower minReplicas or raise maxReplicas",messageExpression="'subset %s: minReplicas %s is greater than maxReplicas %s: lower minReplicas or raise maxReplicas'.format([dyn(self.name), dyn(self.minReplicas), dyn(self.maxReplicas)])"
// +kubebuilder:validation:XValidation:rule="(has(self.nodeSelectorTerm) && has(self.nodeSelectorTerm.matchExpressions) && size(self.nodeSelectorTerm.matchExpressions) > 0 ? has(oldSelf.nodeSelectorTerm) && has(oldSelf.nodeSelectorTerm.matchExpressions) && self.nodeSelectorTerm.matchExpressions == oldSelf.nodeSelectorTerm.matchExpressions : !(has(oldSelf.nodeSelectorTerm) && has(oldSelf.nodeSelectorTerm.matchExpressions) && size(oldSelf.nodeSelectorTerm.matchExpressions) > 0)) && (has(self.nodeSelectorTerm) && has(self.nodeSelectorTerm.matchFields) && size(self.nodeSelectorTerm.matchFields) > 0 ? has(oldSelf.nodeSelectorTerm) && has(oldSelf.nodeSelectorTerm.matchFields) && self.nodeSelectorTerm.matchFields == oldSelf.nodeSelectorTerm.matchFields : !(has(oldSelf.nodeSelectorTerm) && has(oldSelf.nodeSelectorTerm.matchFields) && size(oldSelf.nodeSelectorTerm.matchFields) > 0))",fieldPath=".nodeSelectorTerm",message="nodeSelectorTerm of a subset cannot change, because its pods would have to move at once: add a subset of another name and remove this one",messageExpression="'nodeSelectorTerm of subset %s cannot change, because its pods would have to move at once: add a subset of another name and remove this one'.format([self.name])"
// +kubebuilder:validation:XValidation:rule="(has(self.tolerations) && size(self.tolerations) > 0 ? has(oldSelf.tolerations) && self.tolerations == oldSelf.tolerations : !(has(oldSelf.tolerations) && size(oldSelf.tolerations) > 0))",fieldPath=".tolerations",message="tolerations of a subset cannot change, because its pods would have to be replaced at once: add a subset of another name and remove this one",messageExpression="'tolerations of subset %s cannot change, because its pods would have to be replaced at once: add a subset of another name and remove this one'.format([self.name])"
// +kubebuilder:validation:XValidation:rule="!has(self.replicas) || @itemNumberOrPercent{self.replicas}",fieldPath=".replicas",message="replicas must be an integer of 0 or more, or a percentage from 0% to 100%",messageExpression="'replicas is %s: it must be an integer of 0 or more, without quotes, or a percentage from 0%% to 100%% (an integer without leading zeros, and the sign %%)'.format([self.replicas])"
// +kubebuilder:validation:XValidation:rule="!has(self.minReplicas) || @itemNumberOrPercent{self.minReplicas}",fieldPath=".minReplicas",message="minReplicas must be an integer of 0 or more, or a percentage from 0% to 100%",messageExpression="'minReplicas is %s: it must be an integer of 0 or more, without quotes, or a percentage from 0%% to 100%% (an integer without leading zeros, and the sign %%)'.format([self.minReplicas])"
// +kubebuilder:validation:XValidation:rule="!has(self.maxReplicas) || @itemNumberOrPercent{self.maxReplicas}",fieldPath=".maxReplicas",message="maxReplicas must be an integer of 0 or more, or a percentage from 0% to 100%",messageExpression="'maxReplicas is %s: it must be an integer of 0 or more, without quotes, or a percentage from 0%% to 100%% (an integer without leading zeros, and the sign %%)'.format([self.maxReplicas])"
type Subset struct {
	// name of the subset, a DNS label. It is part of the children's names and the value of the label
	// apps.kruise.io/subset-name on them and on their pods.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="the name of a subset must be a DNS label: at most 63 of a-z, 0-9 and -, with a letter or digit at both ends"
	Name string `json:"name"`
	// nodeSelectorTerm says on which nodes the pods of the subset run, beside what template asks for. It cannot change
	// later. On a hub the labels topology.kubernetes.io/region, topology.kubernetes.io/zone and
	// topology.flotilla.dev/cluster in it choose the clusters.
	// +optional
	NodeSelectorTerm corev1.NodeSelectorTerm `json:"nodeSelectorTerm,omitempty"`
	// tolerations of the pods of the subset, beside those of template. They cannot change later.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// replicas of the subset: a number, or a percentage of spec.replicas where a half rounds up. Default: subsets without
	// any number share the rest evenly. Not together with minReplicas or maxReplicas, nor with scheduleStrategy Adaptive.
	// Where all subsets have it and the sum is not spec.replicas, the numbers are used as weights.
	// +optional
	Replicas *intstr.IntOrString `json:"replicas,omitempty"`
	// minReplicas is what the subset gets first: a number, or a percentage of spec.replicas where a half rounds up.
	// Subsets are filled up to it in their order. Default 0.
	// +optional
	MinReplicas *intstr.IntOrString `json:"minReplicas,omitempty"`
	// maxReplicas is the most that the subset gets: a number, or a percentage of spec.replicas where a half rounds up.
	// Once all have their minReplicas, subsets are filled up to it in their order. Default: no limit; at least one subset
	// has none.
	// +optional
	MaxReplicas *intstr.IntOrString `json:"maxReplicas,omitempty"`
	// patch is a part of a pod template that is merged into the pods of this subset (strategic merge).
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Patch runtime.RawExtension `json:"patch,omitempty"`
}

// UnitedDeploymentScheduleStrategyType is Fixed or Adaptive.
// +kubebuilder:validation:Enum=Adaptive;Fixed;""
type UnitedDeploymentScheduleStrategyType string

// The schedule strategies.
const (
	FixedUnitedDeploymentScheduleStrategyType    UnitedDeploymentScheduleStrategyType = "Fixed"
	AdaptiveUnitedDeploymentScheduleStrategyType UnitedDeploymentScheduleStrategyType = "Adaptive"
)

// UnitedDeploymentScheduleStrategy says whether pods that cannot be scheduled move to other subsets.
type UnitedDeploymentScheduleStrategy struct {
	// type is Fixed (pods that cannot be scheduled wait in their subset) or Adaptive (they move to other subsets). Default
	// Fixed.
	// +optional
	Type UnitedDeploymentScheduleStrategyType `json:"type,omitempty"`
	// adaptive holds the times of type Adaptive; type Fixed does not use it.
	// +optional
	Adaptive *AdaptiveUnitedDeploymentStrategy `json:"adaptive,omitempty"`
}

// AdaptiveUnitedDeploymentStrategy holds the times of the Adaptive strategy.
type AdaptiveUnitedDeploymentStrategy struct {
	// rescheduleCriticalSeconds is how long a pod may be unschedulable, in seconds, before its subset counts as
	// unschedulable and others take the pod over. Default 30.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RescheduleCriticalSeconds *int32 `json:"rescheduleCriticalSeconds,omitempty"`
	// unschedulableDuration is how long a subset counts as unschedulable, in seconds, before it is tried again, at
	// least 1 and rescheduleCriticalSeconds for each other subset. With reserveUnschedulablePods it is how long a pod that
	// was kept must be ready before it counts again. Default 300.
	// +optional
	// +kubebuilder:validation:Minimum=0
	UnschedulableDuration *int32 `json:"unschedulableDuration,omitempty"`
	// reserveUnschedulablePods keeps the pods that cannot be scheduled, and runs others in their place until they are
	// ready. Default false: they are removed.
	// +optional
	ReserveUnschedulablePods bool `json:"reserveUnschedulablePods,omitempty"`
}

// UpdateStrategyType is Manual.
// +kubebuilder:validation:Enum=Manual;""
type UpdateStrategyType string

// ManualUpdateStrategyType is the only update strategy.
const ManualUpdateStrategyType UpdateStrategyType = "Manual"

// UnitedDeploymentUpdateStrategy says how subsets get a new template.
type UnitedDeploymentUpdateStrategy struct {
	// type is Manual, the only one and the default: manualUpdate says how far each subset is updated.
	// +optional
	// +kubebuilder:default=Manual
	Type UpdateStrategyType `json:"type,omitempty"`
	// manualUpdate holds the partitions of the subsets. Default: all pods of all subsets are updated.
	// +optional
	// +kubebuilder:default={}
	ManualUpdate *ManualUpdate `json:"manualUpdate,omitempty"`
}

// ManualUpdate holds, per subset, how many pods stay on the old revision.
type ManualUpdate struct {
	// partitions says, by the name of the subset, how many of its pods stay on the old revision. A subset that is not
	// named is updated whole; more than the subset has counts as all of it. It does not hold for deploymentTemplate.
	// +optional
	// +kubebuilder:validation:MaxProperties=512
	// +kubebuilder:validation:XValidation:rule="self.all(name, self[name] >= 0)",message="a partition must be 0 or more",messageExpression="'a partition must be 0 or more; it is negative for %s'.format([self.map(name, name).filter(name, self[name] < 0)])"
	Partitions map[string]int32 `json:"partitions,omitempty"`
}

// UnitedDeploymentConditionType names a condition of a UnitedDeployment.
type UnitedDeploymentConditionType string

// OpenKruise's own conditions of a UnitedDeployment.
const (
	SubsetProvisioned       UnitedDeploymentConditionType = "SubsetProvisioned"
	SubsetUpdated           UnitedDeploymentConditionType = "SubsetUpdated"
	SubsetFailure           UnitedDeploymentConditionType = "SubsetFailure"
	UnitedDeploymentUpdated UnitedDeploymentConditionType = "UnitedDeploymentUpdated"
)

// UnitedDeploymentCondition is one observed aspect of a UnitedDeployment.
type UnitedDeploymentCondition struct {
	// type of the condition: Ready, Progressing, Reconciling, Stalled, SubsetProvisioned, SubsetUpdated, SubsetFailure,
	// UnitedDeploymentUpdated, and Federated on a hub.
	// +kubebuilder:validation:MaxLength=316
	Type UnitedDeploymentConditionType `json:"type"`
	// status of the condition: True, False or Unknown.
	// +optional
	Status corev1.ConditionStatus `json:"status,omitempty"`
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

// UnitedDeploymentStatus is what was observed of a UnitedDeployment. Counters are written also when they are zero.
type UnitedDeploymentStatus struct {
	// observedGeneration is the generation of the UnitedDeployment that this status answers.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// observedSequence is Flotilla's addition: the annotation topology.flotilla.dev/sequence that the children carry out.
	// An order of the hub may change limits alone, which are annotations, and annotations do not raise the generation.
	// +optional
	ObservedSequence int64 `json:"observedSequence,omitempty"`
	// replicas is the number of pods that exist in all subsets and are neither finished nor being deleted.
	// +optional
	Replicas int32 `json:"replicas"`
	// readyReplicas is the number of pods that are ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`
	// updatedReplicas is the number of pods of updatedRevision.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas"`
	// updatedReadyReplicas is the number of pods of updatedRevision that are ready.
	// +optional
	UpdatedReadyReplicas int32 `json:"updatedReadyReplicas"`
	// reservedPods is the number of pods that wait in subsets that cannot schedule them while others run in their place.
	// +optional
	ReservedPods int32 `json:"reservedPods,omitempty"`
	// collisionCount counts names of revisions that were taken by others; it goes into the hash of the next name.
	// +optional
	CollisionCount *int32 `json:"collisionCount,omitempty"`
	// currentRevision is the name of the revision that the subsets come from; it becomes updatedRevision when all are
	// updated.
	// +optional
	CurrentRevision string `json:"currentRevision"`
	// updatedRevision is the name of the newest revision of template.
	// +optional
	UpdatedRevision string `json:"updatedRevision,omitempty"`
	// subsetStatuses tell of each subset, in the order of spec.topology.subsets.
	// +optional
	// +listType=map
	// +listMapKey=name
	SubsetStatuses []SubsetStatus `json:"subsetStatuses,omitempty"`
	// conditions are the observed aspects, one of each type.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []UnitedDeploymentCondition `json:"conditions,omitempty"`
	// labelSelector is spec.selector as text, for the scale subresource (autoscalers find the pods with it).
	// +optional
	LabelSelector string `json:"labelSelector,omitempty"`
}

// SubsetStatus is what was observed of one subset.
type SubsetStatus struct {
	// name of the subset.
	Name string `json:"name"`
	// replicas is the number of pods that exist in the subset.
	// +optional
	Replicas int32 `json:"replicas"`
	// readyReplicas is the number of pods of the subset that are ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`
	// partition is how many pods of the subset stay on the old revision.
	// +optional
	Partition int32 `json:"partition"`
	// reservedPods is the number of pods of the subset that wait while others run in their place.
	// +optional
	ReservedPods int32 `json:"reservedPods,omitempty"`
	// conditions of the subset: Schedulable.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []SubsetCondition `json:"conditions,omitempty"`

	// desiredReplicas is the number of pods that the subset is to have. Flotilla's addition.
	// +optional
	DesiredReplicas int32 `json:"desiredReplicas"`
	// availableReplicas is the number of pods of the subset that are available. Flotilla's addition.
	// +optional
	AvailableReplicas int32 `json:"availableReplicas"`
	// updatedReplicas is the number of pods of the subset of updatedRevision. Flotilla's addition.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas"`
	// updatedReadyReplicas is the number of pods of the subset of updatedRevision that are ready. Flotilla's addition.
	// +optional
	UpdatedReadyReplicas int32 `json:"updatedReadyReplicas"`
	// updatedAvailableReplicas is the number of pods of the subset of updatedRevision that are available; of Deployments
	// and StatefulSets, how many must be. Flotilla's addition.
	// +optional
	UpdatedAvailableReplicas int32 `json:"updatedAvailableReplicas"`
	// canGoBack is whether a higher partition brings updated pods of the subset back to the revision that all of them had
	// before: false once all were updated, and for kinds without a partition. Flotilla's addition.
	// +optional
	CanGoBack bool `json:"canGoBack,omitempty"`
}

// SubsetConditionType names a condition of a subset.
type SubsetConditionType string

// SubsetSchedulable is False while pods of the subset cannot be scheduled.
const SubsetSchedulable SubsetConditionType = "Schedulable"

// SubsetCondition is one observed aspect of a subset.
type SubsetCondition struct {
	// type of the condition: Schedulable.
	// +kubebuilder:validation:MaxLength=316
	Type SubsetConditionType `json:"type"`
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

// UnitedDeployment divides one workload over subsets of nodes, and on a hub over zones and clusters.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.labelSelector
// +kubebuilder:resource:shortName=ud
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="DESIRED",type=integer,JSONPath=`.spec.replicas`,description="pods that are asked for"
// +kubebuilder:printcolumn:name="CURRENT",type=integer,JSONPath=`.status.replicas`,description="pods that exist"
// +kubebuilder:printcolumn:name="UPDATED",type=integer,JSONPath=`.status.updatedReplicas`,description="pods of the newest revision"
// +kubebuilder:printcolumn:name="READY",type=integer,JSONPath=`.status.readyReplicas`,description="pods that are ready"
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`,description="time since the UnitedDeployment was made"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 52",message="the name of a UnitedDeployment may have at most 52 characters, because \"<name>-<hash>\" is a label of its children: choose a shorter name",messageExpression="'the name %s has %d characters; a UnitedDeployment may have at most 52, because \"<name>-<hash>\" is a label of its children: choose a shorter name'.format([dyn(self.metadata.name), dyn(self.metadata.name.size())])"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.topology) || !has(self.spec.topology.subsets) || has(self.spec.template.deploymentTemplate) || self.spec.topology.subsets.all(s, self.metadata.name.size() + s.name.size() <= 45)",fieldPath=".spec.topology.subsets",message="the names of the UnitedDeployment and of a subset may have at most 45 characters together, because \"<name>-<subset>-xxxxx-<hash>\" is a label of the pods: choose shorter names",messageExpression="'the names of the UnitedDeployment and of a subset may have at most 45 characters together, because \"<name>-<subset>-xxxxx-<hash>\" is a label of the pods; %s is too long with %s: choose shorter names'.format([dyn(self.metadata.name), dyn(self.spec.topology.subsets.filter(s, self.metadata.name.size() + s.name.size() > 45).map(s, s.name))])"
type UnitedDeployment struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the UnitedDeployment is to run, and where.
	// +kubebuilder:validation:XValidation:rule="has(self.selector) && ((has(self.selector.matchLabels) && size(self.selector.matchLabels) > 0) || (has(self.selector.matchExpressions) && size(self.selector.matchExpressions) > 0))",fieldPath=".selector",message="selector is missing or empty, it would match every pod of the namespace: give matchLabels that the labels of the pods in template have"
	// +kubebuilder:validation:XValidation:rule="!has(oldSelf.selector) || (has(self.selector) && self.selector == oldSelf.selector)",fieldPath=".selector",message="selector cannot change, because the pods that run would be lost to it: set it back, or make a UnitedDeployment of another name"
	// +kubebuilder:validation:XValidation:rule="!has(self.selector) || !has(self.template.cloneSetTemplate) || @selectorMatches{self.selector}{self.template.cloneSetTemplate.spec.template}",fieldPath=".selector",message="selector does not match the labels of template.cloneSetTemplate.spec.template.metadata.labels, so that no pod would ever belong to this UnitedDeployment: give them the labels that the selector asks for"
	// +kubebuilder:validation:XValidation:rule="!has(self.selector) || !has(self.template.deploymentTemplate) || (has(self.template.deploymentTemplate.spec.template) && @selectorMatches{self.selector}{self.template.deploymentTemplate.spec.template})",fieldPath=".selector",message="selector does not match the labels of template.deploymentTemplate.spec.template.metadata.labels, so that no pod would ever belong to this UnitedDeployment: give them the labels that the selector asks for"
	// +kubebuilder:validation:XValidation:rule="!has(self.selector) || !has(self.template.advancedStatefulSetTemplate) || @selectorMatches{self.selector}{self.template.advancedStatefulSetTemplate.spec.template}",fieldPath=".selector",message="selector does not match the labels of template.advancedStatefulSetTemplate.spec.template.metadata.labels, so that no pod would ever belong to this UnitedDeployment: give them the labels that the selector asks for"
	// +kubebuilder:validation:XValidation:rule="!has(self.selector) || !has(self.template.statefulSetTemplate) || (has(self.template.statefulSetTemplate.spec.template) && @selectorMatches{self.selector}{self.template.statefulSetTemplate.spec.template})",fieldPath=".selector",message="selector does not match the labels of template.statefulSetTemplate.spec.template.metadata.labels, so that no pod would ever belong to this UnitedDeployment: give them the labels that the selector asks for"
	// +kubebuilder:validation:XValidation:rule="!has(self.updateStrategy) || !has(self.updateStrategy.manualUpdate) || !has(self.updateStrategy.manualUpdate.partitions) || size(self.updateStrategy.manualUpdate.partitions) == (has(self.topology) && has(self.topology.subsets) ? self.topology.subsets.filter(s, s.name in self.updateStrategy.manualUpdate.partitions).size() : 0)",fieldPath=".updateStrategy.manualUpdate.partitions",message="partitions names a subset that topology.subsets does not have: correct the name, or remove the entry",messageExpression="'partitions names subsets that topology.subsets does not have: %s; correct the names, or remove the entries'.format([self.updateStrategy.manualUpdate.partitions.map(name, name).filter(name, !(has(self.topology) && has(self.topology.subsets) && self.topology.subsets.exists(s, s.name == name)))])"
	// +kubebuilder:validation:XValidation:rule="!has(self.topology) || !has(self.topology.subsets) || oldSelf.hasValue() || self.topology.subsets.all(s, has(s.replicas)) || self.topology.subsets.map(s, has(s.replicas) && type(s.replicas) == int ? int(s.replicas) : 0).sum() <= (has(self.replicas) ? self.replicas : 1)",optionalOldSelf=true,fieldPath=".topology.subsets",message="the subsets ask for more replicas together than spec.replicas, so that the open subsets get none: lower them, or raise spec.replicas",messageExpression="'the subsets ask for %d replicas together, spec.replicas is %d, so that the open subsets get none: lower them, or raise spec.replicas'.format([self.topology.subsets.map(s, has(s.replicas) && type(s.replicas) == int ? int(s.replicas) : 0).sum(), has(self.replicas) ? self.replicas : 1])"
	// +kubebuilder:validation:XValidation:rule="!has(self.topology) || !has(self.topology.subsets) || (has(oldSelf.topology) && has(oldSelf.topology.subsets) && self.topology.subsets == oldSelf.topology.subsets) || self.topology.subsets.all(s, has(s.replicas)) || self.topology.subsets.map(s, has(s.replicas) && type(s.replicas) == int ? int(s.replicas) : 0).sum() <= (has(self.replicas) ? self.replicas : 1)",fieldPath=".topology.subsets",message="the subsets ask for more replicas together than spec.replicas, so that the open subsets get none: lower them, or raise spec.replicas",messageExpression="'the subsets ask for %d replicas together, spec.replicas is %d, so that the open subsets get none: lower them, or raise spec.replicas'.format([self.topology.subsets.map(s, has(s.replicas) && type(s.replicas) == int ? int(s.replicas) : 0).sum(), has(self.replicas) ? self.replicas : 1])"
	Spec UnitedDeploymentSpec `json:"spec"`
	// status is what was observed.
	// +optional
	Status UnitedDeploymentStatus `json:"status,omitempty"`
}

// UnitedDeploymentList is a list of UnitedDeployments.
// +kubebuilder:object:root=true
type UnitedDeploymentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []UnitedDeployment `json:"items"`
}
