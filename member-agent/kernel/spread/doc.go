// Package spread owns the question "which subset of a WorkloadSpread does this pod belong to, and what does it get for
// it". It is pure; the controllers of CloneSets, StatefulSets and WorkloadSpreads and the admission of pods all ask it,
// so that they agree.
//
// The rules, as published:
//   - A subset takes maxReplicas pods: a number, or a percentage of the workload's replicas that rounds up; without it
//     any number.
//   - A new pod gets the first subset, in the order of the spec, that is open and has room. Without one it starts in no
//     subset.
//   - The pods of StatefulSets are placed by their ordinals: the caps are cumulative thresholds. Those of
//     apps.kruise.io are placed by the position among the ordinals that are not reserved.
//   - A subset is closed while its condition Schedulable is False.
//   - A pod keeps its subset, whatever becomes of the WorkloadSpread. If its subset is removed from the spec, or
//     renamed, the pod is in no subset: it is not given another one.
//   - The deletion cost makes the workload remove pods in no subset first, then those above the caps, then those of the
//     last subset.
//
// Example: replicas 10, subsets "reserved" with maxReplicas 30% and "spot" without. The caps are 3 and none. The first
// three pods go to reserved with cost 200, the other seven to spot with cost 100; a scale-in to 5 would leave, at a cap
// of ceil(1.5) = 2, one of reserved that has become one too many (-100): it goes together with the first four of spot.
//
// How the users of the package share the work: whoever creates or admits a pod counts the active pods by Assigned, asks
// Pick, and stamps. The controller of WorkloadSpreads gives subsets to pods that have none (Match), corrects costs
// (Costs), and closes subsets. It deletes the pods of a subset that it closes only when its own cache shows the
// condition: the pods that take their places must not be sent there again.
package spread
