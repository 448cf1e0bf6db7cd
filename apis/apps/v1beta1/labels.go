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

// Labels and annotations of SidecarSets, of the pods that have their sidecars and of the revisions.
const (
	// AnnotationSidecarSetHash is on a SidecarSet the hash of its sidecars, and on a pod a JSON map by the name of the
	// SidecarSet.
	AnnotationSidecarSetHash = "kruise.io/sidecarset-hash"
	// AnnotationSidecarSetHashWithoutImage is the same for the sidecars without their images.
	AnnotationSidecarSetHashWithoutImage = "kruise.io/sidecarset-hash-without-image"
	// AnnotationSidecarSetInjected is on a pod: the names of the SidecarSets whose sidecars it has, with commas.
	AnnotationSidecarSetInjected = "kruise.io/sidecarset-injected-list"
	// AnnotationSidecarSetInPlaceState is on a pod: what its sidecars ran before the last update in place, as JSON.
	AnnotationSidecarSetInPlaceState = "kruise.io/sidecarset-inplace-update-state"
	// AnnotationSidecarSetWorking is on a pod: which of two containers works, by the name of the sidecar, as JSON.
	AnnotationSidecarSetWorking = "kruise.io/sidecarset-working-hotupgrade-container"
	// AnnotationSidecarSetCanary is "true" on a SidecarSet that replaces the one of AnnotationSidecarSetBase in the pods
	// that it selects.
	AnnotationSidecarSetCanary = "apps.kruise.io/sidecarset-canary"
	// AnnotationSidecarSetBase is on a canary: the name of the SidecarSet that it replaces.
	AnnotationSidecarSetBase = "apps.kruise.io/sidecarset-base"
	// PrefixSidecarVersion and PrefixSidecarVersionAlt start annotations of a pod with two containers for one sidecar. The
	// name of a container follows.
	PrefixSidecarVersion    = "version.sidecarset.kruise.io/"
	PrefixSidecarVersionAlt = "versionalt.sidecarset.kruise.io/"
	// LabelSidecarSetName is on a ControllerRevision: the name of its SidecarSet.
	LabelSidecarSetName = "kruise.io/sidecarset-name"
	// LabelSidecarSetCustomVersion is on a ControllerRevision, and on v1alpha1 SidecarSets, what spec.customVersion is.
	LabelSidecarSetCustomVersion = "apps.kruise.io/sidecarset-custom-version"
)

// SidecarSetUpgradable is the condition of a pod that is False while a change of a SidecarSet cannot reach it in place.
const SidecarSetUpgradable = "SidecarSetUpgradable"
