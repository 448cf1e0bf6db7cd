package apply

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/objects"
)

// Order is what a Work asks for.
type Order struct {
	Ref objects.Ref
	// HubID and Sequence of the hub that gave the order.
	HubID    string
	Sequence int64
	// Adopt is the value of topology.AnnotationAdopt on the Work, empty if it adopts nothing.
	Adopt string
	// Desired is the object with the hub's label and the sequence, and Hash its fingerprint.
	Desired *unstructured.Unstructured
	Hash    uint64
}

// ParseOrder reads a Work. The error says which part of the Work is wrong, in a sentence for people.
func ParseOrder(w *work.Work) (*Order, error) {
	hubID := w.Annotations[topology.AnnotationHubID]
	if hubID == "" {
		return nil, fmt.Errorf("the Work has no annotation %s, so it was not written by a Flotilla hub; it is not executed",
			topology.AnnotationHubID)
	}
	sequence, ok := topology.SequenceOf(w)
	if !ok {
		return nil, fmt.Errorf("annotation %s of the Work is %q; it must be a decimal number", topology.AnnotationSequence,
			w.Annotations[topology.AnnotationSequence])
	}
	if n := len(w.Spec.Workload.Manifests); n != 1 {
		return nil, fmt.Errorf("the Work has %d manifests; it must have exactly one", n)
	}
	desired := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(w.Spec.Workload.Manifests[0].Raw, &desired.Object); err != nil {
		return nil, fmt.Errorf("the manifest of the Work cannot be read: %w", err)
	}
	if desired.GetAPIVersion() == "" || desired.GetKind() == "" || desired.GetName() == "" {
		return nil, errors.New("the manifest of the Work lacks apiVersion, kind or metadata.name")
	}
	order := &Order{
		Ref: objects.Ref{
			GroupVersionKind: desired.GroupVersionKind(),
			NamespacedName:   types.NamespacedName{Namespace: desired.GetNamespace(), Name: desired.GetName()},
		},
		HubID: hubID, Sequence: sequence, Adopt: w.Annotations[topology.AnnotationAdopt], Desired: desired,
	}
	clean(desired)
	mark(desired, hubID, sequence)
	var err error
	order.Hash, err = fingerprint(desired)
	return order, err
}

// clean takes out what only the member's API server may say.
func clean(object *unstructured.Unstructured) {
	unstructured.RemoveNestedField(object.Object, "status")
	for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
		"deletionGracePeriodSeconds", "managedFields", "selfLink", "ownerReferences", "finalizers"} {
		unstructured.RemoveNestedField(object.Object, "metadata", field)
	}
}

func mark(object *unstructured.Unstructured, hubID string, sequence int64) {
	labels := object.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[topology.LabelHub] = hubID
	object.SetLabels(labels)
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[topology.AnnotationSequence] = strconv.FormatInt(sequence, 10)
	object.SetAnnotations(annotations)
}

func fingerprint(object *unstructured.Unstructured) (uint64, error) {
	data, err := json.Marshal(object.Object) // keys are sorted
	if err != nil {
		return 0, fmt.Errorf("the manifest of the Work cannot be written: %w", err)
	}
	hash := fnv.New64a()
	_, _ = hash.Write(data)
	return hash.Sum64(), nil
}

// Owner returns the id of the hub in the object's label, empty if there is no label or no object.
func Owner(object *unstructured.Unstructured) string {
	if object == nil {
		return ""
	}
	return object.GetLabels()[topology.LabelHub]
}

// CarriedOut returns the sequence of the last order that was written into the object, 0 if none was.
func CarriedOut(object *unstructured.Unstructured) int64 {
	if object == nil {
		return 0
	}
	sequence, _ := topology.SequenceOf(object)
	return sequence
}
