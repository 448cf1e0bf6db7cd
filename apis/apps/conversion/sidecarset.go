package conversion

import "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"

// labelNamespaceName is on each namespace: its name.
const labelNamespaceName = "kubernetes.io/metadata.name"

// upSidecarSet makes a v1alpha1 SidecarSet one of v1beta1: a namespace becomes a selector, and a label customVersion.
func upSidecarSet(object tree) {
	if spec := child(object, "spec"); spec != nil {
		if namespace, _ := spec["namespace"].(string); namespace != "" {
			spec["namespaceSelector"] = tree{"matchLabels": tree{labelNamespaceName: namespace}}
		}
		delete(spec, "namespace")
	}
	metadata := child(object, "metadata")
	labels := child(metadata, "labels")
	if version, _ := labels[v1beta1.LabelSidecarSetCustomVersion].(string); version != "" {
		if spec := made(object, "spec"); object["spec"] != nil {
			spec["customVersion"] = version
		}
		delete(labels, v1beta1.LabelSidecarSetCustomVersion)
		dropEmpty(metadata, "labels")
	}
}

// downSidecarSet makes a v1beta1 SidecarSet one of v1alpha1.
func downSidecarSet(object tree) {
	spec := child(object, "spec")
	if namespace := onlyNamespace(spec); namespace != "" {
		spec["namespace"] = namespace
		delete(spec, "namespaceSelector")
	}
	version, _ := spec["customVersion"].(string)
	delete(spec, "customVersion")
	if version != "" {
		made(made(object, "metadata"), "labels")[v1beta1.LabelSidecarSetCustomVersion] = version
		return
	}
	metadata := child(object, "metadata")
	labels := child(metadata, "labels")
	if value, has := labels[v1beta1.LabelSidecarSetCustomVersion]; has && value != "" {
		// The label means nothing on a v1beta1 object.
		delete(labels, v1beta1.LabelSidecarSetCustomVersion)
		dropEmpty(metadata, "labels")
	}
}

// onlyNamespace returns the name of the only namespace that namespaceSelector selects by that name; "" for others.
func onlyNamespace(spec tree) string {
	selector, _ := spec["namespaceSelector"].(tree)
	labels, _ := selector["matchLabels"].(tree)
	name, _ := labels[labelNamespaceName].(string)
	if len(selector) != 1 || len(labels) != 1 {
		return ""
	}
	return name
}
