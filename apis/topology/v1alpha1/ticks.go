package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// AnnotationTicks is on an object that a hub ordered in a member, and that starts jobs by a schedule: JSON, Ticks.
const AnnotationTicks = "topology.flotilla.dev/ticks"

// Ticks say for which times of its schedule a member starts jobs, of a workload that runs, or ran, in one member at a
// time. The times have whole seconds.
type Ticks struct {
	// alone is true while no other member starts jobs of the workload: a member that may have been fenced starts none
	// before it has read its newest order.
	// +optional
	Alone bool `json:"alone,omitempty"`
	// at is when the member was chosen. A schedule that the member saw first after that has no earlier ticks.
	// +optional
	At *metav1.Time `json:"at,omitempty"`
	// since is the newest tick that the former member started or reported missed, as far as the hub knows: later ones are
	// this member's. Absent if the member goes on with its own.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// startAfter is the newest time of which a tick may have been started by a former member that did not confirm its end:
	// ticks up to it are reported missed. Absent if the former member confirmed it.
	// +optional
	StartAfter *metav1.Time `json:"startAfter,omitempty"`
}
