// Package podprobemarker carries out PodProbeMarkers together with the node daemon. The agent writes which pods of a
// node are probed into the spec of the node's NodePodProbe; the daemon of that node writes the results into its status;
// the agent marks the pods.
//
//	probes.go     pure: markers and pods of a node → the spec of its NodePodProbe
//	mark.go       pure: a pod, its markers and results → what is patched on the pod
//	nodes.go      the controller of nodes: it writes NodePodProbes and patches pods
//	reconcile.go  the controller of PodProbeMarkers: it finds out how many pods are probed, and what is in the way
//	events.go     pure but for the cache: which markers an event concerns
//	refusals.go   writes that the API server refused, from the one controller to the other
//	status.go     the status
//
// One controller writes a whole NodePodProbe, from all markers: no marker can remove what is of another. What a probe
// set on a pod is recorded on the pod, see package kernel/marks. So exactly that is taken back when the marker goes,
// the pod is not selected any more, or the policy changes. A value that others changed since stays.
//
// Of two markers that set the same label, annotation or condition of a pod, the older one holds.
package podprobemarker
