// Package podset owns the question "which pods does this workload have, and how are they": it observes them from the
// manager's cache by an index of the owner, without copying one, and sorts them into buckets.
//
// The rule: pods are the workload's by the uid of their controller; pods without a controller that match the selector
// are to be adopted, and pods of ours that match it no more are to be released, as ReplicaSets do it: somebody has
// taken them out to look at them, also if they have ended. Active pods neither end nor leave; what has ended (Failed,
// Succeeded) is to be removed, what is being deleted counts for nothing. Example: six pods of which one was evicted
// (Failed), one is terminating and one has lost the label app=web: three are active, one is ended, and one is a
// stranger.
//
// The pods that a Set holds are the cache's own. Nobody may change them.
package podset
