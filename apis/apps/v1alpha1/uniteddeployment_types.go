package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
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
	Topology v1beta1.Topology `json:"topology,omitempty"`
	// updateStrategy says how much of each subset gets a new revision of template.
	// +optional
	// +kubebuilder:default={}
	UpdateStrategy v1beta1.UnitedDeploymentUpdateStrategy `json:"updateStrategy,omitempty"`
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
	StatefulSetTemplate *v1beta1.StatefulSetTemplateSpec `json:"statefulSetTemplate,omitempty"`
	// advancedStatefulSetTemplate makes each subset an apps.kruise.io StatefulSet.
	// +optional
	AdvancedStatefulSetTemplate *v1beta1.AdvancedStatefulSetTemplateSpec `json:"advancedStatefulSetTemplate,omitempty"`
	// cloneSetTemplate makes each subset a CloneSet.
	// +optional
	CloneSetTemplate *CloneSetTemplateSpec `json:"cloneSetTemplate,omitempty"`
	// deploymentTemplate makes each subset an apps/v1 Deployment. Deployments have no partition:
	// updateStrategy.manualUpdate does not hold for them.
	// +optional
	DeploymentTemplate *v1beta1.DeploymentTemplateSpec `json:"deploymentTemplate,omitempty"`
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
	Spec SubsetCloneSetSpec `json:"spec"`
}

