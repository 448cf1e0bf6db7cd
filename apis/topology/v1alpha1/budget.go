package v1alpha1

import "slices"

const (
	// AnnotationBudget is on an object that a hub ordered in a member: JSON, a MemberBudget. The limits in its spec are
	// the user's, for all clusters together; in the member those of the budget hold instead. It is sent to members whose
	// agents read OrderFormatBudget. It stays on an object that its hub orphans, so that nothing is updated by that.
	AnnotationBudget = "topology.flotilla.dev/budget"
	// OrderFormatBudget is the format of orders that have AnnotationBudget. In the format before, the hub writes numbers
	// over the user's limits in the spec.
	OrderFormatBudget = "Budget"
)

// MemberBudget is what a hub grants an object in a member.
// +kubebuilder:object:generate=false
type MemberBudget struct {
	Budget `json:",inline"`
	// Paused stops updates: the user paused them, or the member has neither unavailable nor surge and waits for its turn.
	Paused bool `json:"paused,omitempty"`
	// Batch of a job is the batch that the newest nodes of the member belong to, from 1; 0 without batches.
	Batch int32 `json:"batch,omitempty"`
	// Nodes of a job in batches is how many nodes the member had when the hub granted these amounts. Those beyond Updated
	// are for later batches.
	Nodes int32 `json:"nodes,omitempty"`
	// Ended: the job is over in all members. No more pods are created, and it ends here when its pods have ended.
	Ended bool `json:"ended,omitempty"`
}

// OrderFormats are the formats of orders that an agent reads beside the one that all versions read.
type OrderFormats struct {
	// session of the agent that wrote them. Under another session they say nothing: an agent of an earlier version raises
	// the session and leaves them as they are.
	Session int64 `json:"session"`
	// names of the formats. Budget: the annotation topology.flotilla.dev/budget.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Names []string `json:"names,omitempty"`
}

// Reads reports whether the agent of the member reads this format of orders.
func (s *MemberClusterStatus) Reads(format string) bool {
	return s.OrderFormats != nil && s.OrderFormats.Session == s.Session && slices.Contains(s.OrderFormats.Names, format)
}
