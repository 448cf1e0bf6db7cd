package workload

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
)

// Reporting is what a report to the hub asks about a kind whose replicas the hub divides.
type Reporting struct {
	// Use returns what the object uses of its grants.
	Use func(live *unstructured.Unstructured) ([]work.SubsetUse, error)
	// Observed reports whether the controller acts on the order that the object has.
	Observed func(live *unstructured.Unstructured) bool
	// New and Maker are for kinds that control pods. The pods of others are controlled by workloads that they own, and
	// have the label of a subset.
	New   func() client.Object
	Maker func(client.Object) Maker
	// InSubsets reports whether the pods are controlled by workloads that the object owns, and have the label of a
	// subset.
	InSubsets bool
	// Halted returns why a job halted or failed, nil if it did neither; nil for kinds that are no jobs.
	Halted func(live *unstructured.Unstructured) (*work.JobHalt, error)
	// Ordinals returns what tells the ordinals that the object is to have from others; nil for kinds whose pods have none.
	Ordinals func(live *unstructured.Unstructured) (has func(ordinal int32) bool, err error)
}

// Maker is what is known of a workload that makes pods. The zero value knows nothing.
type Maker struct {
	// Update is the name of the revision that it brings its pods to, "" if that is not known.
	Update string
	// AtOnce is how many pods without a node keep it from making more, 0 if none do.
	AtOnce int32
	// Zones is how many pods a hub gave each zone, nil if it gave none.
	Zones map[string]int32
	// Spread is the member's part of a WorkloadSpread of a hub, nil if it gave none; Subsets is how many pods it gave each
	// of its subsets.
	Spread  *apps.WorkloadSpread
	Subsets map[string]int32
}

// Observed reports whether status.observedGeneration is the object's generation.
func Observed(live *unstructured.Unstructured) bool {
	generation, found, err := unstructured.NestedInt64(live.Object, "status", "observedGeneration")
	return err == nil && found && generation >= live.GetGeneration()
}

// ObservedSequence reports whether status.observedSequence is the order that the object has. It is for kinds that read
// grants from annotations: an annotation does not change the generation.
func ObservedSequence(live *unstructured.Unstructured) bool {
	observed, found, err := unstructured.NestedInt64(live.Object, "status", "observedSequence")
	return err == nil && found && observed >= Sequence(live)
}

// Sequence returns the sequence of the newest order that the object has, 0 for none.
func Sequence(object metav1.Object) int64 {
	sequence, _ := topology.SequenceOf(object)
	return sequence
}

// Decode reads a member object as its type.
func Decode[T client.Object](live *unstructured.Unstructured, into T) (T, error) {
	return into, runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, into)
}
