// Package v1alpha1 holds Work, the contract between the hub and a member agent, in Karmada's wire format
// (work.karmada.io/v1alpha1). Group, kind and JSON names are the same, so that stock Karmada agents execute our Works
// and our agents execute Karmada's. What Flotilla adds is in annotations and in status.report.
//
// +kubebuilder:object:generate=true
// +groupName=work.karmada.io
package v1alpha1
