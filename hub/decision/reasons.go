package decision

// Reasons of the conditions Federated and Stalled on the user's object, from the decision.
const (
	// Placed: the workload is placed as it asks.
	Placed = "Placed"
	// NoPolicy: no policy selects the workload; nothing is created.
	NoPolicy = "NoPolicy"
	// PolicyMissing: the policy that placed the workload is gone or selects it no longer; what is placed is frozen.
	PolicyMissing = "PolicyMissing"
	// NamespaceNotFederated: the namespace lost its label; what is placed is frozen.
	NamespaceNotFederated = "NamespaceNotFederated"
	// NotLabelled: a cluster-scoped object without the label that federates it; what is placed is frozen.
	NotLabelled = "NotLabelled"
	// Conflict: a policy of Karmada propagates the workload too; what is placed is frozen.
	Conflict = "Conflict"
	// Removing: an earlier placement is still being removed.
	Removing = "Removing"
	// Withdrawn: the user's annotation removed what was placed.
	Withdrawn = "Withdrawn"
	// InvalidWithdraw: the annotation that withdraws a workload has a value that says neither how; what is placed is
	// frozen.
	InvalidWithdraw = "InvalidWithdraw"
	// NoMember: the policy selects no accepted member.
	NoMember = "NoMember"
	// SubsetUnmatched: no member matches the node selector of a subset.
	SubsetUnmatched = "SubsetUnmatched"
	// Unplaced: some replicas have no cell.
	Unplaced = "Unplaced"
	// DependencyMissing: an object that the pods need does not exist on the hub; the workload is placed all the same.
	DependencyMissing = "DependencyMissing"
	// TooManyDependencies: the pods need more objects than go with one workload.
	TooManyDependencies = "TooManyDependencies"
	// OrdinalsUsedUp: no ordinals are left for some replicas; pods that run stay.
	OrdinalsUsedUp = "OrdinalsUsedUp"
	// HandOverCut: values that replacement pods are to get are too large; the workload is placed all the same.
	HandOverCut = "HandOverCut"
	// TooManyCells: the workload would have more cells than a placement holds.
	TooManyCells = "TooManyCells"

	// Adopting: members are asked what runs there already. AdoptionRefused: it cannot be adopted as it is.
	Adopting        = "Adopting"
	AdoptionRefused = "AdoptionRefused"
	// WaveFailed: a wave of the update failed; no pod is updated any more.
	WaveFailed = "WaveFailed"
	// JobHalted: a job halted in a member, so that it touches no further node anywhere. JobFailed: it failed in a member.
	JobHalted = "JobHalted"
	JobFailed = "JobFailed"
	// InvalidOverride: an override of the policy does not fit the workload; nothing is delivered.
	InvalidOverride = "InvalidOverride"
)

// Reasons of a cell's number that are not the division's own.
const (
	// CellExcluded: the policy no longer selects the member, or it is not accepted any more; what is leaving there
	// goes as others get available.
	CellExcluded = "Excluded"
	// CellAbandoned: as CellExcluded, and the member is not heard of, so that others stand in for what is leaving there.
	CellAbandoned = "Abandoned"
	// CellUnmatched: the member no longer matches the subset; what is leaving there goes as others get available.
	CellUnmatched = "Unmatched"
	// CellSubsetRemoved: the workload has the subset no more; what is leaving there goes as others get available in
	// the other subsets.
	CellSubsetRemoved = "SubsetRemoved"
	// CellCopy: every selected member gets a copy.
	CellCopy = "Copy"
	// CellPerMember: every selected member gets the whole object, and the number is how many pods the member asks for.
	CellPerMember = "PerMember"
	// CellLateMember: as CellPerMember, of a member that joined after a job created pods. Its nodes come last.
	CellLateMember = "LateMember"
	// CellDeselected: the policy no longer selects the member, or it is not accepted any more; the object is removed there
	// once the member confirmed that it has no budget.
	CellDeselected = "Deselected"
	// CellLooking: the member is asked what runs there, before it is adopted.
	CellLooking = "Looking"
	// CellAdopted: the member had this many when the hub took them over.
	CellAdopted = "Adopted"
	// CellRenamed: the pods of a zone that the member no longer has count for this one, which took its place.
	CellRenamed = "ZoneRenamed"
	// CellLost: the member is lost, and others stand in for what is leaving there. Params: after.
	CellLost = "Lost"
	// CellFenced: the member was lost and is known to run no pod, so that its ordinals went to others.
	CellFenced = "OrdinalsMoved"
	// CellDraining: the member has a taint with NoExecute; what is leaving there goes as others get available.
	CellDraining = "Draining"
	// CellReturned: the member is back; what others stand in for goes as those are available.
	CellReturned = "Returned"
	// CellShrinking: the cell is to have fewer, and others lack pods; what is leaving there goes as those are available.
	CellShrinking = "Shrinking"
	// CellUnschedulable: the member found no node for some pods, and others got their replicas. Params: after.
	CellUnschedulable = "Unschedulable"
	// CellStandIn: the cell has more than its subset is to have, in place of pods that other subsets have no nodes for.
	CellStandIn = "StandIn"
	// UnplacedOrdinals: the member has no ordinals for the replicas.
	UnplacedOrdinals = "OrdinalsUsedUp"
	// UnplacedMoving: the replicas start when pods that are to go are gone.
	UnplacedMoving = "Moving"
)

// ParamAfter is the parameter of the reason CellLost that says how long a member is NotReady until it is lost.
const ParamAfter = "after"

// ParamFrom is the parameter of CellRenamed that names the zones whose pods count for this one, separated by ", ".
const ParamFrom = "from"

// ParamAssumed is the parameter of a cell's reason that lists the node labels which the hub does not know; they are
// assumed to match, and the member's scheduler decides.
const ParamAssumed = "assumed"
