// Package failover decides when a member counts as lost ([Judge]), and in which steps pods move from where they are to
// where they are to be ([Move], [Clear]). It is pure: no clock, no client.
//
// # Lost
//
// A member is lost when it has been NotReady for as long as the policy says. The hub suspects itself first:
//
//	held     a third or more of the members, and at least two, became NotReady within a [Window]: none of them is lost, until
//	         so many have returned that the rest is less than that; then the countdown begins anew. A person can confirm a
//	         member's loss all the same.
//	queued   of several lost members one follows the other after a [Spacing], so that those who take over are not run down.
//	unsure   nothing is lost before the hub has been in contact with its API server for a whole grace period: it would not
//	         know of a member that renews its Lease.
//
// All follows from the times since which members are NotReady, and no longer held. Those are in their conditions, so
// that a hub which starts anew goes on with the same deadlines.
//
// # Moving
//
// A cell has an order (the replicas that its member is told) and a number that it is to have. W is the sum of those
// numbers over the cells whose members are not lost. Cells that are left gradually, because their member is drained or
// because it came back after others took over, lose pods only as others get available:
//
//	kept     the pods that stay where they are to go: as many as places that are not filled yet (the number less what is
//	         available there, or was when its member was last heard, and what a rollout may take there). Without a surge,
//	         maxUnavailable fewer.
//	ordered  orders grow as far as Σ pods ≤ W + maxSurge, where all pods that are reported count: those that go until they are
//	        gone, and those that a rollout added.
//
// So whatever was available stays: Σ available ≥ W - maxUnavailable if it was before, W with a surge. At least one
// available pod is kept while nothing is available where pods are to be; with maxSurge 0 one more may be started for
// that. NoTwin (a policy with the mode Fence) turns the last rule off and allows no surge: a pod goes first, then its
// replacement comes.
//
// Cells of a subset that was removed are left alike ([Clear]), after each other subset has moved: what they keep is
// what all other subsets lack together, less what stays there for the same reason, and orders of the others grow as far
// as Σ pods of all ≤ W + maxSurge. The limits are those that the removed subset had; rollouts of the others have
// theirs. What no other subset has a place for stays.
//
// Cells that are to have fewer, and whose member is not left, shrink likewise where others lack pods: of the pods above
// their number as many available ones stay as all parts lack together, beyond maxUnavailable, at most as many as go for
// another reason than that fewer are to run. The limits are those of the parts that shrink, with what their rollouts
// hold of them. What has no place elsewhere goes.
//
// The order of a lost member stays as it is. Its pods count neither as available nor as pods: nobody knows.
package failover
