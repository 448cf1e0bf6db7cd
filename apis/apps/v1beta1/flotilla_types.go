package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// FlotillaSpec is what Flotilla adds to the spec of a workload. OpenKruise has no such field.
type FlotillaSpec struct {
	// steps at which an update stops by itself, until the step is promoted (flotilla rollout promote) or has soaked. They
	// begin with a new template, and not with a change back to the one that the update replaces. They hold for updates
	// that begin after they were set. updateStrategy.rollingUpdate.partition holds too: the larger one counts. On a hub
	// they hold over all clusters together, unless the FederationPolicy has steps or waves of its own.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Steps []UpdateStep `json:"steps,omitempty"`
}

// StepApproval says whether a person has to promote a step.
// +kubebuilder:validation:Enum=Automatic;Required
type StepApproval string

// Who lets an update go on after a step.
const (
	// StepAutomatic: the update goes on by itself.
	StepAutomatic StepApproval = "Automatic"
	// StepRequired: a person promotes the step (flotilla rollout promote).
	StepRequired StepApproval = "Required"
)

// UpdateStep is a step at which an update stops by itself. It is over when it is promoted. With a soak, and without
// approval Required, it is over too when it has soaked.
// +kubebuilder:validation:XValidation:rule="@itemNumberOrPercent{self.partition}",fieldPath=".partition",message="partition must be a number of pods, or a percentage from 0% to 100%: correct it",messageExpression="'partition is %s: it must be a number of pods, or a percentage from 0%% to 100%%: correct it'.format([self.partition])"
type UpdateStep struct {
	// partition is how many pods keep the previous template at this step: a number, or a percentage of the replicas,
	// rounded up. At least one pod is updated below 100%.
	// +kubebuilder:validation:XIntOrString
	Partition intstr.IntOrString `json:"partition"`
	// soak is how long all pods of the step have to be updated and available before the update goes on, such as 10m. Up to
	// 720h. Default 0s.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}(h|m|s)){1,3}$') && duration(self) <= duration('720h')",message="soak is no duration of up to 720h: write hours, minutes and seconds, such as 10m or 1h30m",messageExpression="'soak %s is no duration of up to 720h: write hours, minutes and seconds, such as 10m or 1h30m'.format([self])"
	Soak string `json:"soak,omitempty"`
	// timeout is how long it may take until all pods of the step are updated and available; then the step has failed. Up
	// to 720h. Default: no limit.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}(h|m|s)){1,3}$') && duration(self) <= duration('720h') && duration(self) > duration('0s')",message="timeout is no duration of up to 720h: write hours, minutes and seconds, such as 10m or 1h30m",messageExpression="'timeout %s is no duration above 0s and up to 720h: write hours, minutes and seconds, such as 10m or 1h30m'.format([self])"
	Timeout string `json:"timeout,omitempty"`
	// approval: Required waits, after the soak, until the step is promoted. Default Required without a soak, else
	// Automatic.
	// +optional
	Approval StepApproval `json:"approval,omitempty"`
}

// UpdateProgress is how far an update with steps is. It changes only with what it says, never with time alone.
type UpdateProgress struct {
	// revision is the name of the revision that the update brings.
	Revision string `json:"revision"`
	// began is when the update began. It tells updates to the same revision apart.
	Began metav1.Time `json:"began"`
	// from is the name of the revision that the update leaves. A change back to it has no steps.
	// +optional
	From string `json:"from,omitempty"`
	// number of the step in progress, from 1; one more than of when all steps are over.
	// +kubebuilder:validation:Minimum=1
	Number int32 `json:"number"`
	// of is how many steps there are.
	// +kubebuilder:validation:Minimum=1
	Of int32 `json:"of"`
	// partition of the step in progress, which tells it apart from the others; empty when all are over.
	// +optional
	Partition string `json:"partition,omitempty"`
	// since is when the step began, or went on after it was held.
	Since metav1.Time `json:"since"`
	// settled is since when all pods of the step are updated and available; absent while they are not. It is put off by
	// the time in which no agent watched.
	// +optional
	Settled *metav1.Time `json:"settled,omitempty"`
	// watched is until when an agent is known to have watched the step since it was settled. It is written now and then
	// only.
	// +optional
	Watched *metav1.Time `json:"watched,omitempty"`
	// held is true while updates are paused, or the partition of the spec lets no more pods be updated.
	// +optional
	Held bool `json:"held,omitempty"`
	// failedAt is when the step failed; absent while it has not.
	// +optional
	FailedAt *metav1.Time `json:"failedAt,omitempty"`
	// failure says why the step failed.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Failure string `json:"failure,omitempty"`
}
