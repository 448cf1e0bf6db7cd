package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MemberClusterSpec is what the hub's people say of a member.
type MemberClusterSpec struct {
	// accepted lets the member take part. Default false: the hub places nothing there.
	// +optional
	Accepted bool `json:"accepted,omitempty"`
	// clusterID is the identity of the cluster: the uid of its namespace kube-system. It is pinned when the member is
	// accepted; a cluster with another id is refused under this name.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ClusterID string `json:"clusterID,omitempty"`
	// keyFingerprint is the fingerprint of the key that the member's agent authenticates with, "sha256:" and 64
	// hexadecimal digits: no certificate is signed for another key. `flotilla accept` pins it. Default: none, then the hub
	// signs nothing for the member.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	// +kubebuilder:validation:XValidation:rule="self.matches('^(sha256:[0-9a-f]{64})?$')",message="keyFingerprint must be sha256: and 64 hexadecimal digits (0-9, a-f); flotilla accept writes it",messageExpression="'keyFingerprint \"%s\" must be sha256: and 64 hexadecimal digits (0-9, a-f); flotilla accept writes it'.format([self])"
	KeyFingerprint string `json:"keyFingerprint,omitempty"`
	// credential is what the member's agent shows the hub. Certificate: a client certificate of the hub's signer, and a
	// token where none is signed within a minute. Token: a token of a ServiceAccount of the hub, at once. Default
	// Certificate.
	// +optional
	Credential Credential `json:"credential,omitempty"`
	// region of the member; subsets select it as topology.kubernetes.io/region. Default: the region that all its nodes
	// share.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$')",message="region must be the value of a label: at most 63 letters, digits, -, _ and ., with a letter or digit at both ends"
	Region string `json:"region,omitempty"`
	// taints keep workloads away whose policy does not tolerate them. NoSchedule: nothing new; PreferNoSchedule: only what
	// no other member takes; NoExecute: nothing new, and what is there goes as far as other members can take it. Default:
	// none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.all(t, t.effect in ['NoSchedule', 'PreferNoSchedule', 'NoExecute'])",message="the effect of a taint must be NoSchedule, PreferNoSchedule or NoExecute: correct it"
	Taints []corev1.Taint `json:"taints,omitempty"`
	// weight is the member's part of a weighted spread, relative to the other members. Default 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Weight *int32 `json:"weight,omitempty"`
	// fence is a person's word that nothing runs in the member any more, while it is NotReady: workloads whose policy has
	// a failover are placed elsewhere at once. Set it with: flotilla fence NAME --confirm.
	// +optional
	Fence *Fence `json:"fence,omitempty"`
	// acknowledgedSession is the session of the agent that the hub has answered: it has seen the reports before it.
	// +optional
	AcknowledgedSession int64 `json:"acknowledgedSession,omitempty"`
}

