package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// SidecarSetSpec is the desired state of a SidecarSet.
// +kubebuilder:validation:XValidation:rule="has(self.selector) && (has(self.selector.matchLabels) && size(self.selector.matchLabels) > 0 || has(self.selector.matchExpressions) && size(self.selector.matchExpressions) > 0)",fieldPath=".selector",message="selector is empty, which selects no pods: give matchLabels or matchExpressions"
// +kubebuilder:validation:XValidation:rule="!has(self.containers) || self.containers.all(c, has(oldSelf.containers) && oldSelf.containers.exists(o, o.name == c.name))",fieldPath=".containers",message="a container cannot be added to an existing SidecarSet, because running pods cannot get one: make another SidecarSet with it"
// +kubebuilder:validation:XValidation:rule="!has(self.initContainers) || self.initContainers.all(c, !has(c.resourcesPolicy) || has(c.restartPolicy) && c.restartPolicy == 'Always')",fieldPath=".initContainers",message="resourcesPolicy is for init containers with restartPolicy Always only: set restartPolicy, or remove resourcesPolicy"
// +kubebuilder:validation:XValidation:rule="!has(self.initContainers) || self.initContainers.all(c, !has(c.upgradeStrategy) || !has(c.upgradeStrategy.upgradeType) || c.upgradeStrategy.upgradeType != 'HotUpgrade')",fieldPath=".initContainers",message="upgradeType HotUpgrade is not for init containers: remove it, or make it a container"
type SidecarSetSpec struct {
	// selector selects the pods that get the sidecars by their labels. It cannot be empty.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// namespaceSelector selects the namespaces of the pods by their labels. Default: all namespaces but kube-system,
	// kube-public and flotilla-system, whose pods never get sidecars.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// initContainers are added behind the init containers of new pods, in the order of their names. Those with
	// restartPolicy Always are native sidecars.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	InitContainers []SidecarContainer `json:"initContainers,omitempty"`
	// containers are the sidecars that new pods get. A change of an image reaches running pods in place; other changes
	// reach new pods.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Containers []SidecarContainer `json:"containers,omitempty"`
	// volumes that the sidecars mount. A pod gets those that one of them names in volumeMounts or volumeDevices.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Volumes []SidecarVolume `json:"volumes,omitempty"`
	// updateStrategy says how running pods get new images.
	// +optional
	// +kubebuilder:default={}
	UpdateStrategy SidecarSetUpdateStrategy `json:"updateStrategy,omitempty"`
	// injectionStrategy says what new pods get.
	// +optional
	InjectionStrategy SidecarSetInjectionStrategy `json:"injectionStrategy,omitempty"`
	// imagePullSecrets are added to those of new pods.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
	// revisionHistoryLimit is how many revisions that are not in use are kept. Default 10.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=1
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
	// patchPodMetadata changes the annotations of new pods, the first entry first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	PatchPodMetadata []SidecarSetPatchPodMetadata `json:"patchPodMetadata,omitempty"`
	// customVersion names the current revision, for injectionStrategy.revision.customVersion. It is the value of a label.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$')",message="customVersion is no value of a label: use letters, digits, and between them -, _ and .",messageExpression="'customVersion %s is no value of a label: use letters, digits, and between them -, _ and .'.format([self])"
	CustomVersion string `json:"customVersion,omitempty"`
	// flotilla has what Flotilla adds to the published fields.
	// +optional
	Flotilla *SidecarSetFlotilla `json:"flotilla,omitempty"`
}

