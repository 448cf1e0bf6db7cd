// Package cloneset is the controller of CloneSets: interchangeable pods of one template, updated in place or made anew,
// with partitions, limits and scale-in of chosen pods.
//
// reconcile.go is the list of phases; gather.go reads, plan.go decides (pure), apply.go writes, status.go reports. How
// many and which pods is decided in the kernel (packages delta and order), so that every kind decides alike.
//
// Not carried out yet, and said so by condition Stalled instead of being done wrongly: lifecycle hooks and
// volumeClaimTemplates. Without effect so far: priorityStrategy, scatterStrategy, gracePeriodSeconds, image pre-download.
package cloneset
