package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// StatefulSetSpec is the spec of the advanced StatefulSet; here it is the template of a UnitedDeployment's children.
type StatefulSetSpec struct {
	// replicas is the number of pods to run. The UnitedDeployment decides it for each subset; what stands here is not used.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`
	// selector of the pods. It may be left out: the UnitedDeployment's selector is used.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// template is what the pods are made from (a core/v1 PodTemplateSpec); the UnitedDeployment's selector must match its labels.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Template PodTemplate `json:"template"`
	// volumeClaimTemplates are claims that every ordinal gets of its own (core/v1 PersistentVolumeClaims).
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	VolumeClaimTemplates []corev1.PersistentVolumeClaim `json:"volumeClaimTemplates,omitempty"`
	// volumeClaimUpdateStrategy says when claims follow a change of volumeClaimTemplates.
	// +optional
	VolumeClaimUpdateStrategy VolumeClaimUpdateStrategy `json:"volumeClaimUpdateStrategy,omitempty"`
	// serviceName is the headless Service that gives the pods their names.
	// +optional
	ServiceName string `json:"serviceName,omitempty"`
	// podManagementPolicy is OrderedReady (one pod after the other, each waits for the one before) or Parallel. Default
	// OrderedReady.
	// +optional
	// +kubebuilder:validation:Enum=OrderedReady;Parallel;""
	PodManagementPolicy string `json:"podManagementPolicy,omitempty"`
	// updateStrategy says how pods get a new revision of template.
	// +optional
	UpdateStrategy StatefulSetUpdateStrategy `json:"updateStrategy,omitempty"`
	// revisionHistoryLimit is how many old revisions are kept. Default 10.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
	// reserveOrdinals are ordinals that no pod gets: numbers, or ranges written "a-b".
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10000
	ReserveOrdinals []intstr.IntOrString `json:"reserveOrdinals,omitempty"`
	// lifecycle holds pods at moments of their life until something outside has done its work. Default: no hooks.
	// +optional
	Lifecycle *Lifecycle `json:"lifecycle,omitempty"`
	// scaleStrategy bounds how many pods may be unavailable while new ones are made.
	// +optional
	ScaleStrategy *StatefulSetScaleStrategy `json:"scaleStrategy,omitempty"`
	// persistentVolumeClaimRetentionPolicy says what happens to claims of pods that are gone. Default: all are kept.
	// +optional
	PersistentVolumeClaimRetentionPolicy *PersistentVolumeClaimRetentionPolicy `json:"persistentVolumeClaimRetentionPolicy,omitempty"`
	// ordinals moves the first ordinal. Default: it is 0.
	// +optional
	Ordinals *StatefulSetOrdinals `json:"ordinals,omitempty"`
}

// VolumeClaimUpdateStrategy says when claims follow a change of their templates.
type VolumeClaimUpdateStrategy struct {
	// type is OnDelete (claims change when somebody deletes them) or OnPodRollingUpdate (with the pod's update; sizes may only
	// grow). Default OnDelete.
	// +optional
	// +kubebuilder:validation:Enum=OnDelete;OnPodRollingUpdate;""
	Type string `json:"type,omitempty"`
}

// StatefulSetUpdateStrategy says how pods get a new template.
type StatefulSetUpdateStrategy struct {
	// type is RollingUpdate or OnDelete. Default RollingUpdate.
	// +optional
	// +kubebuilder:validation:Enum=RollingUpdate;OnDelete;""
	Type string `json:"type,omitempty"`
	// rollingUpdate holds the limits and the order of a rolling update.
	// +optional
	RollingUpdate *RollingUpdateStatefulSetStrategy `json:"rollingUpdate,omitempty"`
}

// RollingUpdateStatefulSetStrategy holds the numbers of a rolling update.
// +kubebuilder:validation:XValidation:rule="!has(self.maxUnavailable) || @numberOrPercent{self.maxUnavailable}",fieldPath=".maxUnavailable",message="maxUnavailable must be an integer of 0 or more, or a percentage from 0% to 100%",messageExpression="'maxUnavailable is %s: it must be an integer of 0 or more, or a percentage from 0%% to 100%% (an integer without leading zeros, and the sign %%)'.format([self.maxUnavailable])"
type RollingUpdateStatefulSetStrategy struct {
	// partition is how many pods stay on the old revision, the lowest ordinals first. Default 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Partition *int32 `json:"partition,omitempty"`
	// maxUnavailable is how many pods may be unavailable during the update: a number, or a percentage of replicas that rounds
	// down, at least 1. Default 1. More than 1 needs podManagementPolicy Parallel.
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// podUpdatePolicy is ReCreate, InPlaceIfPossible or InPlaceOnly. Default ReCreate. The in-place policies need the readiness
	// gate InPlaceUpdateReady in template.
	// +optional
	PodUpdatePolicy PodUpdatePolicyType `json:"podUpdatePolicy,omitempty"`
	// paused stops the update where it stands. Default false.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// unorderedUpdate gives up the order of ordinals for priorities. It needs podManagementPolicy Parallel.
	// +optional
	UnorderedUpdate *UnorderedUpdateStrategy `json:"unorderedUpdate,omitempty"`
	// inPlaceUpdateStrategy tunes updates on the running pod.
	// +optional
	InPlaceUpdateStrategy *InPlaceUpdateStrategy `json:"inPlaceUpdateStrategy,omitempty"`
	// minReadySeconds is how long an updated pod must have been ready, in seconds, before it counts as available. Default 0, at
	// most 300.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=300
	MinReadySeconds *int32 `json:"minReadySeconds,omitempty"`
}

// UnorderedUpdateStrategy gives up the order of ordinals for priorities.
type UnorderedUpdateStrategy struct {
	// priorityStrategy says which pods are updated first.
	// +optional
	PriorityStrategy *UpdatePriorityStrategy `json:"priorityStrategy,omitempty"`
}

// StatefulSetScaleStrategy bounds how many pods may be unavailable while scaling.
// +kubebuilder:validation:XValidation:rule="!has(self.maxUnavailable) || @numberOrPercent{self.maxUnavailable}",fieldPath=".maxUnavailable",message="maxUnavailable must be an integer of 0 or more, or a percentage from 0% to 100%",messageExpression="'maxUnavailable is %s: it must be an integer of 0 or more, or a percentage from 0%% to 100%% (an integer without leading zeros, and the sign %%)'.format([self.maxUnavailable])"
type StatefulSetScaleStrategy struct {
	// maxUnavailable is how many pods may be unavailable while new ones are made: a number, or a percentage of replicas that
	// rounds down, at least 1. Default: no limit. It needs podManagementPolicy Parallel.
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}

// PersistentVolumeClaimRetentionPolicy says what happens to claims.
type PersistentVolumeClaimRetentionPolicy struct {
	// whenDeleted is Retain or Delete: what happens to the claims when the whole set is deleted. Default Retain.
	// +optional
	// +kubebuilder:validation:Enum=Retain;Delete;""
	WhenDeleted string `json:"whenDeleted,omitempty"`
	// whenScaled is Retain or Delete: what happens to the claims of pods that a scale-in removes. Default Retain.
	// +optional
	// +kubebuilder:validation:Enum=Retain;Delete;""
	WhenScaled string `json:"whenScaled,omitempty"`
}

// StatefulSetOrdinals moves the first ordinal.
type StatefulSetOrdinals struct {
	// start is the first ordinal. Default 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Start int32 `json:"start,omitempty"`
}
