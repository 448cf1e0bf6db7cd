package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// FederationPolicySpec selects workloads and says what a plain manifest leaves open.
// +kubebuilder:validation:XValidation:rule="!has(self.reschedule) || !has(self.failover) || !has(self.failover.mode) || self.failover.mode != 'Fence'",fieldPath=".reschedule",message="reschedule does not go with failover.mode Fence: a pod that waits can find a node while another one takes its place, and then there are two; remove reschedule, or use the mode Replace or Never"
type FederationPolicySpec struct {
	// workloads selects what the policy holds for. A workload matches when any entry matches; no entry matches nothing.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	Workloads []WorkloadSelector `json:"workloads"`
	// clusters narrows the members. Default: all accepted members.
	// +optional
	Clusters ClusterSelector `json:"clusters,omitempty"`
	// placement: Each gives every selected member the whole object, of kinds that members have whole. One lets one of them
	// start the jobs, chosen by spread; it moves when the policy no longer selects that member, when the member is drained,
	// or with failover.mode Fence. One is for AdvancedCronJobs; other kinds are placed as with Each. Default Each.
	// +optional
	// +kubebuilder:default=Each
	Placement PlacementMode `json:"placement,omitempty"`
	// spread divides what the workload leaves open. Default: evenly over clusters.
	// +optional
	// +kubebuilder:default={}
	Spread Spread `json:"spread,omitempty"`
	// overrides change what some members get of a workload: each entry in turn, the later over the earlier. Objects that
	// are carried whole, such as ConfigMaps and Services, are the same in every member.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Overrides []Override `json:"overrides,omitempty"`
	// dependencies are the objects that go with a workload to its members. Default: what the pod template names, without
	// Secrets.
	// +optional
	// +kubebuilder:default={}
	Dependencies Dependencies `json:"dependencies,omitempty"`
	// failover says what becomes of the replicas of a member that is not heard of. Default: they stay where they are.
	// +optional
	// +kubebuilder:default={}
	Failover Failover `json:"failover,omitempty"`
	// rollout says in which order members get a new template. Default: all alongside each other.
	// +optional
	// +kubebuilder:default={}
	Rollout Rollout `json:"rollout,omitempty"`
	// reschedule gives pods that a member finds no node for to other members. Default: absent, they wait where they are.
	// +optional
	Reschedule *Reschedule `json:"reschedule,omitempty"`
}

// PlacementMode is in how many of the selected members an object runs that members have whole.
// +kubebuilder:validation:Enum=Each;One
type PlacementMode string

// In how many of the selected members an object runs.
const (
	PlacementEach PlacementMode = "Each"
	PlacementOne  PlacementMode = "One"
)

