// Package kinds is the table of the kinds of workloads that whole fleets are tested with. A kind joins chaos, the
// faults and the checks of the scenarios by one entry.
package kinds
