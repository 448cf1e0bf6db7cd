package v1beta1

// Labels and annotations as OpenKruise publishes them: every tool that reads them finds the same meaning here.
const (
	// LabelInstanceID is on a pod and on its claims: the five characters that link the names of both.
	LabelInstanceID = "apps.kruise.io/cloneset-instance-id"
	// LabelSpecifiedDelete on a pod, with any value, asks the workload controller to delete (and replace) that pod.
	LabelSpecifiedDelete = "apps.kruise.io/specified-delete"
	// LabelLifecycleState is on a pod: where in its life it stands (see the LifecycleState constants).
	LabelLifecycleState = "lifecycle.apps.kruise.io/state"
	// AnnotationLifecycleTimestamp tells since when the pod is in its lifecycle state (RFC 3339).
	AnnotationLifecycleTimestamp = "lifecycle.apps.kruise.io/timestamp"
	// LabelSubset is on a UnitedDeployment's children and their pods: the name of the subset.
	LabelSubset = "apps.kruise.io/subset-name"
	// LabelSubsetRevision is on a UnitedDeployment's children and their pods: the revision of the UnitedDeployment.
	LabelSubsetRevision = "apps.kruise.io/controller-revision-hash"
	// AnnotationSubsetPatch is on a UnitedDeployment's child: the patch of the subset that was merged into it.
	AnnotationSubsetPatch = "apps.kruise.io/subset-patch"
	// LabelPodTemplateHash is the short form of the revision hash on a pod.
	LabelPodTemplateHash = "pod-template-hash"
	// AnnotationInPlaceUpdateState is on a pod that was updated in place: a JSON record of the update
	// (InPlaceUpdateState).
	AnnotationInPlaceUpdateState = "apps.kruise.io/inplace-update-state"
	// AnnotationInPlaceUpdateGrace is on a pod during the grace period: the change that waits to be applied.
	AnnotationInPlaceUpdateGrace = "apps.kruise.io/inplace-update-grace"
	// UnavailableLabelPrefix: a pod with any label of this prefix counts as unavailable for controllers.
	UnavailableLabelPrefix = "unavailable-pod.kruise.io/"
)

// InPlaceUpdateReady is the pod condition and readiness gate that is False while a pod is being updated in place.
const InPlaceUpdateReady = "InPlaceUpdateReady"

// LifecycleState is the value of LabelLifecycleState.
type LifecycleState string

// The states of a pod's life, as published.
const (
	LifecyclePreparingNormal LifecycleState = "PreparingNormal"
	LifecycleNormal          LifecycleState = "Normal"
	LifecyclePreparingUpdate LifecycleState = "PreparingUpdate"
	LifecycleUpdating        LifecycleState = "Updating"
	LifecycleUpdated         LifecycleState = "Updated"
	LifecyclePreparingDelete LifecycleState = "PreparingDelete"
)
