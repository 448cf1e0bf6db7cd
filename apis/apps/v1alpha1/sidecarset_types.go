package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// LabelSidecarSetCustomVersion is on v1alpha1 SidecarSets what spec.customVersion is in v1beta1.
const LabelSidecarSetCustomVersion = v1beta1.LabelSidecarSetCustomVersion

// SidecarSetSpec is the desired state of a SidecarSet.
// +kubebuilder:validation:XValidation:rule="has(self.selector) && (has(self.selector.matchLabels) && size(self.selector.matchLabels) > 0 || has(self.selector.matchExpressions) && size(self.selector.matchExpressions) > 0)",fieldPath=".selector",message="selector is empty, which selects no pods: give matchLabels or matchExpressions"
// +kubebuilder:validation:XValidation:rule="!has(self.containers) || self.containers.all(c, has(oldSelf.containers) && oldSelf.containers.exists(o, o.name == c.name))",fieldPath=".containers",message="a container cannot be added to an existing SidecarSet, because running pods cannot get one: make another SidecarSet with it"
// +kubebuilder:validation:XValidation:rule="!has(self.initContainers) || self.initContainers.all(c, !has(c.resourcesPolicy) || has(c.restartPolicy) && c.restartPolicy == 'Always')",fieldPath=".initContainers",message="resourcesPolicy is for init containers with restartPolicy Always only: set restartPolicy, or remove resourcesPolicy"
// +kubebuilder:validation:XValidation:rule="!has(self.initContainers) || self.initContainers.all(c, !has(c.upgradeStrategy) || !has(c.upgradeStrategy.upgradeType) || c.upgradeStrategy.upgradeType != 'HotUpgrade')",fieldPath=".initContainers",message="upgradeType HotUpgrade is not for init containers: remove it, or make it a container"
type SidecarSetSpec struct {
	// selector selects the pods that get the sidecars by their labels. It cannot be empty.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// namespace of the pods. Default: all namespaces but kube-system, kube-public and flotilla-system, whose pods never
	// get sidecars.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// namespaceSelector selects the namespaces of the pods by their labels. It means nothing if namespace is
	// set. Default: as for namespace.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// initContainers are added behind the init containers of new pods, in the order of their names. Those with
	// restartPolicy Always are native sidecars.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	InitContainers []v1beta1.SidecarContainer `json:"initContainers,omitempty"`
	// containers are the sidecars that new pods get. A change of an image reaches running pods in place; other changes
	// reach new pods.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Containers []v1beta1.SidecarContainer `json:"containers,omitempty"`
	// volumes that the sidecars mount. A pod gets those that one of them names in volumeMounts or volumeDevices.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Volumes []v1beta1.SidecarVolume `json:"volumes,omitempty"`
	// updateStrategy says how running pods get new images.
	// +optional
	// +kubebuilder:default={}
	UpdateStrategy v1beta1.SidecarSetUpdateStrategy `json:"updateStrategy,omitempty"`
	// injectionStrategy says what new pods get.
	// +optional
	InjectionStrategy v1beta1.SidecarSetInjectionStrategy `json:"injectionStrategy,omitempty"`
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
	PatchPodMetadata []v1beta1.SidecarSetPatchPodMetadata `json:"patchPodMetadata,omitempty"`
	// flotilla has what Flotilla adds to the published fields.
	// +optional
	Flotilla *v1beta1.SidecarSetFlotilla `json:"flotilla,omitempty"`
}

// SidecarSet adds sidecar containers to new pods, and updates their images in running ones.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster
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
	Status v1beta1.SidecarSetStatus `json:"status,omitempty"`
}

// SidecarSetList is a list of SidecarSets.
// +kubebuilder:object:root=true
type SidecarSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SidecarSet `json:"items"`
}
