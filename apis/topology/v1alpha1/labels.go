package v1alpha1

const (
	// LabelFederated with value "true" on a namespace of the hub gives its workloads to the hub: no agent acts on them
	// there.
	LabelFederated = "topology.flotilla.dev/federated"
	// LabelCluster is the pseudo label of a node that names its cluster; subsets may select it.
	LabelCluster = "topology.flotilla.dev/cluster"
	// LabelHub marks a member object with the id of the hub that owns it; an agent touches nothing without it.
	LabelHub = "topology.flotilla.dev/hub"
	// LabelInventory is on a MemberCluster that the hub mirrors from elsewhere: from where, as InventoryKarmada.
	LabelInventory = "topology.flotilla.dev/inventory"
	// InventoryKarmada is the value for a Cluster of Karmada.
	InventoryKarmada = "karmada"
	// LabelProvider is on a MemberCluster that is mirrored from Karmada: the provider that its Cluster names.
	LabelProvider = "topology.flotilla.dev/provider"
	// LabelPlacement is on a Work: the uid of the WorkloadPlacement that it carries out.
	LabelPlacement = "topology.flotilla.dev/placement"
	// LabelWorkload is on a ControllerRevision that a hub keeps: the uid of the workload that had the template.
	LabelWorkload = "topology.flotilla.dev/workload-uid"

	// AnnotationLeftFor is on a ControllerRevision that a hub keeps: the revision that the workload got when it left this
	// template. What a workload ran before is the template that was left for the one of now, and no other.
	AnnotationLeftFor = "topology.flotilla.dev/left-for"

	// AnnotationChangeCause is kubectl's: on a workload, why its template is what it is. A hub keeps it on the
	// WorkloadPlacement, and with the ControllerRevision of a template that the workload left.
	AnnotationChangeCause = "kubernetes.io/change-cause"

	// AnnotationDecision is on a WorkloadPlacement: the digest of the decision, as the hub made it. A spec that has
	// another one was edited by somebody else; nothing is delivered by it, and the hub puts its own decision back.
	AnnotationDecision = "topology.flotilla.dev/decision"

	// AnnotationHubID is on a Work, and on a MemberCluster that takes part: the id of the hub (uid of its kube-system
	// namespace).
	AnnotationHubID = "topology.flotilla.dev/hub-id"
	// AnnotationTraceparent is on a Work: the span that wrote it last, as in the header of W3C Trace Context. It is
	// written along with other changes of the Work, never for its own sake.
	AnnotationTraceparent = "topology.flotilla.dev/traceparent"
	// AnnotationSequence is on a Work: the number of the order, decimal; an agent ignores lower ones than it has carried
	// out.
	AnnotationSequence = "topology.flotilla.dev/sequence"
	// AnnotationWorkload is on a Work: "<Kind>/<namespace>/<name>" of the user's object.
	AnnotationWorkload = "topology.flotilla.dev/workload"
	// AnnotationStrategy is on a Work: JSON, spec.updateStrategy of the user's object, of which the manifest has the
	// member's share.
	AnnotationStrategy = "topology.flotilla.dev/strategy"
	// AnnotationCheck is on a Work that carries the Job of a wave's check: the name of the check. AnnotationWorkload names
	// the workload whose wave it is.
	AnnotationCheck = "topology.flotilla.dev/check"
	// AnnotationJob is on a Work that carries the Job of a check: the name of the Job.
	AnnotationJob = "topology.flotilla.dev/job"
	// AnnotationSubsetLimits is on a UnitedDeployment that a hub wrote: JSON, subset name → SubsetLimit. The limits of the
	// children of that subset are these, whatever the template says: they are this member's share of the global limits.
	AnnotationSubsetLimits = "topology.flotilla.dev/subset-limits"
	// AnnotationZones is on a CloneSet that a hub wrote: JSON, zone → number of pods. The pods of the CloneSet are divided
	// over the nodes with these values of the label topology.kubernetes.io/zone. It is no part of the pod template: zones
	// that come, go or are renamed change no revision and restart nothing.
	AnnotationZones = "topology.flotilla.dev/zones"
	// AnnotationSpread is on a CloneSet that a hub wrote: JSON, a MemberSpread. Its pods are spread as by a WorkloadSpread
	// of that name in the member. It goes before AnnotationZones.
	AnnotationSpread = "topology.flotilla.dev/spread"
	// AnnotationTemplateBefore is on a CloneSet that a hub wrote: JSON, a pod template. Pods that are not to be updated
	// are of it where the member never had another one than the newest: it joined in the middle of an update. On a
	// UnitedDeployment it is JSON, a template of children, and the member's controller passes it on to them. On a
	// SidecarSet it is JSON, what a revision keeps: new pods get it.
	AnnotationTemplateBefore = "topology.flotilla.dev/template-before"
	// AnnotationZone is on a pod: the zone that AnnotationZones gave it when it was made. Its node affinity asks for it.
	AnnotationZone = "topology.flotilla.dev/zone"
	// AnnotationRescheduleAfter is on a Work: how long a pod may find no node, such as 1m0s, before the member reports it.
	// Without it the member reports none.
	AnnotationRescheduleAfter = "topology.flotilla.dev/reschedule-after"
	// AnnotationDependsOn is on a Work: the names of the Works of the same member whose objects are to stand before this
	// one is applied, separated by commas. A Work that another one names, also one that is being deleted, is not removed.
	AnnotationDependsOn = "topology.flotilla.dev/depends-on"
	// AnnotationPropagation is on a Work: "Foreground" where the object in the member is deleted after its pods, as a user
	// asked for on the hub. Without it the agent deletes in the background.
	AnnotationPropagation = "topology.flotilla.dev/propagation-policy"
	// AnnotationWave on a user's object is what a person says of the wave under way:
	// "approve/<revision>/<sequence>/<wave>", and of one that failed with "/<unix time of the failure>" behind it, or
	// "retry/<revision>/<sequence>/<wave>/<unix time of the failure>", where sequence is the placement's revisionSequence.
	// flotilla rollout approve and retry write it.
	AnnotationWave = "topology.flotilla.dev/wave"
	// AnnotationWithdraw on a user's object takes what was placed of it away and keeps the object: WithdrawRemove or
	// WithdrawOrphan. With another value nothing of the object changes in members, so that a slip costs no pod; empty or
	// "false" it says nothing.
	AnnotationWithdraw = "topology.flotilla.dev/withdraw"

	// TaintDrain is the key of the taint that flotilla drain sets on a member, with the effect NoExecute.
	TaintDrain = "topology.flotilla.dev/drain"

	// PlacementFinalizer holds a WorkloadPlacement until every Work of it has a deletion timestamp.
	PlacementFinalizer = "topology.flotilla.dev/placement"
)
