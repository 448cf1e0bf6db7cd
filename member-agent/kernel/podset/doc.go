// Package podset owns the question "which pods does this workload have, and how are they": it observes them from the
// manager's cache by an index of the owner, without copying one, and sorts them into buckets.
//
// The rule: pods are the workload's by the uid of their controller; pods without a controller that match the selector are
// to be adopted. Active pods neither end nor leave; what has ended (Failed, Succeeded) is to be removed, what is being
// deleted counts for nothing.
// Example: five pods of which one was evicted (Failed) and one is terminating: three are active, one is ended.
//
// The pods that a Set holds are the cache's own. Nobody may change them.
package podset
