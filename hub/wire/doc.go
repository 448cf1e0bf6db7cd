// Package wire holds what the stages of the hub agree on: keys, names of the objects between hub and agent, and what
// their annotations say. It is pure.
package wire
