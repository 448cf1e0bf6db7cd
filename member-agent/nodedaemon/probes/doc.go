// Package probes runs the probes of the node's NodePodProbe and reports their results in its status.
//
//	part.go        the controller that reads the NodePodProbe
//	prober.go      one goroutine for each probe, and what they share
//	track.go       pure: outcomes of a probe → its state, by thresholds
//	handler.go     exec, HTTP, TCP and gRPC
//	containers.go  which container runs, asked of the runtime at most once a second for all probes
//	report.go      the status: written when a state or message changes, at most once per period
//
// What a probe finds out is one of: it succeeds, it fails, it cannot be known. A command that runs too long, an answer
// of another code and a refused connection fail. A runtime or a pod that does not answer at all cannot be known: a
// NetworkPolicy may be in the way, and a pod is not called a follower for that.
//
// Example: failureThreshold 3, period 5 s. A leader stops to answer its probe: after 3 probes, 10 to 15 s later, the
// state is Failed, which is one write.
package probes
