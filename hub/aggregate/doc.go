// Package aggregate sums the members' newest reports onto the user's object: stage 8 of the hub (see package hub). It
// alone writes the user's status and WorkloadPlacement.status.
//
// # The sum
//
// Counters are sums over the clusters that have cells. The updated counters of a cluster count only when it has
// reported on an order that carries the current template. A member that is not Ready is named, Ready becomes Unknown,
// and its last report stays in the sum, with two exceptions: replicas that were replaced elsewhere are left out, so at
// most the other replicas of a cell count, and a member all of whose replicas were replaced does not count at all.
//
// # When it writes
//
// Only what changed, as a merge patch of the status, and at most one write per interval and object. What is done is
// written at once, and so is the first change after a quiet time. Work in progress waits until settle after a new
// order, and later a little for the reports of the other members, so that one round of reports is one write (see the
// constants of pace.go).
package aggregate
