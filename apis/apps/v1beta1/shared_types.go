package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Conditions that every kind of this suite writes, beside OpenKruise's own.
const (
	// ConditionReady is True when the workload runs as asked.
	ConditionReady = "Ready"
	// ConditionProgressing is True while a change is being carried out and moves on.
	ConditionProgressing = "Progressing"
	// ConditionReconciling is True while the controller has not reached what the spec asks for (kstatus).
	ConditionReconciling = "Reconciling"
	// ConditionStalled is True when nothing will move before a person changes something (kstatus).
	ConditionStalled = "Stalled"
	// ConditionFederated tells, in a federated namespace of a hub, whether the workload is placed on members.
	ConditionFederated = "Federated"
	// ConditionPodsNotReady is True on a hub while members report why pods are not Ready, or not gone. Its reason is that
	// of the most pods. It is absent otherwise.
	ConditionPodsNotReady = "PodsNotReady"
)

// PodUpdatePolicyType says how a pod gets a new revision.
// +kubebuilder:validation:Enum=ReCreate;InPlaceIfPossible;InPlaceOnly;""
type PodUpdatePolicyType string

// The pod update policies.
const (
	ReCreatePodUpdatePolicy          PodUpdatePolicyType = "ReCreate"
	InPlaceIfPossiblePodUpdatePolicy PodUpdatePolicyType = "InPlaceIfPossible"
	InPlaceOnlyPodUpdatePolicy       PodUpdatePolicyType = "InPlaceOnly"
)

// Lifecycle holds hooks at three moments of a pod's life.
type Lifecycle struct {
	// preDelete holds a pod that is to go: it is deleted once nothing of the hook is left on it. A pod that has failed or
	// completed is not held.
	// +optional
	PreDelete *LifecycleHook `json:"preDelete,omitempty"`
	// inPlaceUpdate holds a pod that is to be updated in place: it is changed once nothing of the hook is left on it, and
	// counts as normal again once the hook is complete again.
	// +optional
	InPlaceUpdate *LifecycleHook `json:"inPlaceUpdate,omitempty"`
	// preNormal holds a new pod: it counts as available only once the hook is complete on it.
	// +optional
	PreNormal *LifecycleHook `json:"preNormal,omitempty"`
}

// LifecycleHook is the labels and finalizers by which parties outside hold a pod. The hooks preDelete and inPlaceUpdate
// hold a pod while any one of them is left on it, so that each of several parties lets go for itself. A hook is
// complete when all of them are on the pod. A hook without any does nothing.
type LifecycleHook struct {
	// labelsHandler are labels of the hook, with the values that count; another value is the same as none.
	// +optional
	LabelsHandler map[string]string `json:"labelsHandler,omitempty"`
	// finalizersHandler are finalizers of the hook.
	// +optional
	// +listType=atomic
	FinalizersHandler []string `json:"finalizersHandler,omitempty"`
	// markPodNotReady makes a pod that the hook preDelete or inPlaceUpdate holds not ready, so that it gets no more
	// traffic. It is ready again when the pod is updated, or comes back. Default false. Not for preNormal.
	// +optional
	MarkPodNotReady bool `json:"markPodNotReady,omitempty"`
}

// InPlaceUpdateStrategy tunes updates in place.
// +kubebuilder:validation:XValidation:rule="!has(self.imagePreDownloadParallelism) || @numberOrPercent{self.imagePreDownloadParallelism}",fieldPath=".imagePreDownloadParallelism",message="imagePreDownloadParallelism must be an integer of 0 or more, or a percentage from 0% to 100%",messageExpression="'imagePreDownloadParallelism is %s: it must be an integer of 0 or more, without quotes, or a percentage from 0%% to 100%% (an integer without leading zeros, and the sign %%)'.format([self.imagePreDownloadParallelism])"
type InPlaceUpdateStrategy struct {
	// gracePeriodSeconds is how long a pod is not ready, in seconds, before its containers change: time for load balancers
	// to let go of it. Default 0: at once.
	// +optional
	// +kubebuilder:validation:Minimum=0
	GracePeriodSeconds int32 `json:"gracePeriodSeconds,omitempty"`
	// imagePreDownloadParallelism is on how many nodes a new image is pulled at the same time, before the update gets
	// there: a number or a percentage. Default: no image is pulled ahead.
	// +optional
	ImagePreDownloadParallelism *intstr.IntOrString `json:"imagePreDownloadParallelism,omitempty"`
	// imagePreDownloadTimeoutSeconds is how long one such pull may take, in seconds. Default 600.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ImagePreDownloadTimeoutSeconds *int32 `json:"imagePreDownloadTimeoutSeconds,omitempty"`
	// imagePreDownloadMinUpdatedReadyPods is how many updated pods must be ready before images are pulled ahead. Default
	// 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ImagePreDownloadMinUpdatedReadyPods *int32 `json:"imagePreDownloadMinUpdatedReadyPods,omitempty"`
}

// UpdatePriorityStrategy says which pods are updated first. Only one of its fields is used.
// +kubebuilder:validation:XValidation:rule="!(has(self.orderPriority) && size(self.orderPriority) > 0 && has(self.weightPriority) && size(self.weightPriority) > 0)",message="give orderPriority or weightPriority, not both: the pods can have one order only"
type UpdatePriorityStrategy struct {
	// orderPriority orders pods by label values, the greatest first; the first term decides, the next ones break ties. A
	// number at the end of a value counts as a number, and pods without the label come last. Not together with
	// weightPriority.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	OrderPriority []UpdatePriorityOrderTerm `json:"orderPriority,omitempty"`
	// weightPriority orders pods by the sum of the weights of the terms that select them, the greatest first. Not together
	// with orderPriority.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	WeightPriority []UpdatePriorityWeightTerm `json:"weightPriority,omitempty"`
}

// UpdatePriorityOrderTerm orders pods by the value of one label.
type UpdatePriorityOrderTerm struct {
	// orderedKey is the key of the label.
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="size(self) > 0",message="orderedKey is empty: name the label that orders the pods"
	OrderedKey string `json:"orderedKey"`
}

// UpdatePriorityWeightTerm adds a weight to the pods that it selects.
type UpdatePriorityWeightTerm struct {
	// weight from 0 to 100.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Weight int32 `json:"weight"`
	// matchSelector selects pods by their labels.
	MatchSelector metav1.LabelSelector `json:"matchSelector"`
}

// UpdateScatterTerm asks that pods with this label value are spread over the order of the update.
type UpdateScatterTerm struct {
	// key of the label.
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="size(self) > 0",message="key is empty: name the label whose pods are to be scattered"
	Key string `json:"key"`
	// value of the label.
	// +kubebuilder:validation:MaxLength=63
	Value string `json:"value"`
}

// ConditionStatus is shared by the conditions of the kinds here.
type ConditionStatus = corev1.ConditionStatus