// SubsetCloneSetSpec is the spec of CloneSets that are children. Its shape is that of v1beta1, in both versions of
// UnitedDeployment. Manifests of the time when it was v1alpha1's are taken too: the update strategy without
// rollingUpdate, and disablePVCReuse.
// +kubebuilder:validation:XValidation:rule="!has(self.progressDeadlineSeconds) || self.progressDeadlineSeconds == 2147483647 || self.progressDeadlineSeconds > (has(self.minReadySeconds) ? self.minReadySeconds : 0)",fieldPath=".progressDeadlineSeconds",message="progressDeadlineSeconds must be greater than minReadySeconds: raise it, or remove it to watch no deadline",messageExpression="'progressDeadlineSeconds is %d, which is not greater than minReadySeconds: raise it, or remove it to watch no deadline'.format([self.progressDeadlineSeconds])"
type SubsetCloneSetSpec struct {
	// replicas is the number of pods to run. Default 1. Surge pods of an update come on top of it.
	// On a hub it is the number over all clusters together.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`
	// selector finds the pods that belong to this CloneSet. It must match the labels of template, it cannot be empty, and
	// it cannot change later. Inside a UnitedDeployment it may be left out: the UnitedDeployment's selector is used.
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
	ScaleStrategy SubsetCloneSetScaleStrategy `json:"scaleStrategy,omitempty"`
	// updateStrategy says how pods get a new revision of template.
	// +optional
	UpdateStrategy SubsetCloneSetUpdateStrategy `json:"updateStrategy,omitempty"`
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

// SubsetCloneSetScaleStrategy says which pods go, and how fast pods come.
type SubsetCloneSetScaleStrategy struct {
	v1beta1.CloneSetScaleStrategy `json:",inline"`
	// disablePVCReuse is the opposite of enablePVCReuse, for manifests that were written before that; where it is given it
	// holds.
	// +optional
	DisablePVCReuse *bool `json:"disablePVCReuse,omitempty"`
}

// SubsetCloneSetUpdateStrategyType is how a pod gets a new revision.
// +kubebuilder:validation:Enum=RollingUpdate;OnDelete;ReCreate;InPlaceIfPossible;InPlaceOnly;""
type SubsetCloneSetUpdateStrategyType string

// SubsetCloneSetUpdateStrategy says how pods get a new template.
// +kubebuilder:validation:XValidation:rule="!has(self.rollingUpdate) || !(has(self.partition) || has(self.maxUnavailable) || has(self.maxSurge) || has(self.paused) || has(self.priorityStrategy) || has(self.scatterStrategy) || has(self.inPlaceUpdateStrategy))",fieldPath=".rollingUpdate",message="updateStrategy has limits in rollingUpdate and also beside it: move all of them into rollingUpdate"
// +kubebuilder:validation:XValidation:rule="!has(self.rollingUpdate) || !has(self.type) || !(self.type in ['ReCreate', 'InPlaceIfPossible', 'InPlaceOnly'])",fieldPath=".type",message="type is a policy for pods, which with rollingUpdate belongs into rollingUpdate.podUpdatePolicy: move it there, and make type RollingUpdate",messageExpression="'type is %s, which with rollingUpdate belongs into rollingUpdate.podUpdatePolicy: move it there, and make type RollingUpdate'.format([self.type])"
// +kubebuilder:validation:XValidation:rule="!(has(self.type) && self.type == 'InPlaceOnly' && has(self.maxSurge) && self.maxSurge != 0 && self.maxSurge != '0%')",fieldPath=".maxSurge",message="maxSurge does not go with type InPlaceOnly, which makes no new pods: remove maxSurge, or use InPlaceIfPossible"
type SubsetCloneSetUpdateStrategy struct {
	// type is RollingUpdate (pods are updated within the limits of rollingUpdate) or OnDelete (a pod gets the new revision
	// when somebody deletes it). Default RollingUpdate. Without rollingUpdate it may be ReCreate, InPlaceIfPossible or
	// InPlaceOnly, which is RollingUpdate with this podUpdatePolicy.
	// +optional
	Type SubsetCloneSetUpdateStrategyType `json:"type,omitempty"`
	// rollingUpdate holds the limits and the order of a rolling update. Type OnDelete does not use it.
	// +optional
	RollingUpdate *v1beta1.RollingUpdateCloneSetStrategy `json:"rollingUpdate,omitempty"`
	// The limits may stand here too, where they were before there was rollingUpdate.
	CloneSetUpdateLimits `json:",inline"`
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
	// updatedReplicas is the number of pods of updateStatus.updatedRevision.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas"`
	// updatedReadyReplicas is the number of pods of updateStatus.updatedRevision that are ready.
	// +optional
	UpdatedReadyReplicas int32 `json:"updatedReadyReplicas"`
	// reservedPods is the number of pods that wait in subsets that cannot schedule them while others run in their place.
	// +optional
	ReservedPods int32 `json:"reservedPods,omitempty"`
	// collisionCount counts names of revisions that were taken by others; it goes into the hash of the next name.
	// +optional
	CollisionCount *int32 `json:"collisionCount,omitempty"`
	// currentRevision is the name of the revision that the subsets come from; it becomes
	// updateStatus.updatedRevision when all are updated.
	// +optional
	CurrentRevision string `json:"currentRevision"`
	// updateStatus tells of the newest revision. v1beta1 tells it in updatedRevision and in subsetStatuses.
	// +optional
	UpdateStatus *UpdateStatus `json:"updateStatus,omitempty"`
	// subsetReplicas is the number of pods that exist, by subset. v1beta1 tells it in subsetStatuses alone.
	// +optional
	SubsetReplicas map[string]int32 `json:"subsetReplicas,omitempty"`
	// subsetStatuses tell of each subset, in the order of spec.topology.subsets.
	// +optional
	// +listType=map
	// +listMapKey=name
	SubsetStatuses []v1beta1.SubsetStatus `json:"subsetStatuses,omitempty"`
	// conditions are the observed aspects, one of each type.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []v1beta1.UnitedDeploymentCondition `json:"conditions,omitempty"`
	// labelSelector is spec.selector as text, for the scale subresource (autoscalers find the pods with it).
	// +optional
	LabelSelector string `json:"labelSelector,omitempty"`
}

// UpdateStatus tells of the newest revision.
type UpdateStatus struct {
	// updatedRevision is the name of the newest revision of template.
	// +optional
	UpdatedRevision string `json:"updatedRevision,omitempty"`
	// currentPartitions is how many pods stay on the old revision, by subset.
	// +optional
	CurrentPartitions map[string]int32 `json:"currentPartitions,omitempty"`
}

// UnitedDeployment divides one workload over subsets of nodes, and on a hub over zones and clusters.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.labelSelector
// +kubebuilder:resource:shortName=ud
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
