// Package deletion guards namespaces and definitions with the label policy.kruise.io/delete-protection=Cascading: they
// cannot be deleted while that would delete others. What an API server decides alone is in package apis/protection;
// this is what has to be counted first.
//
//	Namespace                  active pods, volume claims that are bound, and on a hub workloads that it has placed
//	CustomResourceDefinition   objects of the kind
//
// Example: namespace "shop" has the label and 3 pods. `kubectl delete namespace shop` is refused: forbidden by
// ResourcesProtectionDeletion for policy.kruise.io/delete-protection=Cascading and active pods 3>0.
//
// The API server asks only about objects with the label. While nobody answers it refuses to delete them (failure policy
// Fail): without the label they can be deleted. Only metadata is read.
package deletion
