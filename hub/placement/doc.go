// Package placement decides what of a workload goes where: stage 1 and 2 of the hub (see package hub).
//
// gather reads the workload, the policies, the members and the newest reports; plan (pure: [Plan], [SelectPolicy]) turns
// them into a WorkloadPlacementSpec; apply writes it when it changed; report hands a [Outcome] to the stage that writes
// the user's status.
//
// # The decision
//
//	cells       which (subset, cluster[, zone]) there may be: the subsets' node selectors matched against the members
//	            that the policy selects, or, where the workload has no subsets, the policy's spread
//	division    package division: replicas for each cell, starting from the last decision
//	lending     package lending: each subset's limits, lent to the clusters that the subset spans
//	sequence    one more than the last, and than any that a member reported, when the order of any cluster changed
//
// A member that is not Ready keeps what it has and gets nothing new. A member that the policy no longer selects, or that
// is not accepted any more, goes to 0 replicas at once; its cells leave the placement when it has reported that nothing
// is left, or when it is gone. A cell of a selected member stays with 0 replicas, so that a scale down and up
// keeps the member object.
//
// # What stays as it was
//
// A decision that cannot be made ([Refusal]) changes nothing: what is placed stays placed, and a condition says why. That
// holds for a missing policy, for bad input, and for a new subset that no member matches.
package placement
