// Package order owns the question "which pod first". It is pure: a rule compares two pods, and rules are chained from the
// most to the least important; ties end with the name, so the order never depends on the order of the input.
//
// The rule when pods are removed, as published: not assigned to a node, then by phase, not ready, lower deletion cost, more
// pods of the workload on the same node, ready for a shorter time, more restarts, newer.
// Example: two ready pods alone on their nodes, with deletion costs 10 and -5: the one with -5 goes.
package order
