// Package simulator runs a workload controller against a world in memory: an API server, caches that lag, kubelets,
// storage with its garbage collector, and whatever a test lets users and nodes do. Only tests import it.
//
// The rule: everything happens in one order that one number decides. The world has its own clock and a list of things
// to come; it takes the next one when every goroutine of the controller waits for an answer. So a run can be repeated,
// and still the answers, events and failures come in any order that a real cluster knows. Example: with seed 7 the
// creation of web-x times out although the pod exists, its event comes 3 s late, and the node goes down in between.
// With seed 7 that happens again, and the story tells it line by line.
//
// A World must be used inside a bubble of testing/synctest: that is how it knows that the controller waits.
package simulator
