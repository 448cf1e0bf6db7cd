package v1alpha1

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// StatefulSetSpec is the spec of a StatefulSet of apps.kruise.io.
type StatefulSetSpec struct {
	// replicas is the number of pods to run. Default 1. On a hub it is the number over all clusters together.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`
	// selector finds the pods that belong to this StatefulSet. It must match the labels of template, it cannot be empty,
	// and it cannot change.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// template is the template of the pods (a core/v1 PodTemplateSpec). A change creates a new revision, and
	// updateStrategy says how pods get it. Its labels must match selector; restartPolicy is Always or unset.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Template v1beta1.PodTemplate `json:"template"`
	// volumeClaimTemplates are templates of claims (core/v1 PersistentVolumeClaims). Each ordinal has its own claims,
	// named "<claim template>-<StatefulSet>-<ordinal>". Field volumeClaimUpdateStrategy of v1beta1 says when existing
	// claims follow a change.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	VolumeClaimTemplates []corev1.PersistentVolumeClaim `json:"volumeClaimTemplates,omitempty"`
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
	UpdateStrategy v1beta1.StatefulSetUpdateStrategy `json:"updateStrategy,omitempty"`
	// revisionHistoryLimit is the number of old revisions to keep for a rollback, in addition to those that pods use.
	// Default 10.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=0
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
	// flotilla is what Flotilla adds: steps at which an update stops by itself. Default: none. OpenKruise ignores it.
	// +optional
	Flotilla *v1beta1.FlotillaSpec `json:"flotilla,omitempty"`
}

// StatefulSet runs pods with stable ordinals, names and claims. It has updates in place, partitions and reserved
// ordinals.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.labelSelector
// +kubebuilder:resource:shortName=sts;asts
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
	// +kubebuilder:validation:XValidation:rule="has(self.selector) && ((has(self.selector.matchLabels) && size(self.selector.matchLabels) > 0) || (has(self.selector.matchExpressions) && size(self.selector.matchExpressions) > 0))",fieldPath=".selector",message="selector is missing or empty, it would match every pod of the namespace: give matchLabels that the labels of template have"
	// +kubebuilder:validation:XValidation:rule="!has(oldSelf.selector) || (has(self.selector) && self.selector == oldSelf.selector)",fieldPath=".selector",message="selector cannot change, because running pods would no longer belong to the StatefulSet: set it back, or create a StatefulSet of another name"
	// +kubebuilder:validation:XValidation:rule="!has(self.selector) || @selectorMatches{self.selector}{self.template}",fieldPath=".selector",message="selector does not match the labels of template.metadata.labels, so that no pod would ever belong to this StatefulSet: give the template the labels that selector requires"
	// +kubebuilder:validation:XValidation:rule="(has(self.serviceName) ? self.serviceName : '') == (has(oldSelf.serviceName) ? oldSelf.serviceName : '')",fieldPath=".serviceName",message="serviceName cannot change, because it is part of the DNS names of running pods: set it back, or create a StatefulSet of another name",messageExpression="'serviceName cannot change from %s, because it is part of the DNS names of running pods: set it back, or create a StatefulSet of another name'.format([has(oldSelf.serviceName) && oldSelf.serviceName != '' ? oldSelf.serviceName : 'none'])"
	// +kubebuilder:validation:XValidation:rule="(has(self.podManagementPolicy) && self.podManagementPolicy == 'Parallel') == (has(oldSelf.podManagementPolicy) && oldSelf.podManagementPolicy == 'Parallel')",fieldPath=".podManagementPolicy",message="podManagementPolicy cannot change: set it back, or create a StatefulSet of another name",messageExpression="'podManagementPolicy cannot change from %s: set it back, or create a StatefulSet of another name'.format([(has(oldSelf.podManagementPolicy) && oldSelf.podManagementPolicy == 'Parallel') ? 'Parallel' : 'OrderedReady'])"
	Spec StatefulSetSpec `json:"spec"`
	// status is the observed state.
	// +optional
	Status v1beta1.StatefulSetStatus `json:"status,omitempty"`
}

// StatefulSetList is a list of StatefulSets.
// +kubebuilder:object:root=true
type StatefulSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []StatefulSet `json:"items"`
}
