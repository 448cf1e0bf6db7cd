package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// SidecarSetFlotilla has what Flotilla adds to the published fields.
type SidecarSetFlotilla struct {
	// failurePolicy is what happens to new pods that the SidecarSet selects while their sidecars cannot be added, because
	// the webhook is away or something in them cannot be computed: Ignore (they start without) or Fail (they are
	// refused). Default Ignore.
	// +optional
	// +kubebuilder:default=Ignore
	FailurePolicy SidecarSetFailurePolicy `json:"failurePolicy,omitempty"`
	// recreate is what happens to running pods that no change in place can give the current sidecars, because more than
	// images differ, or because they were created without sidecars while the webhook was away: Never (they stay as they
	// are) or IfNeeded (they are evicted one by one, so that their workload creates them again). IfNeeded holds within
	// updateStrategy and the budgets of the pods, and for pods of CloneSets, StatefulSets, DaemonSets, Deployments and
	// ReplicaSets alone, while all other pods of the workload are ready. Default Never.
	// +optional
	// +kubebuilder:default=Never
	Recreate SidecarSetRecreatePolicy `json:"recreate,omitempty"`
}

// SidecarSetRecreatePolicy is what happens to pods that no change in place can give the current sidecars.
// +kubebuilder:validation:Enum=Never;IfNeeded
type SidecarSetRecreatePolicy string

// What happens to pods that no change in place can give the current sidecars.
const (
	SidecarSetRecreateNever    SidecarSetRecreatePolicy = "Never"
	SidecarSetRecreateIfNeeded SidecarSetRecreatePolicy = "IfNeeded"
)

// SidecarSetFailurePolicy is what happens to pods whose sidecars cannot be added.
// +kubebuilder:validation:Enum=Ignore;Fail
type SidecarSetFailurePolicy string

// What happens to pods whose sidecars cannot be added.
const (
	SidecarSetIgnore SidecarSetFailurePolicy = "Ignore"
	SidecarSetFail   SidecarSetFailurePolicy = "Fail"
)

// SidecarSetProgress is what Flotilla adds to the published fields of the status.
type SidecarSetProgress struct {
	// missingPods is how many pods that the selector matches were created without the sidecars, though the SidecarSet
	// injected at that time: while the webhook was away, or because something could not be computed for them.
	// +optional
	MissingPods int32 `json:"missingPods,omitempty"`
	// injectingSince is since when new pods of the same selection get sidecars: since the SidecarSet was created, or its
	// selection changed, or it went on. Absent while they get none. Pods that are older are not missing.
	// +optional
	InjectingSince *metav1.Time `json:"injectingSince,omitempty"`
	// selection is a hash of the fields that select pods; injectingSince holds for it.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Selection string `json:"selection,omitempty"`
}
