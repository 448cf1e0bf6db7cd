package karmada

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/objects"
)

// What Karmada writes on objects and Works.
const (
	// LabelManaged with value "true" is on every object that Karmada has in a member.
	LabelManaged = "karmada.io/managed"
	// annotationWorkNamespace and annotationWorkName name the Work that an object is of.
	annotationWorkNamespace = "work.karmada.io/namespace"
	annotationWorkName      = "work.karmada.io/name"
	// annotationGeneration is the generation of the hub's object, told back in the status.
	annotationGeneration = "resourcetemplate.karmada.io/generation"
	// annotationConflict on a Work or a manifest with value overwrite lets an object be taken over that is not Karmada's.
	annotationConflict = "work.karmada.io/conflict-resolution"
	overwrite          = "overwrite"
	// annotationManagedLabels and annotationManagedAnnotations on an object list the labels and annotations that Karmada
	// gave it, with commas between them.
	annotationManagedLabels      = "resourcetemplate.karmada.io/managed-labels"
	annotationManagedAnnotations = "resourcetemplate.karmada.io/managed-annotations"
)

// order is what a Work asks for.
type order struct {
	ref       objects.Ref
	desired   *unstructured.Unstructured
	hash      uint64
	overwrite bool
}

// parse reads a Work. The error says which part of it is wrong, in a sentence for people.
func parse(w *work.Work) (*order, error) {
	if n := len(w.Spec.Workload.Manifests); n != 1 {
		return nil, fmt.Errorf(
			"the Work has %d manifests, and Karmada writes one into each; write one Work for each object",
			n,
		)
	}
	desired := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(w.Spec.Workload.Manifests[0].Raw, &desired.Object); err != nil {
		return nil, fmt.Errorf("the manifest of the Work cannot be read: %w", err)
	}
	if desired.GetAPIVersion() == "" || desired.GetKind() == "" || desired.GetName() == "" {
		return nil, errors.New("the manifest of the Work lacks apiVersion, kind or metadata.name")
	}
	o := &order{
		ref: objects.Ref{
			GroupVersionKind: desired.GroupVersionKind(),
			NamespacedName:   types.NamespacedName{Namespace: desired.GetNamespace(), Name: desired.GetName()},
		},
		desired: desired, overwrite: w.Annotations[annotationConflict] == overwrite ||
			desired.GetAnnotations()[annotationConflict] == overwrite,
	}
	unstructured.RemoveNestedField(desired.Object, "status")
	for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
		"deletionGracePeriodSeconds", "managedFields", "selfLink", "ownerReferences", "finalizers"} {
		unstructured.RemoveNestedField(desired.Object, "metadata", field)
	}
	labels, annotations := desired.GetLabels(), desired.GetAnnotations()
	if labels == nil {
		labels = map[string]string{}
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	labels[LabelManaged], annotations[annotationWorkNamespace], annotations[annotationWorkName] = "true", w.Namespace,
		w.Name
	desired.SetLabels(labels)
	desired.SetAnnotations(annotations)
	data, err := json.Marshal(desired.Object) // keys are sorted
	if err != nil {
		return nil, fmt.Errorf("the manifest of the Work cannot be written: %w", err)
	}
	hash := fnv.New64a()
	_, _ = hash.Write(data) // never fails
	o.hash = hash.Sum64()
	return o, nil
}

// isOf tells whether an object that stands is the one of this Work.
func isOf(live *unstructured.Unstructured, w *work.Work) bool {
	annotations := live.GetAnnotations()
	return annotations[annotationWorkNamespace] == w.Namespace && annotations[annotationWorkName] == w.Name
}

// templateGeneration is what a manifest came with, false where it names none.
func templateGeneration(live *unstructured.Unstructured) (int64, bool) {
	n, err := strconv.ParseInt(live.GetAnnotations()[annotationGeneration], 10, 64)
	return n, err == nil
}
