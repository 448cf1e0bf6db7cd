// Package agent is the inventory of members that register by an agent: it accepts them, makes the namespace that holds
// their Works and their Lease, and tells whether they are Ready.
//
// # Accepted
//
// A member takes part when spec.accepted is true, its agent has told the id of its cluster, that id is not the hub's
// own, and no older member has the same id. The id is pinned in spec.clusterID then. When an agent of another cluster
// comes under the name, the rightful member stays accepted; the condition Identity says that one was refused.
//
// # Ready
//
// The agent renews its Lease every 10 s. A member is NotReady when renewTime has not changed for 40 s by the hub's own
// monotonic clock; the clock of the member is never compared. After a restart of the hub the condition stays as it was
// until the Lease changes or 40 s have passed. So it is when the hub lost contact with its API server: it could not
// have seen a renewal. Before a member becomes NotReady the API server itself is asked, since a cache may lag.
//
// # FailoverHeld
//
// When a third or more of the members become NotReady together, each of them says that it is not given up
// (topology/failover).
//
// # Sessions
//
// An agent that starts, or comes back after 40 s, reports and then raises status.session. The hub answers with the same
// number in spec.acknowledgedSession, once its cache has what the API server has of the member's Works: every later
// decision rests on the reports. The agent executes nothing new before.
package agent
