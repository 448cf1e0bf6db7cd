// Package tracing follows one change of a workload through hub and members by the traces that the programs send (tag
// e2e).
package tracing
