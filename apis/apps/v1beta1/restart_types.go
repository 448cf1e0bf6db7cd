package v1beta1

const (
	// AnnotationRestart on a CloneSet, a StatefulSet or a DaemonSet asks for a restart of the containers of its pods in
	// place. Its value is a RestartOrder as JSON; another value of at asks for another restart.
	AnnotationRestart = "apps.flotilla.dev/restart"
	// AnnotationRestarted on a pod is at of the last RestartOrder that it went through.
	AnnotationRestarted = "apps.flotilla.dev/restarted"
	// AnnotationRestartFailed on a workload is at of the RestartOrder that has stopped, because a container did not
	// restart. No further pod restarts until at changes.
	AnnotationRestartFailed = "apps.flotilla.dev/restart-failed"
	// LabelRestarting is on a pod from before its request is created until it is available again, so that controllers
	// count it as unavailable.
	LabelRestarting = UnavailableLabelPrefix + "flotilla-restart"
	// AnnotationRestartOf on a ContainerRecreateRequest names the workload whose restart made it, as Kind/name.
	AnnotationRestartOf = "apps.flotilla.dev/restart-of"
)

// RestartOrder is a restart of the containers of all pods of a workload.
// +kubebuilder:object:generate=false
type RestartOrder struct {
	// At is when the restart was asked for (RFC 3339). Pods that are younger are left alone.
	At string `json:"at"`
	// Containers to restart; empty: all containers of the pods.
	Containers []string `json:"containers,omitempty"`
}
