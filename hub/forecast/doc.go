// Package forecast answers what the hub does next about a workload, and what keeps a member from getting replicas. It
// decides by the same code as the hub's controllers and writes nothing.
package forecast
