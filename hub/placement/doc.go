// Package placement places workloads: stages 1 and 2 of the hub (see package hub).
//
// gather reads the workload, the policies, the members and the newest reports; [Decide] finds whether the workload is
// the hub's and which policy holds, and calls package decision; apply writes the WorkloadPlacement when it changed;
// report hands an [Outcome] to the stage that writes the user's status.
package placement
