package delivery

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// copyFacts is what the Works of a copied object depend on.
type copyFacts struct {
	key   wire.Key
	kind  kinds.Kind
	table kinds.Table
	hubID string
	// object is the whole object of the hub; nil where it is gone, or nobody wants it.
	object *unstructured.Unstructured
	// own is the object's own placement, nil where there is none that counts.
	own *topology.WorkloadPlacement
	// released: the own placement goes with what it placed. Otherwise Works that it left behind stay, for the next one.
	released bool
	// dependents are the placements that name the object.
	dependents []topology.WorkloadPlacement
	// have are the Works that there are, and named the members in which another Work names them, by member.
	have  map[string]*work.Work
	named map[string]bool
}

// members returns where the object is to be: where its own placement has a cell, or one that names it; where a Work
// names it, be it one that is being deleted; and where it was left for the next placement.
func (f *copyFacts) members() []string {
	wanted := f.placed()
	for member, w := range f.have {
		left := f.own == nil && !f.released && w.Labels[topology.LabelPlacement] != ""
		if f.named[member] || left {
			wanted[member] = true
		}
	}
	return slices.Sorted(maps.Keys(wanted))
}

// placed returns the members in which a placement that stays has the object.
func (f *copyFacts) placed() map[string]bool {
	wanted := map[string]bool{}
	if f.own != nil {
		for i := range f.own.Spec.Cells {
			wanted[f.own.Spec.Cells[i].Cluster] = true
		}
	}
	for i := range f.dependents {
		for j := range f.dependents[i].Spec.Cells {
			wanted[f.dependents[i].Spec.Cells[j].Cluster] = true
		}
	}
	return wanted
}

// adopted tells whether an object of that name that stands in the member without a mark is taken over where it holds
// the same: the user says so on the object, or on a workload that brings it.
func (f *copyFacts) adopted(member string) bool {
	if f.own != nil && f.object.GetAnnotations()[topology.AnnotationAdopt] == "true" {
		return true
	}
	for i := range f.dependents {
		for j := range f.dependents[i].Spec.Cells {
			if c := &f.dependents[i].Spec.Cells[j]; c.Cluster == member && c.Adoption.Phase == topology.AdoptionDiscovered {
				return true
			}
		}
	}
	return false
}

// preserves tells whether the object of a Work is to stay in the member when the Work goes.
func preserves(w *work.Work) bool {
	return w.Spec.PreserveResourcesOnDeletion != nil && *w.Spec.PreserveResourcesOnDeletion
}

// planCopy returns the Works that there should be, sorted by member. It is pure.
func planCopy(f *copyFacts) ([]*work.Work, *kinds.Rejection, error) {
	members := f.members()
	if f.object == nil || len(members) == 0 {
		return nil, nil, nil
	}
	if refusal := kinds.RunsOnHub(f.object); refusal != nil {
		return nil, refusal, nil
	}
	manifest, err := renderCopy(&f.kind, f.object)
	if err != nil {
		return nil, nil, err
	}
	if len(manifest) > maxManifest {
		return nil, &kinds.Rejection{Reason: TooLarge, Message: fmt.Sprintf(
			"%s has %d KiB, and at most %d KiB are delivered; divide it into several",
			f.key.Sentence(),
			len(manifest)/1024,
			maxManifest/1024,
		)}, nil
	}
	var works []*work.Work
	placed := f.placed()
	for _, member := range members {
		name := f.key.Work(member)
		w := &work.Work{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: name.Namespace, Name: name.Name,
				Labels: f.labels(member),
				Annotations: map[string]string{
					topology.AnnotationHubID:    f.hubID,
					topology.AnnotationSequence: strconv.FormatInt(f.sequence(member), 10),
					topology.AnnotationWorkload: f.key.String(),
				},
				Finalizers: []string{work.ExecutionFinalizer},
			},
			Spec: work.WorkSpec{
				Workload: work.WorkloadTemplate{Manifests: []work.Manifest{{RawExtension: runtime.RawExtension{Raw: manifest}}}},
			},
		}
		if f.adopted(member) {
			w.Annotations[topology.AnnotationAdopt] = strconv.FormatInt(replicasOf(f.object), 10)
		}
		switch have := f.have[member]; {
		case kinds.HoldsData(f.key.GroupKind()):
			w.Spec.PreserveResourcesOnDeletion = new(true)
		case placed[member] && have != nil && preserves(have):
			w.Spec.PreserveResourcesOnDeletion = new(false) // it was to be left behind, and is wanted again
		}
		works = append(works, w)
	}
	return works, nil, nil
}

// replicasOf is how many replicas every copy has, 0 for a kind without replicas.
func replicasOf(object *unstructured.Unstructured) int64 {
	replicas, _, _ := unstructured.NestedInt64(
		object.Object,
		"spec",
		"replicas",
	) // another type is refused by the API server
	return replicas
}

// labels name the own placement. One that was left behind keeps its label for the next placement.
func (f *copyFacts) labels(member string) map[string]string {
	switch {
	case f.own != nil:
		return map[string]string{topology.LabelPlacement: string(f.own.UID)}
	case f.have[member] != nil && f.have[member].Labels[topology.LabelPlacement] != "" && f.released:
		return map[string]string{topology.LabelPlacement: ""}
	}
	return nil
}

// sequence is that of the own placement's cell, and never lower than one that was given or reported before.
func (f *copyFacts) sequence(member string) int64 {
	sequence := int64(1)
	if f.own != nil {
		for i := range f.own.Spec.Cells {
			if c := &f.own.Spec.Cells[i]; c.Cluster == member {
				sequence = max(sequence, c.Sequence)
			}
		}
	}
	w := f.have[member]
	if w == nil {
		return sequence
	}
	sequence = max(sequence, wire.SequenceOf(w))
	if report, _ := f.table.ReportOf(w); report != nil && report.HubID == f.hubID {
		sequence = max(sequence, report.Sequence)
	}
	return sequence
}

// renderCopy returns the manifest of an object for members: the whole of it, without what an API server fills in or
// what is a cluster's own. The same object gives the same bytes.
func renderCopy(kind *kinds.Kind, object *unstructured.Unstructured) ([]byte, error) {
	tree := object.DeepCopy()
	unstructured.RemoveNestedField(tree.Object, "status")
	meta := map[string]any{"name": object.GetName(), "namespace": object.GetNamespace()}
	labels, annotations := carried(object.GetLabels(), nil), carried(object.GetAnnotations(), nil)
	if kind.Strip != nil {
		kind.Strip(tree, labels, annotations)
	}
	if len(labels) > 0 {
		meta["labels"] = labels
	}
	if len(annotations) > 0 {
		meta["annotations"] = annotations
	}
	tree.Object["metadata"] = meta
	data, err := json.Marshal(tree.Object) // keys are sorted
	if err != nil {
		return nil, fmt.Errorf("encode %s %s/%s: %w", object.GetKind(), object.GetNamespace(), object.GetName(), err)
	}
	return data, nil
}
