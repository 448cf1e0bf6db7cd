// Package disruption owns the question "may this pod become unavailable now" of PodUnavailableBudgets. It is pure.
//
//	pods.go    which pods count as available, and which a budget protects
//	decide.go  decisions: each is a record in the status of the budget
//	observe.go the counters of the status, and which records still hold
//
// The rule: allowed = available − desired, never more than total − desired; of pods above both numbers one may go. A
// pod is available when it is ready, not in the middle of an update in place, not marked as unavailable, and not
// recorded.
// A decision records the pod and lowers unavailableAllowed in one write, which fails if the budget has changed since it
// was read. So however many replicas decide at a time, each decision sees those before it. A replica whose cache shows
// fewer available pods allows fewer.
//
// Example: total 5, maxUnavailable 2, so desired 3. 5 pods are available: 2 may go. The third request is refused until
// a replacement is ready.
//
// A request for a pod that is recorded passes. It renews a record that is not new: one that the cache of this replica
// shows may have been dropped, and the renewal, which is a write, finds that out.
//
// A record holds until the pod is seen to terminate or to be not ready, or until its time is over: then the request was
// not carried out, and the pod counts as available again.
package disruption
