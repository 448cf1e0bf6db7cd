// Package link is the agent's connection to its hub: the agent dials, nothing dials the agent. It holds the caches of
// what the agent may see there (its own MemberCluster and the Works in its own namespace), decides whether this cluster
// is the one that the hub means (identity.go), renews the Lease that tells the hub that the agent lives (lease.go), and
// reports zones, capacity and versions of the member (zones.go, inventory.go).
//
// Nothing here ever ends the process or holds it up: while the hub is away everything is tried again, the last Works
// stay in the cache, and the workload controllers do not notice.
package link
