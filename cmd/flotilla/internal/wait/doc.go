// Package wait is the verb `flotilla wait`: it waits for a state of workloads.
package wait
