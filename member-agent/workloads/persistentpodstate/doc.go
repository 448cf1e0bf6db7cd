// Package persistentpodstate records on which nodes the pods of a workload are ready, and some of their annotations, in
// the status of a PersistentPodState. Package mutator gives that back to new pods of the same names.
//
//	target.go    which ordinals the workload has: a StatefulSet of either group, or a kind of the white list
//	plan.go      pure: pods, nodes and records → records, and the pods that need labels which no node has
//	generate.go  the PersistentPodState of a workload with the annotation kruise.io/auto-generate-persistent-pod-state
//
// Example: pod db-1 is ready on node n7 in zone b, and the PersistentPodState requires topology.kubernetes.io/zone. Its
// status has podStates[db-1] = {n7, zone: b}. When the pod is recreated it gets the node selector zone=b.
//
// A record is written when its pod is ready, and kept while the pod has no node. It goes when the workload is scaled in
// below the pod (WhenScaled), and in any case with the workload.
package persistentpodstate
