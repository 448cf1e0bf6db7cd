// Package fakecri is a container runtime for tests: it serves CRI v1 over a Unix socket and keeps images, pod sandboxes
// and containers in memory. A test scripts what single calls answer, and reads what was called.
//
//	server.go      start, stop and restart; scripts; calls
//	images.go      the registry, and the images of the node
//	containers.go  sandboxes and containers; what commands answer
package fakecri
