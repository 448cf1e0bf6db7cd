// Package cloneset is the controller of CloneSets: interchangeable pods of one template, updated in place or recreated,
// with partitions, limits, lifecycle hooks, claims and scale-in of chosen pods.
//
// reconcile.go is the list of phases. gather.go reads. plan.go decides, and is pure: policy.go says how a pod comes to
// another revision, choose.go which pods are taken. apply.go writes, status.go reports. How many and which pods, what
// their hooks, claims and updates in place need, is decided in the kernel (packages delta, order, lifecycle, volumes
// and inplace), so that every kind decides alike.
//
// A pass decides everything anew from what it sees; nothing is remembered between passes but what the cache still owes
// (package freshness) and how fast writes went. So a pod that is chosen to leave and waits for its hook is chosen again
// each time, and is pulled back by the first pass that does not choose it.
//
// Not carried out yet: image pre-download, for which the kind ImagePullJob is missing.
package cloneset
