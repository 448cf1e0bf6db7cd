// Package uniteddeployment runs a UnitedDeployment in one cluster: it divides the replicas over the subsets and keeps
// one child workload per subset.
//
//	gather   its children (by the uid of their owner), its revisions, and for Adaptive the children's pods
//	plan     topology/division gives each subset its number (schedule.go); render.go gives each child its content
//	apply    write.go creates, changes, drains and removes children; nothing else writes them
//	report   one status write, if the status changed
//
// # A child
//
// A child is named "<name>-<subset>-" and five characters that follow from the UnitedDeployment's uid, the kind and the
// subset. So a controller whose cache lags, or that was restarted, meets its own child again instead of making a
// second. Its spec is the template with the subset's node selector term ANDed into every required node selector term
// (matchExpressions and matchFields), the subset's tolerations added, and then the subset's patch merged into the pod
// template. A child is written when it does not mean what the plan says; values that the API server fills in are not a
// difference, and one content is written at most once for one generation of the child (see memory).
//
// # What differs from OpenKruise
//
//   - Replicas that no exact rule divides (33/33/34 % of 10) are divided by the numbers as weights instead of refused.
//   - matchFields of a subset's node selector term are kept.
//   - A subset that was removed: its child gives up pods as those of the other subsets become available, and is deleted
//     once it has none. OpenKruise deletes the child at once.
//   - Another kind of template: the children of the new kind come first; a child of the old kind goes once the child of
//     the new kind has all its pods available.
//   - Two children of one subset: the oldest is kept, another is deleted only if it has no pods, else it is reported.
//   - observedGeneration moves when all children carry out that generation and their controllers have seen it. A hub's
//     order is answered (observedSequence) as soon as the subsets follow it, also while a removed one still has pods.
//   - As there, a partition does nothing for Deployment children: they have none.
//
// # Adaptive
//
// A pod that found no node for too long closes its subset for a time: the status says so before anything else is done
// (gate), and topology/division gives the pods to others, and back when the subset is open again. The memory is the
// status and the children's replicas, so a restarted controller goes on. Example: a and b are to have 3 pods each at
// most, and c the rest of 6; the nodes of b take 1. After 30 s b is closed, with 1; c has 2. 300 s later b is open and
// gets 2 more, a step of ceil(6/4); as they become available c gives up 2. Pods are found by an index of the name of
// their child, see childOfPod.
//
// With reserved pods the memory is a label on them.
//
// Not here yet: children that are StatefulSets of apps.kruise.io. Such an object is Stalled and nothing of it is
// touched.
package uniteddeployment
