package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FederationPolicySpec selects workloads and says what a plain manifest leaves open.
type FederationPolicySpec struct {
	// workloads selects what the policy holds for. A workload matches when any entry matches; no entry matches nothing.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	Workloads []WorkloadSelector `json:"workloads"`
	// clusters narrows the members. Default: all accepted members.
	// +optional
	Clusters ClusterSelector `json:"clusters,omitempty"`
	// spread divides what the workload leaves open. Default: evenly over clusters.
	// +optional
	// +kubebuilder:default={}
	Spread Spread `json:"spread,omitempty"`
	// overrides change what some members get: each entry in turn, the later over the earlier.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Overrides []Override `json:"overrides,omitempty"`
	// dependencies are the objects that go with a workload to its members. Default: what the pod template names, without
	// Secrets.
	// +optional
	// +kubebuilder:default={}
	Dependencies Dependencies `json:"dependencies,omitempty"`
}

// WorkloadSelector selects workloads of one kind, by name or by labels, or all of them.
// +kubebuilder:validation:XValidation:rule="!(has(self.name) && has(self.selector))",message="a workload entry has name and selector: give one of them, or two entries"
type WorkloadSelector struct {
	// apiVersion of the workloads. Default apps.kruise.io/v1beta1. Only its group is compared, not its version.
	// +optional
	// +kubebuilder:default="apps.kruise.io/v1beta1"
	// +kubebuilder:validation:MaxLength=128
	APIVersion string `json:"apiVersion,omitempty"`
	// kind of the workloads: CloneSet or UnitedDeployment; or a kind of which every member gets a copy: ConfigMap, Service,
	// ServiceAccount, PersistentVolumeClaim or Secret (apiVersion v1). With another kind the policy's condition Ready says
	// UnknownKind or RunsOnHub.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="size(self) > 0",message="kind is empty: name the kind of the workloads, such as CloneSet or UnitedDeployment"
	Kind string `json:"kind"`
	// name of one workload. Without name and selector the entry selects all workloads of its kind.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// selector of the workloads, by their labels. Not together with name.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// ClusterSelector selects members: by names, by labels, or all; both given must both hold.
type ClusterSelector struct {
	// names of members. Default: all members.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=52
	// +kubebuilder:validation:XValidation:rule="self.all(name, name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'))",message="a name is no name of a MemberCluster (a DNS label of a-z, 0-9 and -): correct it",messageExpression="'%s cannot be the name of a MemberCluster, which is a DNS label (a-z, 0-9, -): correct it'.format([self.filter(name, !name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'))])"
	Names []string `json:"names,omitempty"`
	// selector of members, by the labels of the MemberCluster objects. Default: all members.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// SpreadBy is what a workload is spread over.
// +kubebuilder:validation:Enum=Cluster;Zone;Region
type SpreadBy string

// The things that a workload can be spread over.
const (
	SpreadByCluster SpreadBy = "Cluster"
	SpreadByZone    SpreadBy = "Zone"
	SpreadByRegion  SpreadBy = "Region"
)

// SpreadType is how replicas are divided.
// +kubebuilder:validation:Enum=Even
type SpreadType string

// SpreadEven gives every cell the same weight.
const SpreadEven SpreadType = "Even"

// Spread says over what, and how, replicas are divided that no subset has placed.
type Spread struct {
	// by says over what: Cluster, Zone or Region. Default Cluster.
	// +optional
	// +kubebuilder:default=Cluster
	By SpreadBy `json:"by,omitempty"`
	// type says how: Even, which gives every cell the same. Default Even.
	// +optional
	// +kubebuilder:default=Even
	Type SpreadType `json:"type,omitempty"`
}

// DependencyMode is how the objects that go with a workload are found.
// +kubebuilder:validation:Enum=Auto;None
type DependencyMode string

// The ways to find the objects that go with a workload.
const (
	// DependenciesAuto takes what the pod template names.
	DependenciesAuto DependencyMode = "Auto"
	// DependenciesNone takes only what extra lists.
	DependenciesNone DependencyMode = "None"
)

// SecretMode is whether Secrets leave the hub.
// +kubebuilder:validation:Enum=Never;Carry
type SecretMode string

// Whether Secrets leave the hub.
const (
	SecretsNever SecretMode = "Never"
	SecretsCarry SecretMode = "Carry"
)

// Dependencies says which objects go with a workload to each member that has a part of it. They go before its pods need
// them, and with the last workload that names them. Claims are created and never changed or deleted.
type Dependencies struct {
	// mode: Auto takes the ConfigMaps, ServiceAccounts (not default) and PersistentVolumeClaims that the pod template names,
	// and its Secrets where they may go; None takes nothing. Default Auto.
	// +optional
	// +kubebuilder:default=Auto
	Mode DependencyMode `json:"mode,omitempty"`
	// secrets: Carry lets Secrets go to members, those that a template names and those that the policy selects. Whoever may
	// read Secrets in a member then reads them. Default Never.
	// +optional
	// +kubebuilder:default=Never
	Secrets SecretMode `json:"secrets,omitempty"`
	// extra are objects of the workload's namespace that go with each workload, whether its template names them or not.
	// +optional
	// +listType=map
	// +listMapKey=kind
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Extra []DependencyReference `json:"extra,omitempty"`
}

// DependencyReference names an object of the workload's namespace.
// +structType=atomic
type DependencyReference struct {
	// kind of the object: ConfigMap, Secret, Service, ServiceAccount or PersistentVolumeClaim.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self in ['ConfigMap', 'Secret', 'Service', 'ServiceAccount', 'PersistentVolumeClaim']",message="kind is of no kind that goes with a workload: use ConfigMap, Secret, Service, ServiceAccount or PersistentVolumeClaim",messageExpression="'kind %s does not go with a workload: use ConfigMap, Secret, Service, ServiceAccount or PersistentVolumeClaim'.format([self])"
	Kind string `json:"kind"`
	// name of the object.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="size(self) > 0",message="name is empty: name the object that goes with the workload"
	Name string `json:"name"`
}

// FederationPolicyStatus is what was observed of a policy.
type FederationPolicyStatus struct {
	// observedGeneration is the generation that the status answers.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// workloads is the number of workloads that the policy holds for.
	// +optional
	Workloads int32 `json:"workloads"`
	// conditions: Ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Reasons of a policy's condition Ready.
const (
	// PolicyInForce: the policy holds for the workloads that it selects.
	PolicyInForce = "InForce"
	// PolicyRunsOnHub: the policy names a kind that the hub's own cluster runs.
	PolicyRunsOnHub = "RunsOnHub"
	// PolicySecretsNotCarried: the policy selects Secrets and does not let them go to members.
	PolicySecretsNotCarried = "SecretsNotCarried"
	// PolicyUnknownKind: the policy names a kind that the hub does not divide.
	PolicyUnknownKind = "UnknownKind"
	// PolicyNamespaceNotFederated: the namespace lacks the label topology.flotilla.dev/federated=true.
	PolicyNamespaceNotFederated = "NamespaceNotFederated"
	// PolicyConflicted: another policy holds for workloads that this one selects too.
	PolicyConflicted = "Conflicted"
)

// FederationPolicy says which workloads of its namespace are spread over members, and what their manifests leave open.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=fp
// +kubebuilder:printcolumn:name="READY",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="REASON",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="WORKLOADS",type=integer,JSONPath=`.status.workloads`
// +kubebuilder:printcolumn:name="SPREAD",type=string,JSONPath=`.spec.spread.by`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type FederationPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec selects workloads and says what they leave open.
	Spec FederationPolicySpec `json:"spec"`
	// status is what was observed.
	// +optional
	Status FederationPolicyStatus `json:"status,omitempty"`
}

// FederationPolicyList is a list of FederationPolicies.
// +kubebuilder:object:root=true
type FederationPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []FederationPolicy `json:"items"`
}

// ClusterFederationPolicy is the default for all federated namespaces; a FederationPolicy of the namespace goes before it.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=cfp
// +kubebuilder:printcolumn:name="READY",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="REASON",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="WORKLOADS",type=integer,JSONPath=`.status.workloads`
// +kubebuilder:printcolumn:name="SPREAD",type=string,JSONPath=`.spec.spread.by`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterFederationPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec selects workloads and says what they leave open.
	Spec FederationPolicySpec `json:"spec"`
	// status is what was observed.
	// +optional
	Status FederationPolicyStatus `json:"status,omitempty"`
}

// ClusterFederationPolicyList is a list of ClusterFederationPolicies.
// +kubebuilder:object:root=true
type ClusterFederationPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterFederationPolicy `json:"items"`
}
