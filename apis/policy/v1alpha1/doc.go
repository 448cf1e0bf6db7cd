// Package v1alpha1 holds the kinds of the API group policy.kruise.io in their first version, which is served for
// manifests and tools that were written for it. Objects are stored as v1beta1; package apps/conversion carries them
// over.
//
// The wire format is OpenKruise's published one. What both versions have alike is declared once, in v1beta1.
//
// +kubebuilder:object:generate=true
// +groupName=policy.kruise.io
package v1alpha1
