// Package console is what the verbs of the command line share: the hub that a kubeconfig names, the names of workloads,
// the forms of output, and the errors that have an exit code of their own.
//
// Results go to standard output, talk to standard error. Nothing is coloured.
package console
