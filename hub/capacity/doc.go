// Package capacity says how much room members have, and what of it is reserved for workloads that were decided but
// not yet reported. It is pure: time is an argument.
package capacity
