package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// MaxCells is the largest number of cells of one workload: it keeps the object far below etcd's limit of 1.5 MiB.
const MaxCells = 1000

// WorkloadPlacementSpec is the durable decision: what goes where, and why. Division starts from it, so that a restart
// of the hub moves nothing.
type WorkloadPlacementSpec struct {
	// workload is the user's object.
	Workload WorkloadReference `json:"workload"`
	// policy that the decision followed.
	// +optional
	Policy *PolicyReference `json:"policy,omitempty"`
	// revision is the hash of the workload's template that the orders carry.
	// +optional
	Revision string `json:"revision,omitempty"`
	// template of the workload as of revision: when the workload gets another one, the hub keeps this one as a
	// ControllerRevision.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Template *runtime.RawExtension `json:"template,omitempty"`
	// previousTemplate is the template before revision, while some pods are to keep it: a member that never had it creates
	// those pods from it. Absent where all pods may be updated, where the patches of subsets changed with the template,
	// and for templates of more than 128 KiB.
	// +optional
	PreviousTemplate *RevisionTemplate `json:"previousTemplate,omitempty"`
	// replicas that the workload asks for.
	Replicas int32 `json:"replicas"`
	// placed is how many of them have a cell; unplaced says why the others have none.
	Placed int32 `json:"placed"`
	// clusters is the number of replicas in each cluster, such as "east:5 south:3 west:4", for a column of kubectl get.
	// +optional
	Clusters string `json:"clusters,omitempty"`
	// sequence grows with each new order; it is never lower than one that a member has reported.
	Sequence int64 `json:"sequence"`
	// revisionSequence is the sequence at which revision changed last: a member's updated counters count from a report of
	// this sequence on.
	RevisionSequence int64 `json:"revisionSequence"`
	// spread is the WorkloadSpread whose subsets the replicas are divided over; absent without one.
	// +optional
	Spread *SpreadReference `json:"spread,omitempty"`
	// limits hold over all cells of one subset together ("" for a kind without subsets).
	// +optional
	// +listType=map
	// +listMapKey=subset
	// +kubebuilder:validation:MaxItems=1000
	Limits []SubsetLimits `json:"limits,omitempty"`
	// cells say what goes where.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	Cells []Cell `json:"cells,omitempty"`
	// ordinals say which cluster has which ordinals; absent for a kind whose pods have none.
	// +optional
	Ordinals *Ordinals `json:"ordinals,omitempty"`
	// wave is how far the waves of the newest update are; absent where it has none.
	// +optional
	Wave *WaveProgress `json:"wave,omitempty"`
	// end says when and why a job ended in all clusters; absent before that, and for kinds without an end.
	// +optional
	End *JobEnd `json:"end,omitempty"`
	// unplaced says what has no cell, and why.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	Unplaced []Unplaced `json:"unplaced,omitempty"`
	// dependencies are the objects of the namespace that go with the workload to each member that has a cell. An object
	// goes from a member with the last placement that names it and has a cell there.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Dependencies []Dependency `json:"dependencies,omitempty"`
	// rescheduleAfter is how long a pod may find no node before its member reports it, such as 1m0s; empty: members report
	// none.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	RescheduleAfter string `json:"rescheduleAfter,omitempty"`
	// handOver names what members report of pods with ordinals, for those that replace them; absent: nothing.
	// +optional
	HandOver *HandOver `json:"handOver,omitempty"`

	EarlierSpec `json:",inline"`
}

// JobEnd says when and why a job ended. It never changes.
type JobEnd struct {
	// time is when the job ended.
	Time metav1.Time `json:"time"`
	// failed is true if the job failed.
	// +optional
	Failed bool `json:"failed,omitempty"`
	// message says in which cluster and why the job failed.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`
}

// Ordinals record which cluster has which ordinals, so that no two pods have one name. All numbers but start and those
// of handOver are offsets from start.
type Ordinals struct {
	// start is the first ordinal, spec.ordinals.start of the workload as it was when its pods got their names.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Start int32 `json:"start,omitempty"`
	// next is the lowest ordinal that no cluster ever had. It only grows.
	// +kubebuilder:validation:Minimum=0
	Next int32 `json:"next"`
	// blocks are the ordinals of each cluster. A cluster keeps them, also without replicas, until it is lost and fenced.
	// +optional
	// +listType=map
	// +listMapKey=cluster
	Blocks []OrdinalBlock `json:"blocks,omitempty"`
	// free are ordinals of pods that lost clusters ran. The next clusters that get more replicas take them over.
	// +optional
	// +listType=atomic
	Free []OrdinalRange `json:"free,omitempty"`
	// handOver are the last values of pods that lost clusters ran. Each is kept until the pod that gets it was created.
	// +optional
	HandOver *HandOverValues `json:"handOver,omitempty"`
}

