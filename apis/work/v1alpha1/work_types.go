package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

const (
	// NamespacePrefix before a member's name gives the namespace on the hub that holds its Works and its Lease.
	NamespacePrefix = "karmada-es-"
	// ExecutionFinalizer holds a Work until the agent has deleted (or let go of) the member object.
	ExecutionFinalizer = "karmada.io/execution-controller"

	// ConditionApplied tells whether the member object stands as the Work says.
	ConditionApplied = "Applied"
)

// Reasons of the condition Applied.
const (
	// ReasonApplied: the member's API server took the object.
	ReasonApplied = "AppliedSuccessful"
	// ReasonApplyFailed: the member's API server refused the object, or could not be reached; it is tried again.
	ReasonApplyFailed = "AppliedFailed"
	// ReasonConflict: an object of that name exists and does not carry this hub's mark; it is left alone.
	ReasonConflict = "Conflict"
	// ReasonWaitingForDependencies: objects that the order needs do not stand yet; it waits for a bounded time.
	ReasonWaitingForDependencies = "WaitingForDependencies"
	// ReasonAdopting: an object of that name without a mark is to be adopted; the hub is told what it has before it
	// changes.
	ReasonAdopting = "Adopting"
	// ReasonNotAllowed: the agent's own allow-list does not admit the object.
	ReasonNotAllowed = "NotAllowed"
	// ReasonOverwritten: another writer in the member changes the object again and again, or keeps the agent from
	// correcting it. Its pods do not count as updated.
	ReasonOverwritten = "Overwritten"
	// ReasonDeleting: the object is being deleted in the member and still exists.
	ReasonDeleting = "Deleting"
	// ReasonNamespaceTerminating: the object's namespace is being deleted in the member; the order waits until it is gone.
	ReasonNamespaceTerminating = "NamespaceTerminating"
)

// WorkSpec holds the object that the member is to have. Flotilla writes one manifest per Work.
type WorkSpec struct {
	// workload holds the manifests.
	// +optional
	Workload WorkloadTemplate `json:"workload,omitempty"`
	// suspendDispatching stops the agent from applying this Work; what is applied stays.
	// +optional
	SuspendDispatching *bool `json:"suspendDispatching,omitempty"`
	// preserveResourcesOnDeletion keeps the member objects when the Work is deleted; they lose the hub's mark.
	// +optional
	PreserveResourcesOnDeletion *bool `json:"preserveResourcesOnDeletion,omitempty"`
}

// WorkloadTemplate is a list of manifests.
type WorkloadTemplate struct {
	// manifests are whole objects. Flotilla writes exactly one.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Manifests []Manifest `json:"manifests,omitempty"`
}

// Manifest is a whole object of any kind.
// +kubebuilder:pruning:PreserveUnknownFields
type Manifest struct {
	runtime.RawExtension `json:",inline"`
}

// WorkStatus is what the agent saw in the member.
type WorkStatus struct {
	// conditions: Applied.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// manifestStatuses holds, for each manifest, the status of the member object.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	ManifestStatuses []ManifestStatus `json:"manifestStatuses,omitempty"`
	// report is Flotilla's addition: which order the status answers, and what the member has in use of it.
	// +optional
	Report *Report `json:"report,omitempty"`
}

// ManifestStatus is the status of one member object.
type ManifestStatus struct {
	// identifier names the member object.
	Identifier ResourceIdentifier `json:"identifier"`
	// status is the status of the member object, as it stands there.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Status *runtime.RawExtension `json:"status,omitempty"`
	// health is Healthy, Unhealthy or Unknown, by the object's own status.
	// +optional
	// +kubebuilder:validation:Enum=Healthy;Unhealthy;Unknown
	Health ResourceHealth `json:"health,omitempty"`
}

// ResourceHealth is the health of a member object.
type ResourceHealth string

// The healths.
const (
	ResourceHealthy   ResourceHealth = "Healthy"
	ResourceUnhealthy ResourceHealth = "Unhealthy"
	ResourceUnknown   ResourceHealth = "Unknown"
)

