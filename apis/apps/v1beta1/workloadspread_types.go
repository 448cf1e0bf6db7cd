package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Annotations of WorkloadSpreads, as published.
const (
	// AnnotationMatchedWorkloadSpread is on a pod that was given a subset: a MatchedWorkloadSpread as JSON.
	AnnotationMatchedWorkloadSpread = "apps.kruise.io/matched-workloadspread"
	// AnnotationIgnorePatchExistingPods on a WorkloadSpread, with the value "true", keeps the labels and annotations of
	// the subsets' patches off pods that are older than the WorkloadSpread.
	AnnotationIgnorePatchExistingPods = "workloadspread.kruise.io/ignore-patch-existing-pods-metadata"
)

// MatchedWorkloadSpread is the value of AnnotationMatchedWorkloadSpread: the subset that a pod was given.
type MatchedWorkloadSpread struct {
	// Name of the WorkloadSpread, in the namespace of the pod.
	Name string `json:"name"`
	// Subset is the name of the subset; empty for a pod that is in none.
	Subset string `json:"subset"`
	// UID was made for a pod that had no name yet when it was admitted; empty otherwise.
	UID string `json:"uid,omitempty"`
}

// WorkloadSpreadSpec says over which subsets the pods of a workload are spread. The workload decides how many pods
// there are.
// +kubebuilder:validation:XValidation:rule="!has(self.scheduleStrategy) || !has(self.scheduleStrategy.type) || self.scheduleStrategy.type != 'Adaptive' || !has(self.subsets) || size(self.subsets) == 0 || !has(self.subsets[size(self.subsets) - 1].maxReplicas)",fieldPath=".subsets",message="scheduleStrategy Adaptive needs a last subset that takes whatever the others cannot: remove maxReplicas of the last subset",messageExpression="'scheduleStrategy Adaptive needs a last subset that takes whatever the others cannot, but subset %s has maxReplicas: remove its maxReplicas, or add a subset without one'.format([self.subsets[size(self.subsets) - 1].name])"
// +kubebuilder:validation:XValidation:rule="!has(self.scheduleStrategy) || !has(self.scheduleStrategy.type) || self.scheduleStrategy.type != 'Adaptive' || !has(self.scheduleStrategy.adaptive) || !has(self.scheduleStrategy.adaptive.rescheduleCriticalSeconds) || !has(self.subsets) || size(self.subsets) < 2 || self.scheduleStrategy.adaptive.rescheduleCriticalSeconds <= 295 / (size(self.subsets) - 1)",fieldPath=".scheduleStrategy.adaptive.rescheduleCriticalSeconds",message="rescheduleCriticalSeconds is too long to try all subsets within the 300 seconds after which the first is tried again: lower it to 295 / (subsets - 1) at most",messageExpression="'rescheduleCriticalSeconds is %d, too long to try all %d subsets within the 300 seconds after which the first is tried again: lower it to %d at most'.format([dyn(self.scheduleStrategy.adaptive.rescheduleCriticalSeconds), dyn(size(self.subsets)), dyn(295 / (size(self.subsets) - 1))])"
// +kubebuilder:validation:XValidation:rule="self.targetRef.kind != 'StatefulSet' || !has(self.subsets) || self.subsets.all(s, !has(s.maxReplicas) || type(s.maxReplicas) == int)",fieldPath=".subsets",message="the pods of a StatefulSet are spread by their ordinals, for which maxReplicas must be integers: replace the percentages",messageExpression="'the pods of a StatefulSet are spread by their ordinals, for which maxReplicas must be integers; it is a percentage for %s: replace it by an integer'.format([self.subsets.filter(s, has(s.maxReplicas) && type(s.maxReplicas) == string).map(s, s.name)])"
type WorkloadSpreadSpec struct {
	// targetRef is the workload whose pods are spread. It cannot change later. Of several WorkloadSpreads for one workload
	// the oldest holds.
	// +required
	TargetReference *TargetReference `json:"targetRef"`
	// targetFilter chooses among the pods of the workload, and says where kinds without a scale subresource keep their
	// replicas. Default: all pods.
	// +optional
	TargetFilter *TargetFilter `json:"targetFilter,omitempty"`
	// subsets are the places for the pods, in order: a new pod gets the first one that has room. Pods above the sum of
	// maxReplicas start without a subset.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:XValidation:rule="size(self) > 0",message="subsets is empty, so that there is nothing to spread over: give at least one subset"
	// +kubebuilder:validation:XValidation:rule="self.all(s, !has(s.maxReplicas) || type(s.maxReplicas) == int) || self.all(s, !has(s.maxReplicas) || type(s.maxReplicas) == string)",message="maxReplicas is an integer in some subsets and a percentage in others: use one or the other in all",messageExpression="'maxReplicas is an integer for %s and a percentage for %s: use one or the other in all subsets'.format([self.filter(s, has(s.maxReplicas) && type(s.maxReplicas) == int).map(s, s.name), self.filter(s, has(s.maxReplicas) && type(s.maxReplicas) == string).map(s, s.name)])"
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || self.exists(s, !has(s.maxReplicas)) || !self.all(s, type(s.maxReplicas) == string) || self.map(s, type(s.maxReplicas) == string ? @percent{s.maxReplicas} : 0).sum() == 100",message="the percentages of maxReplicas are not 100% together, so that they leave pods without a subset or subsets without pods: make them 100%, or remove maxReplicas of the last subset, which then takes the rest",messageExpression="'the percentages of maxReplicas are %d%% together: make them 100%%, or remove maxReplicas of the last subset, which then takes the rest'.format([self.map(s, has(s.maxReplicas) && type(s.maxReplicas) == string ? @percent{s.maxReplicas} : 0).sum()])"
	// +kubebuilder:validation:XValidation:rule="!self.exists(s, !has(s.maxReplicas)) || self.map(s, has(s.maxReplicas) && type(s.maxReplicas) == string ? @percent{s.maxReplicas} : 0).sum() <= 100",message="the percentages of maxReplicas exceed 100% together: lower them",messageExpression="'the percentages of maxReplicas are %d%% together, they can be 100%% at most: lower them'.format([self.map(s, has(s.maxReplicas) && type(s.maxReplicas) == string ? @percent{s.maxReplicas} : 0).sum()])"
	Subsets []WorkloadSpreadSubset `json:"subsets"`
	// scheduleStrategy says whether pods that cannot be scheduled in their subset move to others. Default: they wait.
	// +optional
	ScheduleStrategy WorkloadSpreadScheduleStrategy `json:"scheduleStrategy,omitempty"`
}

