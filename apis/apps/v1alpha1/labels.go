package v1alpha1

// Labels and annotations of this version for what v1beta1 has fields for. They mean nothing on a v1beta1 object.
const (
	// LabelExcludePreparingDelete on a CloneSet, with the value "true", is scaleStrategy.excludePreparingDelete of
	// v1beta1.
	LabelExcludePreparingDelete = "apps.kruise.io/cloneset-scaling-exclude-preparing-delete"
	// AnnotationImagePreDownloadParallelism on a CloneSet is inPlaceUpdateStrategy.imagePreDownloadParallelism: a number
	// or a percentage. Of the three annotations and their fields, the annotation holds.
	AnnotationImagePreDownloadParallelism = "apps.kruise.io/image-predownload-parallelism"
	// AnnotationImagePreDownloadTimeoutSeconds on a CloneSet is inPlaceUpdateStrategy.imagePreDownloadTimeoutSeconds.
	AnnotationImagePreDownloadTimeoutSeconds = "apps.kruise.io/image-predownload-timeout-seconds"
	// AnnotationImagePreDownloadMinUpdatedReadyPods on a CloneSet is
	// inPlaceUpdateStrategy.imagePreDownloadMinUpdatedReadyPods.
	AnnotationImagePreDownloadMinUpdatedReadyPods = "apps.kruise.io/image-predownload-min-updated-ready-pods"
	// AnnotationPartitionedScaling on a DaemonSet, with the value "true", is scaleStrategy.partitionedScaling of v1beta1.
	AnnotationPartitionedScaling = "daemonset.kruise.io/progressive-create-pod"
)
