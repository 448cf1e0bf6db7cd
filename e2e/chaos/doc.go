// Command chaos runs a hub and three members while a scripted user and random faults change everything at once, and
// proves from what it recorded that the global limits held:
//
//	make chaos CHAOSFLAGS="-runs 3 -seed 7 -for 60s"
//	make chaos CHAOSFLAGS="-runs 3 -by-date"
//
// One fleet is started for all runs. Each run has a namespace of its own with four CloneSets, two StatefulSets (one
// Parallel, one OrderedReady) and a UnitedDeployment, and PodUnavailableBudgets for the pods of one CloneSet and of
// the UnitedDeployment. A SidecarSet adds a sidecar to the pods of a third CloneSet, and the user changes its
// image. Package daemons plays the node daemons, which are killed, too: the user restarts containers of CloneSets
// and StatefulSets beside their rollouts, those of one CloneSet most of the time, and has images pulled. A
// PodProbeMarker marks the pods that have the sidecar. The user rolls out images (some of which cannot be pulled),
// undoes, scales, pauses, resumes, and changes partition, maxUnavailable, maxSurge, and the numbers of the
// UnitedDeployment's subsets. Faults cut members off from the hub and join them again, kill and restart the hub,
// agents and API servers, answer 429, 500 and 503, delay watches, make pods fail, remove nodes and bring them back,
// evict many pods at a time, drain members and take that back half way, and set clocks wrong by minutes and right
// again. With every third seed one member is cut off for longer than its lease, in the middle of the first rollout.
// With every next one a member is lost with the pods of its StatefulSets, fenced, and returns with an order for
// ordinals that run elsewhere. With the seed after that the clock of one agent is fast by minutes, for most of the
// storm. Then all faults end, and the world must come to rest with the numbers that the user asked for; at rest
// nothing is written (I5), and killing every program changes no pod (I3). Every pod has been through the last
// restart of its workload then, image jobs have ended with true numbers, and marks are what probes say.
//
// # What is judged
//
// A recorder with watches of its own, which no fault touches, keeps every version of each pod and cell of the members,
// and of the workloads and placements of the hub. Package e2e/judge goes through that log. The audit log says who asked
// for a pod to be deleted. Pods have minReadySeconds, so that they stay unavailable longer. The kinds are those of
// e2e/kinds.
//
// An API server that is killed takes its history with it, and what its watches had not delivered yet. Where the
// recorder has to list anew, generations since the last event were not observed, and what depends on them is not judged
// around that time.
//
// What was wrong is kept in a new folder below -keep, whose path is printed: the traces of violations, what the
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
