package conversion

// upStatefulSet changes nothing: a v1alpha1 StatefulSet has all its fields at the same place in v1beta1.
func upStatefulSet(tree) {}

// downStatefulSet makes a v1beta1 StatefulSet one of v1alpha1, which lacks some fields of spec.
func downStatefulSet(object tree) {
	spec := child(object, "spec")
	for _, field := range []string{
		"lifecycle", "ordinals", "persistentVolumeClaimRetentionPolicy", "reserveOrdinals", "scaleStrategy",
		"volumeClaimUpdateStrategy",
	} {
		delete(spec, field)
	}
}