// MemberClusterStatus is what the agent reports of its cluster; conditions are the hub's.
type MemberClusterStatus struct {
	// clusterID that the agent found: the uid of namespace kube-system.
	// +optional
	ClusterID string `json:"clusterID,omitempty"`
	// refusedClusterID is the id of another cluster whose agent came under this name and was refused.
	// +optional
	RefusedClusterID string `json:"refusedClusterID,omitempty"`
	// session is a number that the agent raises when it starts, and when it comes back after 40 s without contact, once it
	// has reported what stands. It executes nothing new until spec.acknowledgedSession is the same.
	// +optional
	Session int64 `json:"session,omitempty"`
	// region that all nodes share, if they do.
	// +optional
	Region string `json:"region,omitempty"`
	// zones of the cluster, by the label topology.kubernetes.io/zone of its nodes; nodes without it count for zone "".
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=128
	Zones []Zone `json:"zones,omitempty"`
	// surveyedAt is when the agent looked at what zones have and what pods there request, by its own clock: by the time of
	// a Work's report the hub tells which pods are counted.
	// +optional
	SurveyedAt *metav1.MicroTime `json:"surveyedAt,omitempty"`
	// kubernetesVersion of the member's API server.
	// +optional
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// agentVersion is the version of the member's agent.
	// +optional
	AgentVersion string `json:"agentVersion,omitempty"`
	// orderFormats are the formats of orders that the agent reads beside the one that all versions read. The hub sends no
	// other ones.
	// +optional
	OrderFormats *OrderFormats `json:"orderFormats,omitempty"`
	// zoneNames are the names of the zones joined by commas, for a column of kubectl get.
	// +optional
	ZoneNames string `json:"zoneNames,omitempty"`
	// nodes is "ready/all" nodes, for a column of kubectl get.
	// +optional
	Nodes string `json:"nodes,omitempty"`
	// orphaned is how many objects of the member carry the label of the hub and have no order: no Work names them.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Orphaned int32 `json:"orphaned,omitempty"`
	// orphans names the first 16 of those objects, as "Kind.group namespace/name"; " (hub ID)" follows where an earlier
	// hub ordered the object.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Orphans []string `json:"orphans,omitempty"`
	// conditions: Accepted and Ready; Identity from the first refusal of another cluster on, Orphans from the first orphan
	// on, Plausible from the first report on that cannot be true, Silent from the first silence of 80 s on, FailoverHeld
	// from the first time on that too many failed together, ClockInSync from the first time on that its clock was wrong.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Conditions of a MemberCluster and their reasons.
const (
	// MemberAccepted is True when the member may take part.
	MemberAccepted = "Accepted"
	// MemberReady is True while the agent renews its Lease.
	MemberReady = "Ready"
	// MemberIdentity is False while an agent of another cluster tries to come under the member's name. It is there from
	// the first such refusal on.
	MemberIdentity = "Identity"
	// MemberOrphans is True while objects of the member carry the hub's label and have no order. It is there from the
	// first one on.
	MemberOrphans = "Orphans"
	// MemberPlausible is False while the member reports what cannot be true. It is there from the first such report on.
	MemberPlausible = "Plausible"
	// MemberSilent is True from 80 s after the agent's last renewal on until it renews again: what the member may still
	// disrupt of rollouts is lent to others. It is there from the first such silence on.
	MemberSilent = "Silent"
	// MemberFailoverHeld is True while the member is NotReady together with so many others that none of them is given up.
	// It is there from the first such time on.
	MemberFailoverHeld = "FailoverHeld"
	// MemberClockInSync is False while the clock of the member's agent and that of the hub are a minute or more apart. It
	// is there from the first such time on.
	MemberClockInSync = "ClockInSync"

	// ReasonAccepted: spec.accepted is true and the id is pinned.
	ReasonAccepted = "Accepted"
	// ReasonNotAccepted: spec.accepted is false.
	ReasonNotAccepted = "NotAccepted"
	// ReasonDuplicateClusterID: another MemberCluster has the same cluster id.
	ReasonDuplicateClusterID = "DuplicateClusterID"
	// ReasonClusterIDMismatch: an agent of another cluster came under this name.
	ReasonClusterIDMismatch = "ClusterIDMismatch"
	// ReasonPinned: after an earlier refusal, only the cluster with the pinned id comes under this name.
	ReasonPinned = "Pinned"
	// ReasonHubIsMember: the hub's own cluster cannot join itself.
	ReasonHubIsMember = "HubIsMember"
	// ReasonLeaseFresh: the agent renewed its Lease in time.
	ReasonLeaseFresh = "LeaseFresh"
	// ReasonLeaseExpired: the agent has not renewed its Lease for 40 s.
	ReasonLeaseExpired = "LeaseExpired"
	// ReasonReadyInKarmada: Karmada says that the cluster is Ready, on a hub that takes its members from there.
	ReasonReadyInKarmada = "ReadyInKarmada"
	// ReasonNotReadyInKarmada: Karmada says that the cluster is not Ready, or does not know.
	ReasonNotReadyInKarmada = "NotReadyInKarmada"
	// ReasonNotInKarmada: the hub takes its members from Karmada, which has no Cluster of this name.
	ReasonNotInKarmada = "NotInKarmada"
	// ReasonNeverConnected: no Lease of the agent was seen yet.
	ReasonNeverConnected = "NeverConnected"
	// ReasonOrphaned: objects of the member carry the hub's label and have no order.
	ReasonOrphaned = "Orphaned"
	// ReasonNoOrphans: every object that carries the hub's label has its order again.
	ReasonNoOrphans = "NoOrphans"
	// ReasonNonsense: reports of the member hold numbers that no cluster can have; they count as far as they can be true.
	ReasonNonsense = "Nonsense"
	// ReasonAllowancesReclaimed: the agent has not renewed its Lease for 80 s, and disrupts nothing since 40 s at least.
	ReasonAllowancesReclaimed = "AllowancesReclaimed"
	// ReasonHeard: the agent renews its Lease again.
	ReasonHeard = "Heard"
	// ReasonPlausible: what the member reports can be true again.
	ReasonPlausible = "Plausible"
	// ReasonMassFailure: a third or more of the members became NotReady together, so the hub suspects itself.
	ReasonMassFailure = "MassFailure"
	// ReasonNoMassFailure: the member is heard of again, or few enough others fail with it.
	ReasonNoMassFailure = "NoMassFailure"
	// ReasonClocksApart: the clocks of the member's agent and of the hub are a minute or more apart.
	ReasonClocksApart = "ClocksApart"
	// ReasonClocksAgree: after they were apart, the clocks of the member's agent and of the hub agree again.
	ReasonClocksAgree = "ClocksAgree"
)

// Zone is what a member has in one zone.
type Zone struct {
	// name of the zone; empty for nodes without the label topology.kubernetes.io/zone.
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// nodes is the number of nodes.
	Nodes int32 `json:"nodes"`
	// ready is the number of nodes that are ready and schedulable.
	Ready int32 `json:"ready"`
	// allocatable is the sum of what the ready, schedulable nodes can give to pods.
	// +optional
	Allocatable corev1.ResourceList `json:"allocatable,omitempty"`
	// requested is the sum of the requests of the pods on those nodes.
	// +optional
	Requested corev1.ResourceList `json:"requested,omitempty"`
}

// MemberCluster is a cluster that takes part. Its name is a DNS label of at most 52 characters and never changes.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=mc
// +kubebuilder:printcolumn:name="ACCEPTED",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`
// +kubebuilder:printcolumn:name="READY",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="REGION",type=string,JSONPath=`.status.region`
// +kubebuilder:printcolumn:name="ZONES",type=string,JSONPath=`.status.zoneNames`
// +kubebuilder:printcolumn:name="NODES",type=string,JSONPath=`.status.nodes`
// +kubebuilder:printcolumn:name="VERSION",type=string,JSONPath=`.status.kubernetesVersion`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 52 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="the name of a MemberCluster must be a DNS label of at most 52 characters (a-z, 0-9, -); choose a shorter or simpler name",messageExpression="'the name %s of a MemberCluster has %d characters; it must be a DNS label of at most 52 (a-z, 0-9, -): choose a shorter or simpler name'.format([dyn(self.metadata.name), dyn(self.metadata.name.size())])"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec) || !has(oldSelf.spec.clusterID) || size(oldSelf.spec.clusterID) == 0 || (has(self.spec) && has(self.spec.clusterID) && self.spec.clusterID == oldSelf.spec.clusterID)",fieldPath=".spec.clusterID",message="clusterID is pinned; to give the name to another cluster delete this MemberCluster and join again",messageExpression="'clusterID is pinned to %s; to give the name %s to another cluster delete this MemberCluster and join again'.format([oldSelf.spec.clusterID, self.metadata.name])"
type MemberCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the hub's people say of the member.
	// +optional
	Spec MemberClusterSpec `json:"spec,omitempty"`
	// status is what the agent and the hub saw.
	// +optional
	Status MemberClusterStatus `json:"status,omitempty"`
}

// MemberClusterList is a list of MemberClusters.
// +kubebuilder:object:root=true
type MemberClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MemberCluster `json:"items"`
}
