package fleet

import (
	_ "embed"
)

const (
	// LabelNeverReady on a pod, with the value "true", keeps its containers running but never ready.
	LabelNeverReady = "sim.flotilla.dev/never-ready"
	// LabelNoResize on a pod makes its node unable to give its containers other resources than they have.
	LabelNoResize = "sim.flotilla.dev/no-resize"
	// AnnotationStartFor on a pod says how long its containers take from the start, also from one in place, until they run
	// and are ready, as a Go duration; without it they take no time.
	AnnotationStartFor = "sim.flotilla.dev/start-for"
	// AnnotationRunFor on a pod with restart policy Never or OnFailure says after what time it finishes, as a Go
	// duration; without it, it finishes at once.
	AnnotationRunFor = "sim.flotilla.dev/run-for"
	// AnnotationExitCode on such a pod is the exit code of its containers; "0" if it is absent.
	AnnotationExitCode = "sim.flotilla.dev/exit-code"
	// AnnotationKubelet on a node, with the value KubeletNone, keeps the simulation away from it and from its pods. Once
	// it is removed, a pod is looked at when it changes.
	AnnotationKubelet = "sim.flotilla.dev/kubelet"
	// KubeletNone is the value of AnnotationKubelet that does so.
	KubeletNone = "none"
)

// stages tell the simulated kubelets how nodes and pods behave.
//
//go:embed stages.yaml
var stages []byte
