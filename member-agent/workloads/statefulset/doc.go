// Package statefulset is the controller of the advanced StatefulSet: pods with stable ordinals, names and claims,
// updated in place or recreated, with partitions, limits, lifecycle hooks, reserved ordinals and retention of claims.
//
// reconcile.go is the list of phases. gather.go reads. plan.go decides, and is pure. apply.go writes, status.go
// reports. Which ordinals there are, what hooks, claims and updates in place need, is decided in the kernel (packages
// ordinals, lifecycle, volumes and inplace), so that every kind decides alike.
//
// A pass decides everything anew from what it sees. It looks at the ordinals in ascending order to create pods, at
// those out of range in descending order to delete them, and then at the update: pods that do not serve come first
// and need no budget, then the highest ordinals, as many as maxUnavailable leaves. With OrderedReady a pass creates,
// deletes or updates one pod.
//
// With volumeClaimUpdateStrategy OnPodRollingUpdate a pod's claims are resized before its update, and the pod counts
// as unavailable until they have grown. Where a storage class does not allow that the API server refuses it, and
// FailedUpdatePod says so.
//
// Not carried out yet: image pre-download, for which the kind ImagePullJob is missing.
package statefulset
