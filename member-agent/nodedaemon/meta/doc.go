// Package meta restarts containers whose environment reads labels or annotations of the pod that an update in place
// changed.
//
//	plan.go  pure: a pod and the environments of its containers → what is reported, and which containers are restarted
//	part.go  the controller of the node's pods
//	stop.go  stops containers beside the passes, as the kubelet does: the hook, then the rest of the grace period
//
// The environment of a container is that of its process as the runtime created it: the runtime's verbose status has it.
// No command is run in the container, so that images without a shell work. It is read once for each container.
//
// The annotation apps.kruise.io/runtime-containers-meta says to the agent that this daemon runs, so that it may update
// the pod in place. It is on pods with the readiness gate InPlaceUpdateReady whose containers read such metadata, once
// their environments are known.
//
// Example: label version becomes 2 in an update in place. The agent shuts the gate and patches the label. The container
// still has VERSION=1, so it is stopped; the kubelet starts it again with VERSION=2, and the agent opens the gate.
package meta