// TargetReference names a workload in the namespace of the WorkloadSpread.
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="targetRef cannot change, because the pods of the old workload would keep the subsets that they have: set it back, or make another WorkloadSpread"
type TargetReference struct {
	// apiVersion of the workload: apps.kruise.io/v1beta1 or v1alpha1 (CloneSet, StatefulSet), apps/v1 (Deployment,
	// ReplicaSet, StatefulSet), batch/v1 (Job).
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self.matches('^([^/ ]+/)?[^/ ]+$')",message="apiVersion must be a group and a version, such as apps/v1"
	APIVersion string `json:"apiVersion"`
	// kind of the workload: CloneSet, Deployment, ReplicaSet, StatefulSet or Job.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="size(self) > 0",message="kind is empty: name the kind of the workload, such as Deployment"
	Kind string `json:"kind"`
	// name of the workload.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="size(self) > 0",message="name is empty: give the name of the workload"
	Name string `json:"name"`
}

// TargetFilter chooses among the pods of the workload.
type TargetFilter struct {
	// selector chooses the pods that are spread, by their labels. Default: all pods of the workload.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// replicasPathList are the paths of the numbers in the workload whose sum is how many pods there are to spread, such
	// as spec.replicas. Default: what the kind has.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=1024
	ReplicasPathList []string `json:"replicasPathList,omitempty"`
}

// WorkloadSpreadScheduleStrategyType is Fixed or Adaptive.
// +kubebuilder:validation:Enum=Adaptive;Fixed;""
type WorkloadSpreadScheduleStrategyType string

// The schedule strategies.
const (
	FixedWorkloadSpreadScheduleStrategyType    WorkloadSpreadScheduleStrategyType = "Fixed"
	AdaptiveWorkloadSpreadScheduleStrategyType WorkloadSpreadScheduleStrategyType = "Adaptive"
)

// WorkloadSpreadScheduleStrategy says whether pods that cannot be scheduled move to other subsets.
type WorkloadSpreadScheduleStrategy struct {
	// type is Fixed (pods that cannot be scheduled wait in their subset) or Adaptive (they are replaced by pods in the
	// next subsets). Default Fixed.
	// +optional
	Type WorkloadSpreadScheduleStrategyType `json:"type,omitempty"`
	// adaptive holds the times of type Adaptive; type Fixed does not use it.
	// +optional
	Adaptive *AdaptiveWorkloadSpreadStrategy `json:"adaptive,omitempty"`
}

// AdaptiveWorkloadSpreadStrategy holds the times of the Adaptive strategy.
type AdaptiveWorkloadSpreadStrategy struct {
	// disableSimulationSchedule has no effect: nothing simulates scheduling. It is kept for manifests that have it.
	// +optional
	DisableSimulationSchedule bool `json:"disableSimulationSchedule,omitempty"`
	// rescheduleCriticalSeconds is how long a pod may be unschedulable, in seconds, before it is replaced and its subset
	// closed for 300 seconds. At most 295 / (number of subsets - 1), so that all subsets can be tried in that time.
	// Default 0: pods are never replaced.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RescheduleCriticalSeconds *int32 `json:"rescheduleCriticalSeconds,omitempty"`
}

