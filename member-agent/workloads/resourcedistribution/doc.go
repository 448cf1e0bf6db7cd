// Package resourcedistribution is the controller of ResourceDistributions: a copy of one Secret or ConfigMap in each of
// several namespaces.
//
// reconcile.go is the list of phases. gather.go reads namespaces, and the metadata of copies. plan.go decides, and is
// pure. copy.go makes a copy of what the spec holds, and compares. apply.go writes, status.go reports.
//
// # What the agent reads of Secrets
//
// It watches the metadata of objects with the label of copies alone, and it reads the content of its own copies alone:
// where it has to compare it. Whether another object has the name of a copy it learns from a creation that is refused,
// and from metadata.
//
// A copy is compared after each change of it that this agent did not make, and once after each start.
package resourcedistribution