// SidecarContainer is a core/v1 Container and how pods get it. The definitions keep the container without a schema, so
// that it may hold values of wrong types. Decoding an object never fails because of them.
// +kubebuilder:validation:XValidation:rule="!has(self.resourcesPolicy) || !has(self.resources) || !has(self.resources.limits) && !has(self.resources.requests)",fieldPath=".resourcesPolicy",message="resourcesPolicy computes the resources, and resources are given too: remove one of them"
// +kubebuilder:validation:XValidation:rule="(has(self.upgradeStrategy) && has(self.upgradeStrategy.upgradeType) && self.upgradeStrategy.upgradeType == 'HotUpgrade') == (has(oldSelf.upgradeStrategy) && has(oldSelf.upgradeStrategy.upgradeType) && oldSelf.upgradeStrategy.upgradeType == 'HotUpgrade')",fieldPath=".upgradeStrategy",message="upgradeType cannot change, because running pods have one container or two: set it back, or give the container another name in another SidecarSet"
type SidecarContainer struct {
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	corev1.Container `json:",inline"`
	// podInjectPolicy is BeforeAppContainer (the container is put before those of the pod) or AfterAppContainer (behind
	// them). Default BeforeAppContainer. Init containers are always AfterAppContainer.
	// +optional
	PodInjectPolicy PodInjectPolicyType `json:"podInjectPolicy,omitempty"`
	// upgradeStrategy says how the container of a running pod gets a new image.
	// +optional
	// +kubebuilder:default={upgradeType: ColdUpgrade}
	UpgradeStrategy SidecarContainerUpgradeStrategy `json:"upgradeStrategy,omitempty"`
	// shareVolumePolicy says whether the container mounts what the containers of the pod mount.
	// +optional
	// +kubebuilder:default={type: disabled}
	ShareVolumePolicy ShareVolumePolicy `json:"shareVolumePolicy,omitempty"`
	// shareVolumeDevicePolicy says whether the container has the block devices of the containers of the pod.
	// +optional
	ShareVolumeDevicePolicy *ShareVolumePolicy `json:"shareVolumeDevicePolicy,omitempty"`
	// transferEnv are environment variables of containers of the pod that the container gets too. A variable that the
	// container has itself stays as it is.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	TransferEnv []TransferEnvVar `json:"transferEnv,omitempty"`
	// resourcesPolicy computes the resources of the container from those of containers of the pod. Not together with
	// resources.
	// +optional
	ResourcesPolicy *ResourcesPolicy `json:"resourcesPolicy,omitempty"`
	// Undecoded is the container as JSON if it cannot be decoded, else nil. Of the fields only the name is set then.
	// Encoding returns it, so that a write of another field changes nothing in the container.
	Undecoded []byte `json:"-"`
}

// plainSidecarContainer has the fields of a SidecarContainer without its methods.
type plainSidecarContainer SidecarContainer

// UnmarshalJSON keeps data that cannot be decoded, and never fails.
func (c *SidecarContainer) UnmarshalJSON(data []byte) error {
	plain, undecoded := decode[plainSidecarContainer](data)
	if *c = SidecarContainer(plain); undecoded != nil {
		known, _ := decode[struct {
			Name string `json:"name"`
		}](data)
		c.Name, c.Undecoded = known.Name, undecoded
	}
	return nil
}

// MarshalJSON returns what was decoded.
func (c SidecarContainer) MarshalJSON() ([]byte, error) {
	return encode(plainSidecarContainer(c), c.Undecoded)
}

// Err reports why the container at path cannot be decoded, nil if it can.
func (c *SidecarContainer) Err(path *field.Path) error {
	return undecodable[plainSidecarContainer](path, c.Undecoded)
}

// SidecarVolume is a core/v1 Volume that always decodes, like SidecarContainer.
type SidecarVolume struct {
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	corev1.Volume `json:",inline"`
	// Undecoded is the volume as JSON if it cannot be decoded, else nil. Of the fields only the name is set then.
	Undecoded []byte `json:"-"`
}

// UnmarshalJSON keeps data that cannot be decoded, and never fails.
func (v *SidecarVolume) UnmarshalJSON(data []byte) error {
	if v.Volume, v.Undecoded = decode[corev1.Volume](data); v.Undecoded != nil {
		known, _ := decode[struct {
			Name string `json:"name"`
		}](data)
		v.Name = known.Name
	}
	return nil
}

