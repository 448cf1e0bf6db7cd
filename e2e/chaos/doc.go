// Command chaos runs a hub and three members while a scripted user and a scripted fate change everything at once, and
// proves from what it recorded that the global limits held:
//
//	make chaos CHAOSFLAGS="-runs 3 -seed 7 -for 60s"
//	make chaos CHAOSFLAGS="-runs 3 -by-date"
//
// One fleet is started for all runs. Each run has a namespace of its own with two CloneSets and a UnitedDeployment. The
// user rolls out images (some of which cannot be pulled), undoes, scales, pauses, resumes, and changes partition,
// maxUnavailable, maxSurge, and the numbers of the UnitedDeployment's subsets. Fate cuts members off from the hub and
// joins them again, kills and restarts the hub, agents and API servers, answers 429, 500 and 503, holds watches back,
// makes pods fail, removes nodes and brings them back, drains members and takes that back half way, and sets clocks
// wrong by minutes and right again. With every third seed one member is cut off for longer than its lease, in the
// middle of the first rollout. Then all faults end, and the world must come to rest with the numbers that the user
// asked for; at rest nothing is written (I5), and killing every program changes no pod (I3).
//
// # What is judged
//
// A recorder with watches of its own, which no fault touches, keeps every version of each pod and CloneSet of the
// members, and of the workloads and placements of the hub. A pure checker goes through that log ([judge]):
//
//   - I1: the cells of each placement and what it could not place add up to its replicas.
//   - I2a: when an agent makes an available pod unavailable, the unavailable pods of its CloneSet are within a spec in
//     force there; when it creates a pod, there are at most replicas + maxSurge of them. In force are all specs from
//     the one that the agent observed last.
//   - I2b: the amounts of each placement, and the numbers of its subsets, are those of the user's object, and what its
//     cells hold is never more than the amount, or than what they held before.
//   - I2c: when an agent makes a pod unavailable, or creates one, the pods that all members of the subset together have
//     taken down, or have above their replicas, are within the amount in force: the larger one of the amount and of
//     what cells hold.
//   - Leases: a member that was cut off for longer than 40 s makes no pod unavailable.
//
// Not charged are pods that others took: a node that went, a pod that failed or ended by itself, the user who scaled.
// They are holes until as many pods are available again; an agent is given a few seconds to hear of them. The audit log
// tells who asked for a pod to be deleted, and the pod when that was stored: the two together say who did it, whatever
// was answered ([deletions]). Clusters are compared by the time at which events were seen, and events of two clusters
// may be seen in the wrong order: what is wrong must still be wrong a second later. Pods have minReadySeconds, so that
// they stay unavailable longer.
//
// An API server that is killed takes its history with it, and what its watches had not told yet. Where the recorder has
// to list anew, generations since a watch told something last were not seen, and what depends on them is not judged
// around that time.
//
// What was wrong is kept in a new folder below -keep, whose path is printed: the stories of violations, what the
// recorder has, objects, the logs of our programs, and those of every control plane with its audit log.
//
// # Machines that stand still
//
// Some judgements depend on seconds. They are of a machine that runs: what it stood still is measured, and comes on
// top. Measured are ticks of this process, answers of every program and API server, and the times that API servers
// wrote into what they told late. A run in whose storm the machine stood still for more than a quarter of the time is
// neither good nor bad. It is repeated with its seed, twice at most. Sums that are wrong, and crashes, are violations
// on any machine.
//
// # Clocks
//
// The programs are built with a clock that can be set (cmd/internal/clocks). Its wall time jumps while the program
// runs, or is wrong from its start, and its monotonic reading goes on, as where a machine's clock is set. The judge
// makes no allowance for that: pods are available by the cluster's time. Programs that believe their machine's clock
// break the limits (-sabotage server-time).
//
// # Who judges the judge
//
// With -sabotage the programs are built with one rule of the protocol switched off ([sabotages]), by an overlay of the
// compiler, too; then runs go on until a violation is found, and it is a failure if none is.
package main
