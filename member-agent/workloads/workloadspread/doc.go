// Package workloadspread keeps what WorkloadSpreads say of pods that exist: which subset each is in, which are to go
// first, and which wait in vain. The workloads make and remove the pods; new ones get their subset from the
// controller of CloneSets or of StatefulSets, or from the webhook of package mutator. Package spread has the rules.
//
//	gather   the WorkloadSpread, its target (gather.go, target.go), the active pods and the labels of their nodes
//	plan     plan.go counts the pods of each subset, gives a subset to those that have none, and finds wrong deletion
//	         costs; adaptive.go closes subsets and opens them again
//	apply    one patch for a pod that lacks something; pods that wait in vain in a closed subset are deleted
//	report   one status write, if the status changed
//
// Nothing is kept in memory but what the cache still owes (package freshness) and the rate of deletions: a restarted
// agent goes on from the annotations of the pods and the times of the conditions.
//
// # A subset that is full
//
// Example: rescheduleCriticalSeconds 30, a takes 2 and has no room, b takes the rest, 4 replicas. The workload makes
// two pods in a and two in b. After 30 s a is closed. The pass that sees its own closing in the cache deletes the two
// pods, and the workload makes two others, which go to b. 300 s after it was closed a is open again; what runs in b
// stays there, and the next new pods try a.
//
// A pod that got a node in the meantime is never deleted: the deletion names the resourceVersion in which it had none.
//
// # What differs from OpenKruise
//
//   - The status holds no quota: creatingPods and deletingPods stay empty. Whoever admits pods counts those on their
//     way itself.
//   - What hinders a spread is told by the conditions Ready, Reconciling and Stalled of its status.
//   - Of two spreads of one target the older one rules; the other says so and touches nothing.
//   - Deletions of pods that wait in vain are bounded (see deletions), and of a Job's pods no more are deleted than
//     half of its backoffLimit allows: its controller counts them as failed.
//   - Nothing is taken off a running pod, and a patch that would make the workload lose its pods is refused.
package workloadspread
