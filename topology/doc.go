// Package topology is the mathematics of one workload over many clusters; it has no code of its own. Both packages
// below it are pure: facts in, a plan with reasons out, no client, no clock, no logger.
//
//	division   how many replicas each cell gets         N, subsets, cells, the last decision  →  shares, and what is unplaced
//	lending    how much of a rollout each cell may do   global limits, shares, reports        →  what each cell may use
package topology
