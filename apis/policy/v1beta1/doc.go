// Package v1beta1 holds the kinds of the API group policy.kruise.io in their storage version.
//
// The wire format is OpenKruise's published one. Fields that Flotilla adds are additive and say so.
//
// Words such as @numberOrPercent{self.maxUnavailable} in the validation rules stand for longer tests;
// crds/gen/macros.go holds them.
//
// +kubebuilder:object:generate=true
// +groupName=policy.kruise.io
package v1beta1
