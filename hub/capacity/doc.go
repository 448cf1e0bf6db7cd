// Package capacity says how much room members have, and what of it is reserved for workloads that were decided but
// not yet reported. It uses no client and no clock: time is an argument. [Reservations] keeps its state in memory,
// behind a mutex.
package capacity
