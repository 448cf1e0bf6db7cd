// Package broadcastjob is the controller of BroadcastJobs: one pod that runs to its end on each node that fits.
//
// reconcile.go is the list of phases. gather.go reads, and looks.go looks at the checks of a batch. plan.go decides,
// and is pure. apply.go writes, status.go reports. Which nodes get a pod, when the next batch begins, and how the job
// ends is decided in package kernel/completions.
//
// The status has what must survive a restart of the agent: when the job began, its batch, whether it halted, its end. A
// pass that changes one of these writes the status and nothing else. Pods are created and deleted by a later pass,
// which reads it.
//
// Times in the status have whole seconds, so decisions are made on whole seconds.
//
// A pod that restarted too often gets activeDeadlineSeconds 1: the kubelet ends it, and it stays, as a failed pod.
//
// Kept in memory alone is since when a check has not held. A restart of the agent begins its patience anew.
package broadcastjob