// MarshalJSON returns what was decoded.
func (v SidecarVolume) MarshalJSON() ([]byte, error) { return encode(v.Volume, v.Undecoded) }

// Err reports why the volume at path cannot be decoded, nil if it can.
func (v *SidecarVolume) Err(path *field.Path) error {
	return undecodable[corev1.Volume](path, v.Undecoded)
}

// PodInjectPolicyType says where in the pod a container is put.
// +kubebuilder:validation:Enum=BeforeAppContainer;AfterAppContainer;""
type PodInjectPolicyType string

// The places of injected containers.
const (
	BeforeAppContainerType PodInjectPolicyType = "BeforeAppContainer"
	AfterAppContainerType  PodInjectPolicyType = "AfterAppContainer"
)

// SidecarContainerUpgradeType says how the container of a running pod gets a new image.
// +kubebuilder:validation:Enum=ColdUpgrade;HotUpgrade;""
type SidecarContainerUpgradeType string

// The ways to upgrade a sidecar.
const (
	SidecarContainerColdUpgrade SidecarContainerUpgradeType = "ColdUpgrade"
	SidecarContainerHotUpgrade  SidecarContainerUpgradeType = "HotUpgrade"
)

// SidecarContainerUpgradeStrategy says how the container of a running pod gets a new image.
// +kubebuilder:validation:XValidation:rule="!has(self.upgradeType) || self.upgradeType != 'HotUpgrade' || has(self.hotUpgradeEmptyImage) && size(self.hotUpgradeEmptyImage) > 0",fieldPath=".hotUpgradeEmptyImage",message="hotUpgradeEmptyImage is missing, which upgradeType HotUpgrade needs for the container that waits: give an image that does nothing"
type SidecarContainerUpgradeStrategy struct {
	// upgradeType is ColdUpgrade (the container restarts with the new image) or HotUpgrade (pods have two containers, one
	// of which runs hotUpgradeEmptyImage; the other one takes over once it is ready). Default ColdUpgrade. It cannot
	// change.
	// +optional
	UpgradeType SidecarContainerUpgradeType `json:"upgradeType,omitempty"`
	// hotUpgradeEmptyImage is what the container runs that does not work, for HotUpgrade.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	HotUpgradeEmptyImage string `json:"hotUpgradeEmptyImage,omitempty"`
}

// ShareVolumePolicyType says whether volumes are shared.
// +kubebuilder:validation:Enum=enabled;disabled;""
type ShareVolumePolicyType string

// Whether volumes are shared.
const (
	ShareVolumePolicyEnabled  ShareVolumePolicyType = "enabled"
	ShareVolumePolicyDisabled ShareVolumePolicyType = "disabled"
)

// ShareVolumePolicy says whether volumes are shared.
type ShareVolumePolicy struct {
	// type is enabled or disabled. Default disabled.
	// +optional
	Type ShareVolumePolicyType `json:"type,omitempty"`
}

// TransferEnvVar names environment variables of a container of the pod.
// +kubebuilder:validation:XValidation:rule="(has(self.sourceContainerName) && size(self.sourceContainerName) > 0) != has(self.sourceContainerNameFrom)",message="give either sourceContainerName or sourceContainerNameFrom: they name the container whose variables are taken"
// +kubebuilder:validation:XValidation:rule="has(self.envName) && size(self.envName) > 0 || has(self.envNames) && size(self.envNames) > 0",message="envName and envNames are empty: name the variables to take"
type TransferEnvVar struct {
	// sourceContainerName is the name of the container of the pod.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	SourceContainerName string `json:"sourceContainerName,omitempty"`
	// sourceContainerNameFrom is where the name of the container is read.
	// +optional
	SourceContainerNameFrom *SourceContainerNameSource `json:"sourceContainerNameFrom,omitempty"`
	// envName is the name of a variable.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	EnvName string `json:"envName,omitempty"`
	// envNames are the names of more variables.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	EnvNames []string `json:"envNames,omitempty"`
}

