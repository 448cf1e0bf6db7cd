package conversion

import (
	"github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// upDaemonSet makes a v1alpha1 DaemonSet one of v1beta1.
func upDaemonSet(object tree) {
	rolling := below(object, "spec", "updateStrategy", "rollingUpdate")
	if rolling["rollingUpdateType"] == string(v1alpha1.DeprecatedSurgingDaemonSetRollingUpdateType) {
		rolling["rollingUpdateType"] = string(v1beta1.StandardDaemonSetRollingUpdateType)
	}
	metadata := child(object, "metadata")
	if annotations := child(metadata, "annotations"); annotations[v1alpha1.AnnotationPartitionedScaling] == "true" {
		made(made(object, "spec"), "scaleStrategy")["partitionedScaling"] = true
		delete(annotations, v1alpha1.AnnotationPartitionedScaling)
		dropEmpty(metadata, "annotations")
	}
	rename(child(object, "status"), "daemonSetHash", "updateRevision")
}

// downDaemonSet makes a v1beta1 DaemonSet one of v1alpha1.
func downDaemonSet(object tree) {
	spec, metadata := child(object, "spec"), child(object, "metadata")
	if scale := child(spec, "scaleStrategy"); scale["partitionedScaling"] == true {
		made(made(object, "metadata"), "annotations")[v1alpha1.AnnotationPartitionedScaling] = "true"
	} else if annotations := child(metadata, "annotations"); annotations[v1alpha1.AnnotationPartitionedScaling] == "true" {
		// The annotation means nothing on a v1beta1 object.
		delete(annotations, v1alpha1.AnnotationPartitionedScaling)
		dropEmpty(metadata, "annotations")
	}
	delete(spec, "scaleStrategy")
	rename(child(object, "status"), "updateRevision", "daemonSetHash")
}

// rename moves what is at a key of parent to another key.
func rename(parent tree, key, to string) {
	if value, has := parent[key]; has {
		delete(parent, key)
		parent[to] = value
	}
}
