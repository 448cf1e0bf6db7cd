// Package v1beta1 holds the workload kinds of the API group apps.kruise.io in their storage version.
//
// The wire format is OpenKruise's published one: group, kind, JSON names, defaults, labels and annotations are the
// same, so that a manifest written for it applies here unchanged. Fields that Flotilla adds are additive and say so.
//
// Words such as @numberOrPercent{self.partition} in the validation rules stand for longer tests; crds/gen/macros.go
// holds them. What rules read inside templates, which are otherwise kept as written, is declared in crds/gen/schema.go.
//
// +kubebuilder:object:generate=true
// +groupName=apps.kruise.io
package v1beta1
