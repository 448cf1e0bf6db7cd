package delivery

import (
	"fmt"
	"maps"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/placement"
)

// jobLabels are what an API server puts on the pods of a Job, and selects them by: they name the Job by its uid, which is the hub's.
var jobLabels = [...]string{batchv1.ControllerUidLabel, batchv1.JobNameLabel, "controller-uid", "job-name"}

// stripNative takes out of one of Kubernetes' own workloads what an API server or a controller wrote there, and of what it is to be
// annotated with, too.
func stripNative(object *unstructured.Unstructured, labels, annotations map[string]string) {
	maps.DeleteFunc(annotations, func(key, _ string) bool {
		return strings.HasPrefix(key, "deployment.kubernetes.io/") || strings.HasPrefix(key, "deprecated.daemonset.template.generation") || strings.HasPrefix(key, "batch.kubernetes.io/")
	})
	if object.GetKind() != "Job" {
		return
	}
	// A Job that is removed some time after its end would be made again, and run again.
	unstructured.RemoveNestedField(object.Object, "spec", "ttlSecondsAfterFinished")
	if manual, _, _ := unstructured.NestedBool(object.Object, "spec", "manualSelector"); manual {
		return // the labels and the selector are the user's
	}
	unstructured.RemoveNestedField(object.Object, "spec", "selector")
	for _, label := range jobLabels {
		delete(labels, label)
		unstructured.RemoveNestedField(object.Object, "spec", "template", "metadata", "labels", label)
	}
}

// runsHere refuses a workload that a controller of the hub's own cluster runs, nil where none does: its pods would run on the hub and in
// members. Nobody but such a controller writes the status of these kinds.
func runsHere(object *unstructured.Unstructured) *placement.Refusal {
	if !placement.IsNative(object.GroupVersionKind().GroupKind()) || !says(object.Object["status"]) {
		return nil
	}
	name := fmt.Sprintf("%s %s/%s", object.GetKind(), object.GetNamespace(), object.GetName())
	return &placement.Refusal{Reason: topology.PolicyRunsOnHub, Message: fmt.Sprintf(
		"%s has a status, so a controller of the hub's own cluster runs it, though the hub was started with --hub-runs-workloads=false; what members have of it stays as it is; end that controller and empty the status, or start the hub without the flag and put the pod template into a UnitedDeployment",
		name)}
}

// says tells whether a value holds anything but zeros.
func says(value any) bool {
	switch v := value.(type) {
	case nil:
		return false
	case map[string]any:
		for _, field := range v {
			if says(field) {
				return true
			}
		}
		return false
	case []any:
		return len(v) > 0
	case int64:
		return v != 0
	case string:
		return v != ""
	case bool:
		return v
	}
	return true
}
