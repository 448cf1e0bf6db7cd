package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Reschedule gives pods that a member finds no node for to other members.
// +kubebuilder:validation:XValidation:rule="!has(self.after) || !self.after.matches('^([0-9]{1,5}(h|m|s)){1,3}$') || duration(self.after) >= duration('15s') && duration(self.after) <= duration('24h')",fieldPath=".after",message="after must be from 15s to 24h: correct it",messageExpression="'after is %s: it must be from 15s (a scheduler tries a pod again within 10s) to 24h'.format([self.after])"
type Reschedule struct {
	// after is how long a pod may find no node in its member, from its creation on, before others get its replica: in
	// hours, minutes and seconds, such as 90s. It goes as far as others have room and bounds allow it; else the pod waits
	// where it is. 15s to 24h. Default 1m.
	// +optional
	// +kubebuilder:default="1m"
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}(h|m|s)){1,3}$')",message="after is no duration: write hours, minutes and seconds, such as 1m or 90s",messageExpression="'after %s is no duration: write hours, minutes and seconds, such as 1m or 90s'.format([self])"
	After string `json:"after,omitempty"`
}

// Unschedulable is what is remembered of a cell that lost replicas because its member found no node for them.
type Unschedulable struct {
	// replicas are those that had a node. The cell gets no more before retryAfter; then one, and the rest once that one
	// has a node.
	Replicas int32 `json:"replicas"`
	// tries is how many times in turn the member found no node: each doubles the wait until retryAfter, up to 30 minutes.
	Tries int32 `json:"tries"`
	// failedAt is when the member lost replicas for it the last time, by the hub's clock.
	// +optional
	FailedAt *metav1.Time `json:"failedAt,omitempty"`
	// retryAfter is when the member may get one replica more, by the hub's clock: so long after failedAt as tries and the
	// policy's reschedule.after ask for.
	RetryAfter metav1.Time `json:"retryAfter"`
	// triedAt is when the cell got more than replicas the last time, by the hub's clock; absent before.
	// +optional
	TriedAt *metav1.Time `json:"triedAt,omitempty"`
	// room is how many pods the member would have had with the most room that it reported when it was tried, or found no
	// node; absent where that is not known. What it reports above that is used at once.
	// +optional
	Room *int32 `json:"room,omitempty"`
}
