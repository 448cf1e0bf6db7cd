// Package set is the verb `flotilla set`: it changes images, resources and environment variables of a workload, in all
// clusters together.
package set
