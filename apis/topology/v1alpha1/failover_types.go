package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// FailoverMode is what becomes of the replicas of a member that is not heard of.
// +kubebuilder:validation:Enum=Never;Replace;Fence
type FailoverMode string

// What can become of the replicas of a member that is not heard of.
const (
	// FailoverNever leaves them where they are.
	FailoverNever FailoverMode = "Never"
	// FailoverReplace runs others in the other members; for a time both may run.
	FailoverReplace FailoverMode = "Replace"
	// FailoverFence runs others only when it is known that none runs in the member any more.
	FailoverFence FailoverMode = "Fence"
)

// Failover says when a member counts as lost, and what becomes of its replicas then.
// +kubebuilder:validation:XValidation:rule="!has(self.after) || !self.after.matches('^([0-9]{1,5}(h|m|s)){1,3}$') || duration(self.after) >= duration('20s') && duration(self.after) <= duration('720h')",fieldPath=".after",message="after must be from 20s to 720h: correct it",messageExpression="'after is %s: it must be from 20s (a failure of many members shows itself within 10s, and is to be seen before the first of them is given up) to 720h'.format([self.after])"
// +kubebuilder:validation:XValidation:rule="!has(self.handOver) || has(self.mode) && self.mode == 'Fence'",fieldPath=".handOver",message="handOver needs mode Fence, the only one that moves ordinals: set mode: Fence, or remove handOver",messageExpression="'handOver does not go with mode %s, which moves no ordinals: set mode: Fence, or remove handOver'.format([has(self.mode) ? self.mode : 'Never'])"
type Failover struct {
	// mode: Never leaves the replicas of a lost member where they are. Replace places them on the other members, as far as
	// those have room and bounds allow it; when the member returns, its pods go as far as their replacements are
	// available. Fence does so only when the member was told to have no pods of the workload and reported none, or a
	// person confirms it (flotilla fence NAME --confirm): never two pods for one replica. Default Never.
	// +optional
	// +kubebuilder:default=Never
	Mode FailoverMode `json:"mode,omitempty"`
	// after is how long a member is NotReady until it counts as lost, in hours, minutes and seconds, such as 90s; a member
	// is NotReady 40 s after it was last heard of. 20s to 720h. Default 5m.
	// +optional
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}(h|m|s)){1,3}$')",message="after is no duration: write hours, minutes and seconds, such as 5m or 90s",messageExpression="'after %s is no duration: write hours, minutes and seconds, such as 5m or 90s'.format([self])"
	After string `json:"after,omitempty"`
	// handOver names values of a pod that its replacement in another member gets, once. It is for workloads whose pods
	// have ordinals, and for mode Fence. Default: none.
	// +optional
	HandOver *HandOver `json:"handOver,omitempty"`
}

// Fence is a person's word that nothing runs in a member that is not heard of.
type Fence struct {
	// lostSince is since when the member is NotReady, the lastTransitionTime of its condition Ready: the word holds for
	// this loss, and for no later one.
	LostSince metav1.Time `json:"lostSince"`
	// by is who confirmed it.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	By string `json:"by,omitempty"`
	// at is when it was confirmed.
	// +optional
	At metav1.Time `json:"at,omitempty"`
}
