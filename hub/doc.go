// Package hub is the control plane's side of Flotilla: it divides a user's workload over member clusters and sums what
// the members report. It runs no pod, and no workload controller: in namespaces with the label
// topology.flotilla.dev/federated=true the objects of apps.kruise.io are what users ask for, and nothing else acts on
// them.
//
//	─0─► user object ─1─► divide ─2─► WorkloadPlacement ─3─► Works (one per member) ─4─► agent applies ─5─► controllers
//	          ▲                                                                                                 │
//	          └───────8─ summed status ◄───7── Work.status ◄────────── agent reports ◄──6────── workload status ┘
//
//	0  admission    validates the user object: CEL in the CRD, and for pod templates a webhook (cmd/internal/serving)
//	                whose failure policy is Ignore
//	1  placement    gathers the workload, the policies, the members and their reports
//	2  decision     divides (topology/division) and lends the limits of the rollout (topology/lending); placement writes
//	                the decision, a WorkloadPlacement
//	3  delivery     renders the member's manifest and writes it as a Work into the member's namespace
//	4  - 6          are the member agent's
//	7  aggregate    reads Work.status, the agent's report
//	8  aggregate    writes the sum onto the user's object
//
// Whole objects go the same way without being divided: one copy per member where a policy selects them, and beside a
// workload where its pod template names them (placement records what goes with it, delivery gives each member object
// one Work).
//
// Beside the way: inventory/registration lets clusters join and gives them their rights, as a program of its own;
// inventory/agent tells whether members are accepted and Ready; inventory/karmada does both in their place for the
// Clusters of a Karmada on whose API server the hub stands, and wire/karmada has what its agents ask of Works;
// inventory/profiles publishes members as ClusterProfiles; policy finds which policy holds for a workload, and tells on
// each whether it holds.
//
// kinds is what the hub knows of each kind, one file per kind and one table. Outside of it only rights names workload
// kinds, as resources. capacity is what members have free and what is reserved there. store is how the stages read and
// write the API server. kinds, decision and capacity use no client and no clock; the reservations of capacity are state
// in memory behind a mutex.
//
// checks looks at what checks of waves ask, expressions and addresses. contact tells since when the hub hears its API
// server, for a hub that was cut off judges no member, and ends a hub whose API server was put back to a backup. wire
// has the names that all stages share. forecast answers what the hub does next, explain puts that into words, and
// snapshot holds what they depend on, both for the command line; neither runs in the hub.
//
// One field has one writer: placement writes WorkloadPlacement.spec, the digest of the decision in its annotation and
// its finalizer, policy writes policies' status, delivery writes Works and removes the finalizer, aggregate writes the
// user's status and WorkloadPlacement.status, inventory writes the namespaces of members and
// MemberCluster.spec.clusterID, spec.acknowledgedSession and conditions. Decisions live in WorkloadPlacements alone, so
// that a restart moves nothing. A spec that another writer changed does not match the digest: it is not delivered, and
// placement restores it.
package hub