// ResourceIdentifier names a member object.
type ResourceIdentifier struct {
	// ordinal is the index of the manifest in the Work.
	Ordinal int `json:"ordinal"`
	// group of the object, empty for the core group.
	// +optional
	Group string `json:"group,omitempty"`
	// version of the object.
	Version string `json:"version"`
	// kind of the object.
	Kind string `json:"kind"`
	// resource is the plural name of the kind; it may be empty.
	Resource string `json:"resource"`
	// namespace of the object.
	Namespace string `json:"namespace"`
	// name of the object.
	Name string `json:"name"`
}

// Report says which order a status answers and what the member uses of its shares. It is what lets the hub lend
// permission without ever lending it twice.
type Report struct {
	// hubID is the hub whose order this answers.
	// +optional
	HubID string `json:"hubID,omitempty"`
	// sequence is the sequence annotation of the newest order that the member has carried out: its object was applied and
	// the member's workload controller has seen that generation.
	Sequence int64 `json:"sequence"`
	// epoch is the agent's start: a number that grows with each start. A reader ignores a report whose epoch and counter
	// are not newer than those that it knows.
	Epoch int64 `json:"epoch"`
	// counter grows with each report of one epoch.
	Counter int64 `json:"counter"`
	// observedAt is when the agent saw this state, by its own clock.
	ObservedAt metav1.MicroTime `json:"observedAt"`
	// inUse is what each subset of the member object uses of the shares that it was lent; a kind without subsets has one
	// entry with an empty name.
	// +optional
	// +listType=map
	// +listMapKey=subset
	// +kubebuilder:validation:MaxItems=1000
	InUse []SubsetUse `json:"inUse,omitempty"`
	// unschedulable are the pods that the member's scheduler finds no node for, longer than the Work's annotation
	// topology.flotilla.dev/reschedule-after says, and that go first when there are fewer to be. Places without any are
	// not named.
	// +optional
	// +listType=map
	// +listMapKey=subset
	// +listMapKey=zone
	// +kubebuilder:validation:MaxItems=1000
	Unschedulable []UnschedulablePods `json:"unschedulable,omitempty"`
	// handOver is what the pods have of the labels and annotations that the Work's annotation
	// topology.flotilla.dev/hand-over names. An ordinal whose pod is gone, or not Ready, keeps its last values for those
	// that the pod lacks.
	// +optional
	HandOver *topology.HandOverValues `json:"handOver,omitempty"`
	// handedOver are the ordinals whose pods were created with values that the order has for them.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=2048
	HandedOver []int32 `json:"handedOver,omitempty"`
	// halted says why a job halted or failed in the member; absent while it has not.
	// +optional
	Halted *JobHalt `json:"halted,omitempty"`
	// states are how many pods the PodProbeMarkers of the member have marked with which label, as key=value, and how many
	// have which status of a condition of theirs, as type=status.
	// +optional
	// +listType=map
	// +listMapKey=state
	// +kubebuilder:validation:MaxItems=64
	States []PodState `json:"states,omitempty"`
	// notReady are the most frequent reasons why pods are not Ready, or not gone. Pods that start or end as fast as others
	// do are not among them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4
	NotReady []PodReason `json:"notReady,omitempty"`
}

// Bounds of the reasons of pods in a report.
const (
	// MostPodReasons is how many reasons a report has at most.
	MostPodReasons = 4
	// LongestPodMessage is how long the message of a reason is at most, in bytes.
	LongestPodMessage = 200
)

// Reasons of pods whose messages differ from pod to pod, and from one try to the next: pods are counted by the reason
// alone, and the message is that of one of them.
const (
	// ReasonUnschedulable: the scheduler finds no node for a pod. The message is the scheduler's.
	ReasonUnschedulable = "Unschedulable"
	// ReasonFailedCreate: a quota, PodSecurity or an admission webhook refuses pods. The message is the API server's.
	ReasonFailedCreate = "FailedCreate"
)

// PodReason is why some pods are not Ready, or not gone.
type PodReason struct {
	// reason is a stable word in CamelCase, that of Kubernetes where it has one.
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason"`
	// message is a part of a sentence for people.
	// +kubebuilder:validation:MaxLength=200
	Message string `json:"message"`
	// count is how many pods have the reason.
	Count int32 `json:"count"`
	// container is the container that the reason is about, empty for none.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Container string `json:"container,omitempty"`
	// pod is one of the pods, empty where they do not exist.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Pod string `json:"pod,omitempty"`
}

// MostStates is how many states a report has at most.
const MostStates = 64

