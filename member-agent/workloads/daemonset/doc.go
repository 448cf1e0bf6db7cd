// Package daemonset is the controller of the advanced DaemonSet: one pod on each node that fits, replaced or updated in
// place, with surge, partitions, canaries by node labels and the hook preDelete.
//
// reconcile.go is the list of phases. gather.go reads. plan.go decides, and is pure. apply.go writes, status.go
// reports. Which nodes get, keep, lose or update a pod is decided in package kernel/pernode, with the order of updates:
// descending names of nodes.
//
// A node that does not fit any more loses its pod at once. A node that has been NotReady for five minutes is lost: it
// neither counts as unavailable nor is it updated, so that it does not stop the others; its pod stays, and is updated
// when the node is back.
//
// Pods are created on nodes that may not be updated yet with the previous revision, status.currentRevision. Without one
// in the status, as after a take-over, it is the newest revision before the template's that a pod has.
//
// Not carried out: image pre-download, for which the kind ImagePullJob is missing, and the label
// pod-template-generation of Kubernetes before 1.9.
package daemonset