// Block returns the ordinals of a cluster, nil if it has none.
func (o *Ordinals) Block(cluster string) *OrdinalBlock {
	for i := range o.Blocks {
		if o.Blocks[i].Cluster == cluster {
			return &o.Blocks[i]
		}
	}
	return nil
}

// OrdinalBlock are the ordinals of one cluster.
type OrdinalBlock struct {
	// cluster is the name of the member.
	Cluster string `json:"cluster"`
	// ranges are its ordinals, in ascending order. Its pods have the lowest of them that the user does not reserve.
	// +listType=atomic
	Ranges []OrdinalRange `json:"ranges"`
	// spare are ordinals that it gets before any new range.
	// +optional
	// +listType=atomic
	Spare []OrdinalRange `json:"spare,omitempty"`
}

// OrdinalRange is a range of ordinals, both ends included.
type OrdinalRange struct {
	// start is the first ordinal.
	// +kubebuilder:validation:Minimum=0
	Start int32 `json:"start"`
	// end is the last ordinal.
	// +kubebuilder:validation:Minimum=0
	End int32 `json:"end"`
}

// MaxDependencies is the largest number of objects that go with one workload.
const MaxDependencies = 256

// Dependency is an object that goes with a workload.
type Dependency struct {
	DependencyReference `json:",inline"`
	// missing is true while the object does not exist on the hub. The workload does not wait for it.
	// +optional
	Missing bool `json:"missing,omitempty"`
}

// WorkloadReference names the user's object, as it was when the decision was made.
type WorkloadReference struct {
	// apiVersion of the user's object.
	APIVersion string `json:"apiVersion"`
	// kind of the user's object.
	Kind string `json:"kind"`
	// name of the user's object, in the namespace of the placement unless it is cluster-scoped.
	Name string `json:"name"`
	// clusterScoped is true if the object has no namespace. Its placement is in the namespace flotilla-system.
	// +optional
	ClusterScoped bool `json:"clusterScoped,omitempty"`
	// uid of the user's object: another object of the same name is another workload.
	UID types.UID `json:"uid"`
	// generation of the user's object that the decision answers; 0 of an object that goes whole, whatever it holds.
	Generation int64 `json:"generation"`
}

// PolicyReference names a policy.
type PolicyReference struct {
	// kind is FederationPolicy or ClusterFederationPolicy.
	Kind string `json:"kind"`
	// name of the policy.
	Name string `json:"name"`
}

// SpreadReference names a WorkloadSpread as it was when the decision was made.
type SpreadReference struct {
	// name of the WorkloadSpread, in the namespace of the placement.
	Name string `json:"name"`
	// hash of its spec.
	Hash string `json:"hash"`
}

// RevisionTemplate is the template of a workload as of one revision.
type RevisionTemplate struct {
	// revision is the hash of the template.
	Revision string `json:"revision"`
	// template of the workload as of revision.
	// +kubebuilder:pruning:PreserveUnknownFields
	Template runtime.RawExtension `json:"template"`
}

// Budget is how far an update may go, in pods.
type Budget struct {
	// updated is how many pods may run the new revision: replicas minus partition.
	// +optional
	Updated int32 `json:"updated"`
	// unavailable is how many pods the update may make unavailable.
	// +optional
	Unavailable int32 `json:"unavailable"`
	// surge is how many pods may exist above replicas.
	// +optional
	Surge int32 `json:"surge"`
}

// SubsetLimit is one subset's entry in AnnotationSubsetLimits.
// +kubebuilder:object:generate=false
type SubsetLimit struct {
	// MaxUnavailable and MaxSurge in pods.
	MaxUnavailable int32 `json:"maxUnavailable"`
	MaxSurge       int32 `json:"maxSurge"`
	// Paused stops updates: the member has no permission now.
	Paused bool `json:"paused,omitempty"`
}

// SubsetLimits are the limits of one subset over all clusters.
type SubsetLimits struct {
	// subset is the name of the subset, empty for a kind without subsets.
	Subset string `json:"subset"`
	Budget `json:",inline"`

	EarlierAmounts `json:",inline"`
}

