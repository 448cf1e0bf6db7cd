// Package conditions settles Ready, Progressing, Reconciling and Stalled of every workload from the same facts, so that
// kubectl wait, kstatus and Argo CD read all kinds alike.
//
// The rule: Stalled when only a person can move it on; else Reconciling until the counters are what the spec asks for;
// Ready when they are. Progressing is the published condition of rollouts: True while it moves and when it is complete,
// Unknown while it is paused, False past its deadline.
// Example: replicas 3, all updated, 2 available: Ready=False PodsNotAvailable "2 of 3 pods are available",
// Reconciling=True, Stalled=False, Progressing=True CloneSetUpdated.
//
// A transition time changes only when the status of its condition does; the caller passes the time.
package conditions
