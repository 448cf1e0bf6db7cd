// Package pernode owns the question "which nodes get, keep, lose or update the pod of a workload that runs one pod on
// each node". It is pure. Whether a node fits is given.
//
// The rule. A node that fits and has no pod gets one. A pod is deleted where it may not stay, where it has ended, and
// where another one of its revision runs: the available one stays, else the oldest. Of an old and a new pod on one node
// the old one is deleted as soon as it is unavailable or the new one is available.
//
// Everything goes through the nodes in descending order of names. At most limits.Updated nodes have the new revision:
// those that have it already come first, then those without a pod, then updates. A created pod has the new revision
// where the node may have it, else the previous one.
//
// With surge a new pod is created beside the old one on at most limits.Surge nodes. Without surge an available old pod
// is replaced, or changed in place, only while fewer than limits.Unavailable nodes are unavailable; an old pod that is
// unavailable is always updated.
//
// A lost node is one that has been NotReady for so long that nobody waits for it: it neither counts as unavailable nor
// is it updated, so it does not stop the others. It is updated like any other once it is back.
//
// Example: nodes a, b, c and d, each with an available old pod, Updated 3, Unavailable 1: d is updated, and when its
// new pod is available c, then b. a stays. A node e that comes now gets the previous revision.
package pernode
