// Package imagepulljob is the controller of ImagePullJobs. The daemons of nodes pull, which learn of it by their
// NodeImages, or else pods do.
//
// selection.go says which nodes a job is about, and plan.go which of them pull next; both are pure. reconcile.go is the
// list of phases. gather.go reads, apply.go writes, status.go reports. pods.go is what differs where pods pull.
//
// A node leaves a job in two steps: the status remembers how it ended, then the controller of NodeImages takes the
// entry away.
package imagepulljob
