package conversion

// same changes nothing: all fields are at the same place in both versions.
func same(tree) {}

// downAdvancedCronJob makes a v1beta1 AdvancedCronJob one of v1alpha1, which has no templates of ImageListPullJobs.
func downAdvancedCronJob(object tree) {
	delete(below(object, "spec", "template"), "imageListPullJobTemplate")
}
