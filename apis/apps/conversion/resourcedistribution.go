package conversion

// upResourceDistribution makes a v1alpha1 ResourceDistribution one of v1beta1.
func upResourceDistribution(object tree) {
	rename(below(object, "spec", "targets"), "namespaceLabelSelector", "namespaceSelector")
	each(child(object, "status"), "conditions", func(condition tree) {
		rename(condition, "failedNamespace", "failedNamespaces")
	})
}

// downResourceDistribution makes a v1beta1 ResourceDistribution one of v1alpha1.
func downResourceDistribution(object tree) {
	rename(below(object, "spec", "targets"), "namespaceSelector", "namespaceLabelSelector")
	each(child(object, "status"), "conditions", func(condition tree) {
		rename(condition, "failedNamespaces", "failedNamespace")
	})
}
