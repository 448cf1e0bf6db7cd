// Package karmada is the inventory of a hub that stands on Karmada's API server: each Cluster of Karmada is a member.
// It makes a MemberCluster for each, keeps it as the Cluster says, and deletes it with the Cluster. Karmada's own
// agents, or its controllers for Clusters that it pushes to, execute the Works; they report no zones, answer no
// sessions and hold no leases.
//
// What is mirrored: labels, provider (as a label), region, zones, taints, nodes, capacity, the version and Ready.
// Karmada tells nodes and capacity of a whole cluster: of a cluster of several zones each zone counts for an equal
// part. Whether a member takes part (spec.accepted), its weight and a fence are a person's, as with every inventory,
// and so are taints with Flotilla's own keys.
//
// The namespace of a member's Works is Karmada's: a member is accepted once it is there.
package karmada