// WorkloadSelector selects workloads of one kind, by name or by labels, or all of them.
// +kubebuilder:validation:XValidation:rule="!(has(self.name) && has(self.selector))",message="a workload entry has name and selector: give one of them, or two entries"
type WorkloadSelector struct {
	// apiVersion of the workloads. Only its group is compared, not its version. Without one the kind is the one of this
	// name that hubs place; a name that several groups have selects nothing, and the policy's condition Ready says
	// UnknownKind.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	APIVersion string `json:"apiVersion,omitempty"`
	// kind of the workloads: CloneSet or UnitedDeployment; or a kind of which every member gets a copy: ConfigMap,
	// Service, ServiceAccount, PersistentVolumeClaim or Secret (apiVersion v1), ServiceExport
	// (multicluster.x-k8s.io/v1alpha1), and where the hub's API server runs no workloads (--hub-runs-workloads=false)
	// Deployment, StatefulSet, DaemonSet, ReplicaSet (apps/v1), Job and CronJob (batch/v1). With another kind the policy's
	// condition Ready says UnknownKind or RunsOnHub.
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
	// tolerations of the members' taints, as those of a pod; tolerationSeconds is not used. Default: none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.all(t, (!has(t.operator) || size(t.operator) == 0 || t.operator in ['Exists', 'Equal']) && (!has(t.effect) || size(t.effect) == 0 || t.effect in ['NoSchedule', 'PreferNoSchedule', 'NoExecute']))",message="a toleration has an unknown operator or effect: use operator Exists or Equal, and effect NoSchedule, PreferNoSchedule or NoExecute"
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
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
// +kubebuilder:validation:Enum=Even;Weighted;Available;Compact
type SpreadType string

// How replicas can be divided.
const (
	// SpreadEven gives every group and cell the same.
	SpreadEven SpreadType = "Even"
	// SpreadWeighted divides by the weights of the members and of the entries of places.
	SpreadWeighted SpreadType = "Weighted"
	// SpreadAvailable divides by the room that each has, with what it runs already.
	SpreadAvailable SpreadType = "Available"
	// SpreadCompact fills one after the other: those in use first, then those with the most room.
	SpreadCompact SpreadType = "Compact"
)

// Spread says over what, and how, replicas are divided that no subset has placed.
// +kubebuilder:validation:XValidation:rule="!has(self.places) || (has(self.type) && self.type == 'Weighted') || !self.places.exists(p, has(p.weight))",fieldPath=".places",message="an entry of places has a weight, which only type Weighted uses: set type to Weighted, or remove the weight"
// +kubebuilder:validation:XValidation:rule="!has(self.places) || self.places.all(p, self.places.exists_one(q, (has(p.region) ? p.region : '*') == (has(q.region) ? q.region : '*') && (has(p.zone) ? p.zone : '*') == (has(q.zone) ? q.zone : '*') && (has(p.cluster) ? p.cluster : '*') == (has(q.cluster) ? q.cluster : '*')))",fieldPath=".places",message="two entries of places name the same region, zone or cluster: give one entry for each"
type Spread struct {
	// by says over what: Cluster, Zone or Region. Default Cluster. Workloads with subsets do not use it.
	// +optional
	// +kubebuilder:default=Cluster
	By SpreadBy `json:"by,omitempty"`
	// type says how: Even, the same for each; Weighted, by weights; Available, by the room that the members report;
	// Compact, one after the other. Default Even.
	// +optional
	// +kubebuilder:default=Even
	Type SpreadType `json:"type,omitempty"`
	// maxSkew is by how many replicas the groups of by may differ, 1 or more. It bounds what is new; nothing that runs is
	// moved for it. Default: no bound. Workloads with subsets do not use it.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	MaxSkew *int32 `json:"maxSkew,omitempty"`
	// places have bounds and weights of regions, zones and clusters. Default: none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Places []SpreadPlace `json:"places,omitempty"`
}

// SpreadPlace holds for the cells that agree with all of region, zone and cluster that are given; at least one is.
// +kubebuilder:validation:XValidation:rule="has(self.region) || has(self.zone) || has(self.cluster)",message="an entry of places names nothing: give region, zone or cluster"
// +kubebuilder:validation:XValidation:rule="!has(self.min) || @itemNumberOrPercent{self.min}",fieldPath=".min",message="min must be an integer of 0 or more, or a percentage from 0% to 100%",messageExpression="'min is %s: it must be an integer of 0 or more, without quotes, or a percentage from 0%% to 100%% (an integer without leading zeros, and the sign %%)'.format([self.min])"
// +kubebuilder:validation:XValidation:rule="!has(self.max) || @itemNumberOrPercent{self.max}",fieldPath=".max",message="max must be an integer of 0 or more, or a percentage from 0% to 100%",messageExpression="'max is %s: it must be an integer of 0 or more, without quotes, or a percentage from 0%% to 100%% (an integer without leading zeros, and the sign %%)'.format([self.max])"
// +kubebuilder:validation:XValidation:rule="!has(self.min) || !has(self.max) || (type(self.min) == int ? type(self.max) != int || int(self.min) <= int(self.max) : type(self.max) == int || @percent{self.min} <= @percent{self.max})",fieldPath=".min",message="min is greater than max: lower min or raise max",messageExpression="'min %s is greater than max %s: lower min or raise max'.format([dyn(self.min), dyn(self.max)])"
type SpreadPlace struct {
	// region that the entry is for.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Region string `json:"region,omitempty"`
	// zone that the entry is for.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Zone string `json:"zone,omitempty"`
	// cluster that the entry is for: the name of a member.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=52
	Cluster string `json:"cluster,omitempty"`
	// weight relative to the others of the same level; 0 for nothing new. Default: 1 for a region or zone, the member's
	// weight for a cluster. Only with type Weighted.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Weight *int32 `json:"weight,omitempty"`
	// min is how many replicas the place has at least, over all subsets: an integer, or a percentage of the workload's
	// replicas, half rounding up. Default 0.
	// +optional
	// +kubebuilder:validation:XIntOrString
	Min *intstr.IntOrString `json:"min,omitempty"`
	// max is how many replicas the place has at most, as min. Default: no bound.
	// +optional
	// +kubebuilder:validation:XIntOrString
	Max *intstr.IntOrString `json:"max,omitempty"`
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
	// mode: Auto takes the ConfigMaps, ServiceAccounts (not default) and PersistentVolumeClaims that the pod template
	// names, and its Secrets where they may go; None takes nothing. Default Auto.
	// +optional
	// +kubebuilder:default=Auto
	Mode DependencyMode `json:"mode,omitempty"`
	// secrets: Carry lets Secrets go to members, those that a template names and those that the policy selects. Whoever
	// may read Secrets in a member then reads them. Default Never.
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
	// PolicyRunsOnHub: the policy names a kind that the hub's own cluster runs, or it placed a workload that a controller
	// there runs though the hub was told that there is none.
	PolicyRunsOnHub = "RunsOnHub"
	// PolicySecretsNotCarried: the policy selects Secrets and does not let them go to members.
	PolicySecretsNotCarried = "SecretsNotCarried"
	// PolicyUnknownKind: the policy names a kind that the hub does not divide.
	PolicyUnknownKind = "UnknownKind"
	// PolicyKindNotServed: the policy names a kind that the hub copies, and whose definition is not on the hub.
	PolicyKindNotServed = "KindNotServed"
	// PolicyNamespaceNotFederated: the namespace lacks the label topology.flotilla.dev/federated=true.
	PolicyNamespaceNotFederated = "NamespaceNotFederated"
	// PolicyInvalidSelector: a label selector of the policy cannot be read.
	PolicyInvalidSelector = "InvalidSelector"
	// PolicyInvalidCheck: the expression of a check of the rollout can never hold.
	PolicyInvalidCheck = "InvalidCheck"
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

// ClusterFederationPolicy is the default for all federated namespaces; a FederationPolicy of the namespace goes before
// it.
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