// Cell is one place of the workload: a subset in a cluster, and in a zone where subset or policy names zones.
type Cell struct {
	// cluster is the name of the member.
	Cluster string `json:"cluster"`
	// zone in the member, where the subset or the policy names zones.
	// +optional
	Zone string `json:"zone,omitempty"`
	// subset of the workload, empty for a kind without subsets.
	// +optional
	Subset string `json:"subset,omitempty"`
	// spreadSubset is the subset of the WorkloadSpread that spec.spread names; empty without one, and for replicas above
	// the sum of its maxReplicas. Replicas of a removed subset can keep its name.
	// +optional
	SpreadSubset string `json:"spreadSubset,omitempty"`
	// replicas that the cell is to have.
	// +kubebuilder:validation:Minimum=0
	Replicas int32 `json:"replicas"`
	// replaced is how many of replicas already run elsewhere and no longer count. They are removed as their replacements
	// become available; those of an unreachable member when it returns.
	// +optional
	Replaced int32 `json:"replaced,omitempty"`
	// granted is what the cell may use of each limit.
	// +optional
	Granted Budget `json:"granted"`
	// reserved is what the cell may still be using of each limit, until its agent has acknowledged the newest order.
	// +optional
	Reserved Budget `json:"reserved"`
	// waiting is true while the cell is granted neither unavailable nor surge: updates are paused there. A cell without
	// pods to update can be waiting too.
	// +optional
	Waiting bool `json:"waiting,omitempty"`
	// batch of a job is the batch that the newest nodes of the cell belong to, from 1; absent without batches.
	// +optional
	Batch int32 `json:"batch,omitempty"`
	// overrides is the hash of the policy's overrides as they hold for the cluster; empty if none does.
	// +optional
	Overrides string `json:"overrides,omitempty"`
	// adoption is what the hub knows of the objects that the cluster had before; absent where the workload adopts none.
	// +optional
	Adoption Adoption `json:"adoption,omitzero"`
	// unschedulable is what is remembered of the cell after it lost replicas because its member found no node for them.
	// +optional
	Unschedulable *Unschedulable `json:"unschedulable,omitempty"`
	// ticks say for which times of its schedule the cluster starts jobs; absent unless the workload runs, or ran, in one
	// cluster.
	// +optional
	Ticks *Ticks `json:"ticks,omitempty"`
	// sequence of the order that carries this cell's numbers.
	Sequence int64 `json:"sequence"`
	// taskSequence is the sequence of the newest order that changed anything but unavailable and surge. A member that has
	// carried out that order has done what is asked of it, whether or not it has followed a later one.
	// +optional
	TaskSequence int64 `json:"taskSequence,omitempty"`
	// reason of the number of replicas.
	Reason Reason `json:"reason"`

	EarlierCell `json:",inline"`
}

// AdoptionPhase is how far the adoption of a cluster's objects is.
// +kubebuilder:validation:Enum=Discovering;Discovered
type AdoptionPhase string

const (
	// AdoptionDiscovering means that the member is asked what runs there; nothing is changed.
	AdoptionDiscovering AdoptionPhase = "Discovering"
	// AdoptionDiscovered means that the hub knows what runs in the member.
	AdoptionDiscovered AdoptionPhase = "Discovered"
)

// Adoption is what the hub knows of the objects that a cluster had before it got an order.
type Adoption struct {
	// phase is Discovering while the cluster is asked, then Discovered.
	Phase AdoptionPhase `json:"phase"`
	// replicas that the cluster had when they were discovered.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
}

// Reason is a stable code with parameters.
type Reason struct {
	// code is a stable word in CamelCase.
	Code string `json:"code"`
	// params are the values that a sentence about the code needs.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	Params map[string]string `json:"params,omitempty"`
}

// Unplaced is a number of replicas without a cell.
type Unplaced struct {
	// subset that the replicas belong to, empty for a kind without subsets.
	// +optional
	Subset string `json:"subset,omitempty"`
	// replicas that have no cell.
	Replicas int32 `json:"replicas"`
	// reason why they have none.
	Reason Reason `json:"reason"`
}

// WorkloadPlacementStatus holds conditions; counts are in the Works.
type WorkloadPlacementStatus struct {
	// observedGeneration is the generation that the status answers.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Stalled (only while something needs a person).
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// WorkloadPlacement is the hub's decision for one workload; its name is "<kind>-<name>" in lower case.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=wp
// +kubebuilder:printcolumn:name="KIND",type=string,JSONPath=`.spec.workload.kind`
// +kubebuilder:printcolumn:name="WORKLOAD",type=string,JSONPath=`.spec.workload.name`
// +kubebuilder:printcolumn:name="REPLICAS",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="PLACED",type=integer,JSONPath=`.spec.placed`
// +kubebuilder:printcolumn:name="CLUSTERS",type=string,JSONPath=`.spec.clusters`
// +kubebuilder:printcolumn:name="POLICY",type=string,priority=1,JSONPath=`.spec.policy.name`
// +kubebuilder:printcolumn:name="SEQUENCE",type=integer,priority=1,JSONPath=`.spec.sequence`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type WorkloadPlacement struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the decision.
	Spec WorkloadPlacementSpec `json:"spec"`
	// status holds conditions.
	// +optional
	Status WorkloadPlacementStatus `json:"status,omitempty"`
}

// WorkloadPlacementList is a list of WorkloadPlacements.
// +kubebuilder:object:root=true
type WorkloadPlacementList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WorkloadPlacement `json:"items"`
}