// WorkloadSpreadSubset is one place for pods, and how many of them it takes.
// +kubebuilder:validation:XValidation:rule="!has(self.maxReplicas) || @itemNumberOrPercent{self.maxReplicas}",fieldPath=".maxReplicas",message="maxReplicas must be an integer of 0 or more, or a percentage from 0% to 100%",messageExpression="'maxReplicas is %s: it must be an integer of 0 or more, without quotes, or a percentage from 0%% to 100%% (an integer without leading zeros, and the sign %%)'.format([self.maxReplicas])"
type WorkloadSpreadSubset struct {
	// name of the subset.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="size(self) > 0",message="the name of a subset is empty: give each subset a name of its own"
	Name string `json:"name"`
	// requiredNodeSelector says on which nodes the pods of the subset run, beside what their template asks for.
	// +optional
	RequiredNodeSelector *corev1.NodeSelectorTerm `json:"requiredNodeSelector,omitempty"`
	// preferredNodeSelector says which nodes the pods of the subset prefer, with weights, beside what their template
	// prefers.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	PreferredNodeSelector []corev1.PreferredSchedulingTerm `json:"preferredNodeSelector,omitempty"`
	// tolerations of the pods of the subset, beside those of their template.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// maxReplicas is the most pods that the subset takes: an integer, or a percentage of the workload's replicas that
	// rounds up. Default: no limit.
	// +optional
	MaxReplicas *intstr.IntOrString `json:"maxReplicas,omitempty"`
	// patch is a part of a pod that is merged into the pods of this subset (strategic merge).
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Patch runtime.RawExtension `json:"patch,omitempty"`
}

// WorkloadSpreadStatus is what was observed of a WorkloadSpread. Counters are written also when they are zero.
type WorkloadSpreadStatus struct {
	// observedGeneration is the generation of the WorkloadSpread that this status answers.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// subsetStatuses tell of each subset, in the order of spec.subsets, for the newest version of the workload.
	// +optional
	// +listType=map
	// +listMapKey=name
	SubsetStatuses []WorkloadSpreadSubsetStatus `json:"subsetStatuses,omitempty"`
	// versionedSubsetStatuses tell the same of each version of the workload that has pods, by its pod-template-hash, where
	// the versions are spread apart: a Deployment's or ReplicaSet's.
	// +optional
	VersionedSubsetStatuses map[string][]WorkloadSpreadSubsetStatus `json:"versionedSubsetStatuses,omitempty"`
	// conditions are the observed aspects of the whole, one of each type: Ready, Reconciling and Stalled. Flotilla's
	// addition.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// WorkloadSpreadSubsetSchedulable is the type of the condition of a subset that is False while pods cannot be scheduled
// in it; new pods go to other subsets then.
const WorkloadSpreadSubsetSchedulable = "Schedulable"

// WorkloadSpreadSubsetStatus is what was observed of one subset.
type WorkloadSpreadSubsetStatus struct {
	// name of the subset.
	Name string `json:"name"`
	// replicas is the number of pods of the subset that are active: neither finished nor being deleted.
	// +optional
	Replicas int32 `json:"replicas"`
	// conditions of the subset: Schedulable.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// missingReplicas is how many pods more the subset takes; -1 without a limit.
	// +optional
	MissingReplicas int32 `json:"missingReplicas"`
	// creatingPods are pods that were given the subset and are not seen yet, with the times. Nothing is written here:
	// admission counts pods that are on their way by itself.
	// +optional
	CreatingPods map[string]metav1.Time `json:"creatingPods,omitempty"`
	// deletingPods are pods that are on their way out and are still seen, with the times. Nothing is written here.
	// +optional
	DeletingPods map[string]metav1.Time `json:"deletingPods,omitempty"`
}

// WorkloadSpread spreads the pods of one workload over subsets of nodes, in their order.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=ws
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="WorkloadName",type=string,JSONPath=`.spec.targetRef.name`,description="name of the workload that is spread"
// +kubebuilder:printcolumn:name="WorkloadKind",type=string,JSONPath=`.spec.targetRef.kind`,description="kind of the workload that is spread"
// +kubebuilder:printcolumn:name="Adaptive",type=boolean,JSONPath=`.spec.scheduleStrategy.type[?(@ == "Adaptive")]`,description="whether pods that cannot be scheduled move to other subsets"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="time since the WorkloadSpread was made"
// +kubebuilder:printcolumn:name="Strategy",type=string,priority=1,JSONPath=`.spec.scheduleStrategy.type`,description="Adaptive or Fixed; column Adaptive is published with a path that finds nothing"
type WorkloadSpread struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is which workload is spread, and over what.
	Spec WorkloadSpreadSpec `json:"spec"`
	// status is what was observed.
	// +optional
	Status WorkloadSpreadStatus `json:"status,omitempty"`
}

// WorkloadSpreadList is a list of WorkloadSpreads.
// +kubebuilder:object:root=true
type WorkloadSpreadList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WorkloadSpread `json:"items"`
}
