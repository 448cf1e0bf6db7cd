package conversion

// upPersistentPodState makes a v1alpha1 PersistentPodState one of v1beta1.
func upPersistentPodState(object tree) { renameTopologyKeys(object, "nodeTopologyKeys", "keys") }

// downPersistentPodState makes a v1beta1 PersistentPodState one of v1alpha1.
func downPersistentPodState(object tree) { renameTopologyKeys(object, "keys", "nodeTopologyKeys") }

func renameTopologyKeys(object tree, from, to string) {
	spec := child(object, "spec")
	rename(child(spec, "requiredPersistentTopology"), from, to)
	each(spec, "preferredPersistentTopology", func(term tree) { rename(child(term, "preference"), from, to) })
}
