package karmada

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
)

// Marks that a manifest must carry for Karmada's agent to update, watch and delete its object. Beside them the Work
// needs the finalizer work.ExecutionFinalizer. Nothing of Karmada's labels of bindings is set: its own controllers pass
// over a Work without them.
const (
	// LabelManaged with value "true" lets the agent update an object that stands.
	LabelManaged = "karmada.io/managed"
	// AnnotationWorkNamespace and AnnotationWorkName name the Work that the object is of.
	AnnotationWorkNamespace = "work.karmada.io/namespace"
	AnnotationWorkName      = "work.karmada.io/name"
	// AnnotationGeneration is a decimal number that is told back in status.resourceTemplateGeneration. Flotilla writes the
	// sequence of the order there: so a member says which order it answers.
	AnnotationGeneration = "resourcetemplate.karmada.io/generation"
	// AnnotationUID is the uid of the hub's object, to which events are told.
	AnnotationUID = "resourcetemplate.karmada.io/uid"
)

// Mark sets the marks in the manifest of a Work that Flotilla is to write, and the sequence of the order, by which a
// workload tells how far its children are. uid is that of the hub's object. Marking twice changes nothing.
func Mark(w *work.Work, uid types.UID) error {
	for i := range w.Spec.Workload.Manifests {
		object := &unstructured.Unstructured{}
		if err := json.Unmarshal(w.Spec.Workload.Manifests[i].Raw, &object.Object); err != nil {
			return fmt.Errorf("read the manifest of Work %s/%s: %w", w.Namespace, w.Name, err)
		}
		labels, annotations := object.GetLabels(), object.GetAnnotations()
		if labels == nil {
			labels = map[string]string{}
		}
		if annotations == nil {
			annotations = map[string]string{}
		}
		sequence := w.Annotations[topology.AnnotationSequence]
		labels[LabelManaged] = "true"
		annotations[AnnotationWorkNamespace], annotations[AnnotationWorkName] = w.Namespace, w.Name
		annotations[AnnotationGeneration], annotations[topology.AnnotationSequence] = sequence, sequence
		annotations[AnnotationUID] = string(uid)
		object.SetLabels(labels)
		object.SetAnnotations(annotations)
		raw, err := json.Marshal(object.Object) // keys are sorted
		if err != nil {
			return fmt.Errorf("encode the manifest of Work %s/%s: %w", w.Namespace, w.Name, err)
		}
		w.Spec.Workload.Manifests[i].Raw = raw
	}
	return nil
}

// DropAdded removes from a manifest that stands the labels and annotations which Karmada's webhook added to it: those
// of Karmada's own that the wanted one has not. Where the wanted one carries no marks, nothing is removed.
func DropAdded(have, want any) {
	marks, ok := field(want, "labels")
	if !ok || marks[LabelManaged] == nil {
		return
	}
	for _, name := range []string{"labels", "annotations"} {
		own, _ := field(want, name)
		all, _ := field(have, name)
		for key := range all {
			domain, _, _ := strings.Cut(key, "/")
			if _, ours := own[key]; !ours && (domain == "karmada.io" || strings.HasSuffix(domain, ".karmada.io")) {
				delete(all, key)
			}
		}
	}
}

// field returns a map of an object's metadata.
func field(object any, name string) (map[string]any, bool) {
	tree, _ := object.(map[string]any)
	meta, _ := tree["metadata"].(map[string]any)
	values, ok := meta[name].(map[string]any)
	return values, ok
}
