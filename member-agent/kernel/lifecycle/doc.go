// Package lifecycle owns the published states of a pod's life and their label and annotation. It is pure.
//
// The rule without hooks: a pod is Normal from its creation on, and stays Normal while it is updated in place; so no
// write is spent on a state that nobody waits for. The timestamp tells when the pod came to be, or was last changed.
// Example: a new pod of a workload without hooks carries lifecycle.apps.kruise.io/state=Normal. Hooks, which make a pod
// wait in PreparingNormal, PreparingUpdate or PreparingDelete, have their place here and are not carried out yet.
package lifecycle
