// Package waits classifies pods that are not Ready, or not gone, for a reason that their controller does not end. It is
// pure: a pod in, a wait with its reason, its remedy and its begin out.
//
//	Reason               The pod                                                       Counts after
//	PodTerminating       has been asked to go, its grace period is over, it exists     Soon
//	ClaimNotBound        finds no node because of a PersistentVolumeClaim              Soon
//	ContainerFailing     has a container that cannot start, or that ends again         Long
//	                     and again
//	ReadinessGateNotSet  has ready containers, and a readiness gate that nobody sets   Long
//
// A pod whose containers run and are not ready yet is no wait: only the application knows how long it takes. Neither is
// a pod without a node for another reason: nodes come and go.
//
// A wait counts after a time in which Kubernetes ends such a wait if it can, so that a slow start is not reported.
// [NotReadyOf] answers another question for reports to a hub: why a pod is not Ready now, whether or not that ends by
// itself.
//
// Messages contain only what stays the same while the wait lasts, so that a steady state writes nothing.
package waits
