// Package policy finds which policy holds for a workload ([Select]), and writes on each policy whether it is in force
// and for how many workloads ([Reconciler]).
package policy
