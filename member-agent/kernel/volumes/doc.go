// Package volumes owns the question "which claims does each pod of this workload have, and what becomes of them".
// Claims and pods are linked by an instance id: pod "<set>-<id>", claim "<claim template>-<set>-<id>", the id as a
// label on both.
//
// The rule. A claim is ours if its controller is the workload, or if one of the workload's pods owns it, and it has an
// instance id and the name that goes with it. All others are never touched. What becomes of ours:
//   - Without reuse a claim goes with its pod: when the pod ends or leaves, the pod becomes the claim's owner and the
//     garbage collector takes both. A claim whose instance has no pod at all is deleted.
//   - With reuse the claims of a pod that ended or that others deleted stay, and the next pod takes its id; but not
//     before the old pod is gone (a claim can be held by a node that is lost) and not while one of the claims is being
//     deleted. A new pod waits for one that goes, until half a minute after that one's grace period; then it gets an id
//     of its own. Claims that the instance lacks are made, so an instance that was begun once is finished and not begun
//     again.
//   - What the controller itself removes (scale-in, a chosen pod, an update that makes it anew) takes its claims along,
//     with reuse and without.
//
// Claim templates may change at any time: running pods keep what they were made with, new pods get what is asked for
// now. A pod of an old revision may mount a volume whose claim template is gone. It gets a claim like the youngest one
// of that name that is left, else an empty directory, so that a partition can always be filled (Set.For).
//
// A set ByOrdinal keeps its claims: pod "<set>-3" always has claim "<claim template>-<set>-3", and Retention alone says
// when the garbage collector deletes it. No pod is created while a claim of its ordinal is being deleted.
//
// Example: enablePVCReuse, pods a and b. Somebody deletes pod a: while it terminates its id is not used, then the next
// pod is a again, with a's claims. The workload is scaled to one pod: b goes, and b's claims with it.
//
// source.go alone reads from a cache; everything else is pure. The claims that a Source returns are the cache's own.
// Nobody may change them.
package volumes
