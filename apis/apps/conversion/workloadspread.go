package conversion

// upWorkloadSpread makes a v1alpha1 WorkloadSpread one of v1beta1: two fields of the subsets have other names.
func upWorkloadSpread(object tree) {
	renameNodeSelectors(
		object,
		"requiredNodeSelectorTerm",
		"requiredNodeSelector",
		"preferredNodeSelectorTerms",
		"preferredNodeSelector",
	)
}

// downWorkloadSpread makes a v1beta1 WorkloadSpread one of v1alpha1.
func downWorkloadSpread(object tree) {
	renameNodeSelectors(
		object,
		"requiredNodeSelector",
		"requiredNodeSelectorTerm",
		"preferredNodeSelector",
		"preferredNodeSelectorTerms",
	)
}

func renameNodeSelectors(object tree, required, requiredNow, preferred, preferredNow string) {
	spec := child(object, "spec")
	each(spec, "subsets", func(subset tree) {
		for _, name := range [][2]string{{required, requiredNow}, {preferred, preferredNow}} {
			if value, has := subset[name[0]]; has {
				delete(subset, name[0])
				subset[name[1]] = value
			}
		}
	})
}
