// Package workload is the frame that every workload controller stands in. A kind hands in what is its own: its type,
// the phases of a pass, and which objects it watches. The frame does the rest, alike for all kinds:
//
//	builder.go     the controller: watches, indexes, workers, backoff
//	events.go      which object an event of a pod is for
//	nodes.go       nodes, and which changes of one matter
//	controller.go  a pass: read the object, leave it alone where a hub decides, wait for our own writes in the cache,
//	               run the kind's phases, try again after an error
//	pass.go        what the phases of a pass share: deletion, budget of the hub, failures, when to look again
//	selector.go    what is wrong with selector and template, and pods without a controller that match the selector
//	revisions.go   the revisions of a pod template, and how many are kept
//	actions.go     what a plan does with existing pods, and how they come from one revision to another; pure
//	pods.go        the writes of a plan: deletions, updates in place, lifecycle states, readiness gates, claims
//	create.go      the creation of pods
//	status.go      writing the status, not more often than a person can read it
//	reporting.go   what reports to a hub ask about a kind
//
// A pass decides everything from what it reads. Between passes the frame keeps, per object, the writes that the cache
// does not show yet (package freshness), when the status was written, how wide the last slow start became, and the
// memory that the kind asks for.
package workload
