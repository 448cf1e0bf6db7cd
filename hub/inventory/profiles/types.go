package profiles

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kind is a cluster of an inventory, in a namespace.
func Kind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Kind: "ClusterProfile"}
}

const (
	// LabelManager is on every profile: the name of the manager that made it, as in spec.clusterManager.
	LabelManager = "x-k8s.io/cluster-manager"
	// Manager is ours.
	Manager = "flotilla"

	// ConditionControlPlaneHealthy is True while the member is Ready, else Unknown: of a member that is not heard of the
	// hub knows nothing.
	ConditionControlPlaneHealthy = "ControlPlaneHealthy"
	// ConditionJoined is what the member's Accepted says.
	ConditionJoined = "Joined"
)

// Names of properties. What is known to others has their names.
const (
	// PropertyID names the cluster within the set: the name of the member.
	PropertyID = "cluster.clusterset.k8s.io"
	// PropertyRegion is the member's region, where it has one.
	PropertyRegion = "topology.kubernetes.io/region"
	// PropertyClusterID is the uid of the namespace kube-system.
	PropertyClusterID = "topology.flotilla.dev/cluster-id"
	// PropertyZones are the names of the zones, separated by commas.
	PropertyZones = "topology.flotilla.dev/zones"
	// PropertyNodes is "ready/all" nodes.
	PropertyNodes = "topology.flotilla.dev/nodes"
	// PropertyZone begins the name of a zone's own property; PropertyNoZone is that of nodes without a zone. The value is
	// JSON: nodes, ready, allocatable, requested.
	PropertyZone   = "zone.topology.flotilla.dev/"
	PropertyNoZone = "topology.flotilla.dev/no-zone"
)

// Profile is a ClusterProfile.
type Profile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec names the cluster.
	Spec Spec `json:"spec"`
	// Status is what is known of it.
	Status Status `json:"status,omitempty"`
}

// Spec names a cluster.
type Spec struct {
	// DisplayName for people.
	DisplayName string `json:"displayName,omitempty"`
	// ClusterManager made the profile; it never changes.
	ClusterManager ClusterManager `json:"clusterManager"`
}

// ClusterManager names what manages a cluster.
type ClusterManager struct {
	// Name of the manager.
	Name string `json:"name"`
}

// Status is what is known of a cluster. What else stands in it is of others.
type Status struct {
	// Conditions: ControlPlaneHealthy and Joined.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Version of the cluster.
	Version Version `json:"version,omitempty"`
	// Properties are pairs of names and values.
	Properties []Property `json:"properties,omitempty"`
}

// Version is what runs in a cluster.
type Version struct {
	// Kubernetes is the version of the API server.
	Kubernetes string `json:"kubernetes,omitempty"`
}

// Property is a pair of a name and a value.
type Property struct {
	// Name of the property, Value its text.
	Name  string `json:"name"`
	Value string `json:"value"`
	// LastObservedTime is since when it has the value.
	LastObservedTime metav1.Time `json:"lastObservedTime,omitempty"`
}
