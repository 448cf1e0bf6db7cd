// Package link is the agent's connection to its hub: the agent dials, nothing dials the agent. It holds the caches of
// what the agent may see there (its own MemberCluster and the Works in its own namespace), decides whether this cluster
// is the one that the hub means (identity.go), renews the Lease that tells the hub that the agent lives (lease.go),
// reports zones, capacity and versions of the member (zones.go, inventory.go), and names objects without an order
// (orphans.go).
//
// Nothing here ever ends the process or holds it up: while the hub is away everything is tried again, the last Works
// stay in the cache, and the workload controllers do not notice. An agent that starts while the hub is away takes its
// orders from the member's own copies (member-agent/copies), if the hub meant this cluster when it was heard last.
//
// # Sessions
//
// After a start, and after more than 40 s without contact, the hub and the agent may think differently of what runs.
// Then the agent reports before it executes (session.go):
//
//  1. closed: orders that were carried out before are kept up, and nothing else is done.
//  2. reporting: the hub is heard, and the Lease is renewed. Every Work is looked at, and where the hub's Work.status
//     is not what stands, a report says so; of an order that is new it says what stands of the old one. A Work whose
//     report cannot be sent is waited for no longer than 15 s.
//  3. announced: the agent writes the next number into MemberCluster.status.session.
//  4. open: the hub has written the same number into spec.acknowledgedSession. It does so once its cache has what the
//     agent reported before. New orders are carried out from now on.
//
// While a member may have been fenced without knowing, StatefulSets create no pods (fenced.go).
//
// A session costs one write on each side, and reports only where something is news. Contact is the time, by the agent's
// own monotonic clock, at which the last request was sent that the hub answered; no clock is compared with another one.
package link
