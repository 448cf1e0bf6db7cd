// Package containerrecreaterequest has the part of ContainerRecreateRequests that needs no node: it keeps the pod not
// ready while its containers stop, reports containers that have restarted, and ends requests whose time has passed or
// whose pod is gone. The daemon of the node stops the containers: package nodedaemon/restarts.
//
//	plan.go       pure: request, pod and time → status, marks and the end
//	reconcile.go  reads and writes
//	guard         fills requests in when they are created
//	restart       makes requests for all pods of a workload
//	terminator    makes requests for the sidecars of jobs
//
// The daemon and this controller write one status. Each write holds the resource version of what was read.
package containerrecreaterequest
