// Package nodedaemon is what flotilla-node runs on a node: its parts, and the connection to the container runtime that
// they share.
//
//	daemon.go   finds the runtime, starts the parts, and watches whether the runtime answers
//	health.go   what the daemon reports of the runtime: readiness, and the condition Ready of the NodeImage
//	cri         the sockets of runtimes, and a client for one
//	images      pulls the images of the node's NodeImage
//	hooks       runs preStop hooks
//	fakecri     a scripted runtime for tests
//
// A part is a package below this one and one entry of the list in cmd/flotilla-node/parts.go. It reads and writes only
// objects of its own node: a ValidatingAdmissionPolicy of the chart holds that, by the node name in the token.
package nodedaemon