// PodState is a number of pods in a state that a probe found.
type PodState struct {
	// state is a label as key=value, or a condition as type=status.
	// +kubebuilder:validation:MaxLength=400
	State string `json:"state"`
	// pods is how many active pods are in the state.
	Pods int32 `json:"pods"`
}

// JobHalt says when and why a job halted or failed in a member.
type JobHalt struct {
	// time is when the job halted or failed, by the member's clock.
	Time metav1.Time `json:"time"`
	// reason is a stable word in CamelCase.
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason"`
	// message is a sentence for people.
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message"`
	// failed is true if the job failed there, which ends it. Otherwise a person can resume it.
	// +optional
	Failed bool `json:"failed,omitempty"`
}

// UnschedulablePods is a number of pods without a node.
type UnschedulablePods struct {
	// subset is the name of the subset, empty for a kind without subsets.
	Subset string `json:"subset"`
	// zone that the pods were made for, empty for none.
	Zone string `json:"zone"`
	// pods is how many there are, with those that are not made before they have one: StatefulSets, and CloneSets with a
	// scaleStrategy.maxUnavailable, make no more pods while so many wait.
	Pods int32 `json:"pods"`
}

// SubsetUse is the state of one subset in a member, in pods.
type SubsetUse struct {
	// subset is the name of the subset: of the workload, or of the WorkloadSpread by which the hub divides a CloneSet.
	// Empty without either.
	Subset string `json:"subset"`
	// desired is how many pods the member object asks for.
	Desired int32 `json:"desired"`
	// total is how many pods there are that are not being deleted.
	Total int32 `json:"total"`
	// ready is how many of them are ready.
	Ready int32 `json:"ready"`
	// available is how many of them are available.
	Available int32 `json:"available"`
	// updated is how many pods are of the newest revision.
	Updated int32 `json:"updated"`
	// updatedReady is how many pods of the newest revision are ready.
	UpdatedReady int32 `json:"updatedReady"`
	// updatedAvailable is how many pods of the newest revision are available.
	UpdatedAvailable int32 `json:"updatedAvailable"`
	// canGoBack is whether updated pods can be brought back to the revision that all pods had before: false once all pods
	// were updated, and where nobody knows.
	// +optional
	CanGoBack bool `json:"canGoBack,omitempty"`
	// toRestart is how many pods have still to restart their containers, as the object's annotation
	// apps.flotilla.dev/restart asks, without those that may not restart now. 0 once the restart has ended or stopped.
	// +optional
	ToRestart int32 `json:"toRestart,omitempty"`
	// NodeUse is zero for kinds whose pods do not belong to nodes.
	NodeUse `json:",inline"`
}

// NodeUse is the state of a workload with one pod on each node, in nodes that should run a pod.
type NodeUse struct {
	// surging is how many nodes have a pod of the newest revision beside an available one of an old revision.
	// +optional
	Surging int32 `json:"surging,omitempty"`
	// withheld is how many nodes get no pod, since the workload asks for pods of the newest revision alone.
	// +optional
	Withheld int32 `json:"withheld,omitempty"`
	// notUpdatable is how many nodes do not get the newest revision, whatever the hub grants.
	// +optional
	NotUpdatable int32 `json:"notUpdatable,omitempty"`
	// lostUnavailable is how many nodes are not waited for and lack an available pod, though they may get one.
	// +optional
	LostUnavailable int32 `json:"lostUnavailable,omitempty"`
	// lostOutdated is how many nodes are not waited for and lack the newest revision, though they may get it.
	// +optional
	LostOutdated int32 `json:"lostOutdated,omitempty"`
}

// Work carries one object from the hub to one member; the namespace on the hub names the member.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories={karmada-io},shortName=wk
// +kubebuilder:printcolumn:name="Workload-Kind",type=string,JSONPath=`.spec.workload.manifests[*].kind`
// +kubebuilder:printcolumn:name="Workload-Name",type=string,JSONPath=`.spec.workload.manifests[*].metadata.name`
// +kubebuilder:printcolumn:name="Applied",type=string,JSONPath=`.status.conditions[?(@.type=="Applied")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Work struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the member is to have.
	Spec WorkSpec `json:"spec"`
	// status is what the member has.
	// +optional
	Status WorkStatus `json:"status,omitempty"`
}

// WorkList is a list of Works.
// +kubebuilder:object:root=true
type WorkList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Work `json:"items"`
}