// SourceContainerNameSource is where the name of a container is read.
type SourceContainerNameSource struct {
	// fieldRef is a label or an annotation of the pod: metadata.labels['KEY'] or metadata.annotations['KEY'].
	// +optional
	FieldRef *SidecarFieldSelector `json:"fieldRef,omitempty"`
}

// SidecarFieldSelector names a field of a pod.
type SidecarFieldSelector struct {
	// apiVersion of the pod. Default v1.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	APIVersion string `json:"apiVersion,omitempty"`
	// fieldPath is metadata.labels['KEY'] or metadata.annotations['KEY'].
	// +kubebuilder:validation:MaxLength=400
	// +kubebuilder:validation:XValidation:rule="(self.startsWith(\"metadata.labels['\") || self.startsWith(\"metadata.annotations['\")) && self.endsWith(\"']\")",message="fieldPath is neither metadata.labels['KEY'] nor metadata.annotations['KEY']: no other field can name a container"
	FieldPath string `json:"fieldPath"`
}

// TargetContainersModeType says how the resources of several containers become one.
// +kubebuilder:validation:Enum=sum;max
type TargetContainersModeType string

// How the resources of several containers become one.
const (
	TargetContainersModeSum TargetContainersModeType = "sum"
	TargetContainersModeMax TargetContainersModeType = "max"
)

// ResourcesPolicy computes the resources of a sidecar.
type ResourcesPolicy struct {
	// targetContainersMode is sum or max: what cpu and memory in the expressions are of the containers that
	// targetContainersNameRegex selects. Default sum.
	// +optional
	TargetContainersMode TargetContainersModeType `json:"targetContainersMode,omitempty"`
	// targetContainersNameRegex is a regular expression that selects containers of the pod by their names. Sidecars of
	// SidecarSets are left out. Default: all containers.
	// +optional
	// +kubebuilder:default=".*"
	// +kubebuilder:validation:MaxLength=1024
	TargetContainersNameRegex string `json:"targetContainersNameRegex,omitempty"`
	// resourcesExpr are the expressions, for example "max(cpu*50%, 50m)".
	// +optional
	ResourcesExpr ResourcesExpr `json:"resourcesExpr,omitempty"`
}

// ResourcesExpr are the expressions for the resources of a sidecar.
type ResourcesExpr struct {
	// limits of the container. A limit is left out if one of the selected containers has none.
	// +optional
	Limits *ResourceExprs `json:"limits,omitempty"`
	// requests of the container. A selected container without a request counts as 0.
	// +optional
	Requests *ResourceExprs `json:"requests,omitempty"`
}

// ResourceExprs are expressions for cpu and memory. They have numbers, percentages, quantities, the variable of the
// same name, + - * / and parentheses, and max(a, b) and min(a, b).
type ResourceExprs struct {
	// cpu is an expression over cpu. Default: none is set.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	CPU string `json:"cpu,omitempty"`
	// memory is an expression over memory. Default: none is set.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Memory string `json:"memory,omitempty"`
}

// SidecarSetUpdateStrategyType says whether running pods get new images.
// +kubebuilder:validation:Enum=RollingUpdate;NotUpdate;""
type SidecarSetUpdateStrategyType string

// Whether running pods get new images.
const (
	RollingUpdateSidecarSetStrategyType SidecarSetUpdateStrategyType = "RollingUpdate"
	NotUpdateSidecarSetStrategyType     SidecarSetUpdateStrategyType = "NotUpdate"
)

