// Package v1alpha1 holds the workload kinds of the API group apps.kruise.io in their first version, which is served for
// manifests and tools that were written for it. Objects are stored as v1beta1; package conversion carries them over.
//
// The wire format and the defaults are OpenKruise's published ones. What both versions have alike is declared once, in
// v1beta1. Fields that Flotilla adds are additive and say so.
//
// Words such as @numberOrPercent{self.partition} in the validation rules stand for longer tests; crds/gen/macros.go
// holds them. An object that is written in this version is checked by the rules of this version alone: they refuse
// whatever those of v1beta1 refuse.
//
// +kubebuilder:object:generate=true
// +groupName=apps.kruise.io
package v1alpha1
