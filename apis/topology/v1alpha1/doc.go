// Package v1alpha1 holds the hub's own objects, group topology.flotilla.dev: the members (MemberCluster), what
// workloads leave open (FederationPolicy, ClusterFederationPolicy), and the durable decision what runs where
// (WorkloadPlacement).
//
// +kubebuilder:object:generate=true
// +groupName=topology.flotilla.dev
package v1alpha1