// SidecarSetUpdateStrategy says how running pods get new images.
// +kubebuilder:validation:XValidation:rule="!has(self.selector) || !has(self.partition) || self.partition == 0 || self.partition == '0%'",fieldPath=".partition",message="partition and selector both limit the update: give one of them"
// +kubebuilder:validation:XValidation:rule="!has(self.partition) || @numberOrPercent{self.partition}",fieldPath=".partition",message="partition must be an integer of 0 or more, or a percentage from 0% to 100%",messageExpression="'partition is %s: it must be an integer of 0 or more, without quotes, or a percentage from 0%% to 100%% (an integer without leading zeros, and the sign %%)'.format([self.partition])"
// +kubebuilder:validation:XValidation:rule="!has(self.maxUnavailable) || @numberOrPercent{self.maxUnavailable} && self.maxUnavailable != 0 && self.maxUnavailable != '0%'",fieldPath=".maxUnavailable",message="maxUnavailable must be an integer of 1 or more, or a percentage from 1% to 100%",messageExpression="'maxUnavailable is %s: it must be an integer of 1 or more, without quotes, or a percentage from 1%% to 100%%; set paused to hold the update'.format([self.maxUnavailable])"
type SidecarSetUpdateStrategy struct {
	// type is RollingUpdate (running pods get new images) or NotUpdate (only new pods get them). Default RollingUpdate.
	// +optional
	// +kubebuilder:default=RollingUpdate
	Type SidecarSetUpdateStrategyType `json:"type,omitempty"`
	// paused stops the update where it stands. Default false.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// selector selects the pods that are updated, of those with the sidecars. Default: all. Not together with partition.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// partition is how many pods stay on the old images: a number, or a percentage of the pods with the sidecars that
	// rounds up. Default 0.
	// +optional
	// +kubebuilder:default=0
	Partition *intstr.IntOrString `json:"partition,omitempty"`
	// maxUnavailable is how many pods may be unavailable because of the update: a number, or a percentage of the pods with
	// the sidecars that rounds up. Pods that are not ready anyway are updated without counting. Default 1.
	// +optional
	// +kubebuilder:default=1
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// priorityStrategy says which pods are updated first. Default: those that are not ready, then the newest.
	// +optional
	PriorityStrategy *UpdatePriorityStrategy `json:"priorityStrategy,omitempty"`
	// scatterStrategy spreads pods with certain label values over the whole update, after priorityStrategy. A value "*"
	// stands for each value of the label.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	ScatterStrategy []UpdateScatterTerm `json:"scatterStrategy,omitempty"`
}

// SidecarSetInjectionStrategy says what new pods get.
type SidecarSetInjectionStrategy struct {
	// paused keeps new pods without the sidecars. Running pods are updated on. Default false.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// revision is the revision that new pods get. Default: the current one.
	// +optional
	Revision *SidecarSetInjectRevision `json:"revision,omitempty"`
}

// SidecarSetInjectRevisionPolicy says which new pods get a revision.
// +kubebuilder:validation:Enum=Always;Partial
type SidecarSetInjectRevisionPolicy string

// Which new pods get a revision.
const (
	AlwaysSidecarSetInjectRevisionPolicy  SidecarSetInjectRevisionPolicy = "Always"
	PartialSidecarSetInjectRevisionPolicy SidecarSetInjectRevisionPolicy = "Partial"
)

// SidecarSetInjectRevision names a revision.
// +kubebuilder:validation:XValidation:rule="has(self.revisionName) && size(self.revisionName) > 0 || has(self.customVersion) && size(self.customVersion) > 0",message="revision names none: give revisionName or customVersion, or remove revision"
type SidecarSetInjectRevision struct {
	// customVersion is the customVersion that the SidecarSet had in the revision.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	CustomVersion *string `json:"customVersion,omitempty"`
	// revisionName is the name of the ControllerRevision. It counts before customVersion.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	RevisionName *string `json:"revisionName,omitempty"`
	// policy is Always (all new pods get the revision) or Partial (the share of new pods that updateStrategy.partition
	// gives as a percentage, and those that updateStrategy.selector does not match; the others get the current one).
	// Which pods these are follows from their names. Default Always.
	// +optional
	// +kubebuilder:default=Always
	Policy SidecarSetInjectRevisionPolicy `json:"policy,omitempty"`
}

