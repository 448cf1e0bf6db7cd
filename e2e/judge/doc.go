// Package judge is the one place that decides whether the limits held. It is pure: recorders turn what they observe
// into a log, and [Check] goes through the log in the order of time.
//
//   - I1: the cells of each placement and what it could not place add up to its replicas.
//   - I2a: when a controller makes an available pod unavailable, the unavailable pods of its cell are within a spec in
//     force there; when it creates a pod, there are at most replicas + maxSurge of them. In force are all specs from
//     the one that the controller observed last.
//   - I2b: the amounts of each placement, and the numbers of its subsets, are those of the user's object, and what its
//     cells reserve is never more than the amount, or than what they reserved before.
//   - I2c: when a controller makes a pod unavailable, or creates one, the pods that all members of the subset together
//     have made unavailable, or have above their replicas, are within the amount in force: the larger one of the amount
//     and of what cells reserve.
//   - I2f: a request stops each container that it names at most once, and none that has restarted since it was created.
//   - I8: no two pods have one name in all clusters, where the names are to be unique. A pod that is being deleted has
//     its name until it is gone or has ended.
//   - Leases: a member that was cut off for longer than 40 s makes no pod unavailable.
//
// Not charged are pods that others took: a node that was removed, a pod that failed or ended by itself, the user who
// scaled. They are holes until as many pods are available again; a controller is given time to observe them. Who asked
// for a deletion is in [Deletions].
//
// Clusters are compared by the time of observations, which may be in the wrong order for two clusters: what is wrong
// must still be wrong a second later. What the machine was measured to stand still ([Stall]) comes on top of all times.
package judge
