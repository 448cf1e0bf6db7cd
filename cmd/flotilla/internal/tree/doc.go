// Package tree is the verb `flotilla tree`: what of a workload runs where, from the hub's own objects.
package tree