// SidecarSetPatchPolicyType says what happens to an annotation that a pod has.
// +kubebuilder:validation:Enum=Retain;Overwrite;MergePatchJson;""
type SidecarSetPatchPolicyType string

// What happens to an annotation that a pod has.
const (
	SidecarSetRetainPatchPolicy         SidecarSetPatchPolicyType = "Retain"
	SidecarSetOverwritePatchPolicy      SidecarSetPatchPolicyType = "Overwrite"
	SidecarSetMergePatchJSONPatchPolicy SidecarSetPatchPolicyType = "MergePatchJson"
)

// SidecarSetPatchPodMetadata changes annotations of pods.
type SidecarSetPatchPodMetadata struct {
	// annotations that pods get.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// patchPolicy is Retain (an annotation that the pod has stays), Overwrite (it is replaced) or MergePatchJson (the
	// value is a JSON merge patch for it). Default Retain. The others are for keys that the key
	// SidecarSet_PatchPodMetadata_WhiteList of the ConfigMap kruise-configuration allows.
	// +optional
	// +kubebuilder:default=Retain
	PatchPolicy SidecarSetPatchPolicyType `json:"patchPolicy,omitempty"`
}

// SidecarSetStatus is the observed state of a SidecarSet. Counters are written also when they are zero.
type SidecarSetStatus struct {
	// observedGeneration is the generation that the controller acted on last.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// matchedPods is how many pods that the selector matches have the sidecars.
	// +optional
	MatchedPods int32 `json:"matchedPods"`
	// updatedPods is how many of them have the current revision.
	// +optional
	UpdatedPods int32 `json:"updatedPods"`
	// readyPods is how many of them are ready.
	// +optional
	ReadyPods int32 `json:"readyPods"`
	// updatedReadyPods is how many of them have the current revision and are ready.
	// +optional
	UpdatedReadyPods int32 `json:"updatedReadyPods,omitempty"`
	// latestRevision is the name of the current ControllerRevision.
	// +optional
	LatestRevision string `json:"latestRevision,omitempty"`
	// collisionCount is how often the name of a new ControllerRevision was taken.
	// +optional
	CollisionCount *int32 `json:"collisionCount,omitempty"`
	// notUpdatablePods is Flotilla's addition: how many of them lack the current revision and do not get it, as
	// updateStrategy and flotilla.recreate are. They differ in more than images and are not created again, or the selector
	// or the type of the strategy leaves them out.
	// +optional
	NotUpdatablePods int32 `json:"notUpdatablePods,omitempty"`
	// observedSequence is Flotilla's addition: the annotation topology.flotilla.dev/sequence that the controller acts on.
	// An order of the hub may change its budget alone, which is an annotation and does not raise the generation.
	// +optional
	ObservedSequence int64 `json:"observedSequence,omitempty"`
	// conditions are Ready, Reconciling and Stalled; on a hub also Federated and Progressing.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// flotilla has what Flotilla adds to the published fields.
	// +optional
	Flotilla *SidecarSetProgress `json:"flotilla,omitempty"`
}

// SidecarSet adds sidecar containers to new pods, and updates their images in running ones.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="MATCHED",type=integer,JSONPath=`.status.matchedPods`,description="pods that have the sidecars"
// +kubebuilder:printcolumn:name="UPDATED",type=integer,JSONPath=`.status.updatedPods`,description="pods that have the current revision"
// +kubebuilder:printcolumn:name="READY",type=integer,JSONPath=`.status.readyPods`,description="pods that are ready"
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`,description="time since it was created"
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63 && !self.metadata.name.contains('.')",message="the name of a SidecarSet has at most 63 characters and no dots, because annotations of pods use it: choose another name"
type SidecarSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	Spec SidecarSetSpec `json:"spec"`
	// status is the observed state.
	// +optional
	Status SidecarSetStatus `json:"status,omitempty"`
}

// SidecarSetList is a list of SidecarSets.
// +kubebuilder:object:root=true
type SidecarSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SidecarSet `json:"items"`
}
