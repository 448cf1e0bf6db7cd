package kinds

import (
	"encoding/json"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime/schema"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// Reflected is the status of a member object that an agent of Karmada reflected, and the order that it may answer.
type Reflected struct {
	// Status is the status as JSON.
	Status []byte
	// Sequence is that of the order in the member object. Current: that is the newest order.
	Sequence int64
	Current  bool
	// Replicas and Annotations are those of the newest order.
	Replicas    *int32
	Annotations map[string]string
	// Seen: the object's controller has observed its generation.
	Seen bool
	// ObservedSequence and ObservedSpread are what controllers of Flotilla have read of annotations.
	ObservedSequence int64
	ObservedSpread   string
}

// Usage is what a member object uses, and whether it has carried out the order that it carries.
type Usage struct {
	InUse    []work.SubsetUse
	Answered bool
}

// reflectedStatus is what the hub reads in any reflected status.
type reflectedStatus struct {
	// ResourceTemplateGeneration is the sequence of the order in the object, from its annotation.
	ResourceTemplateGeneration json.Number `json:"resourceTemplateGeneration"`
	// Generation is that of the member object, ObservedGeneration the one that its controller has observed.
	Generation         int64  `json:"generation"`
	ObservedGeneration int64  `json:"observedGeneration"`
	ObservedSequence   int64  `json:"observedSequence"`
	ObservedSpread     string `json:"observedSpread"`
}

// orderIn is what is read of a manifest.
type orderIn struct {
	APIVersion string
	Kind       string
	Metadata   struct{ Annotations map[string]string }
	Spec       struct{ Replicas *int32 }
}

// reflectedReport makes a report of a status that an agent of Karmada reflects, because such an agent writes none; nil
// where the status names no order. It has no time and no number of its own: an agent of Karmada replaces the whole
// status, so the status in the Work is the newest.
//
// An order counts as answered once the member object carries its sequence and its controller has observed that. Before
// that the report answers none, because the status does not say which earlier order was observed.
func (t Table) reflectedReport(w *work.Work) *work.Report {
	if len(w.Status.ManifestStatuses) != 1 || w.Status.ManifestStatuses[0].Status == nil ||
		len(w.Spec.Workload.Manifests) != 1 {
		return nil
	}
	raw := w.Status.ManifestStatuses[0].Status.Raw
	var status reflectedStatus
	var order orderIn
	if json.Unmarshal(raw, &status) != nil || status.ResourceTemplateGeneration == "" ||
		json.Unmarshal(w.Spec.Workload.Manifests[0].Raw, &order) != nil {
		return nil
	}
	sequence, err := strconv.ParseInt(string(status.ResourceTemplateGeneration), 10, 64)
	if err != nil || w.Status.ManifestStatuses[0].Identifier.Kind != order.Kind {
		return nil
	}
	usage := Usage{Answered: status.Generation > 0 && status.ObservedGeneration >= status.Generation}
	if kind := t[schema.FromAPIVersionAndKind(order.APIVersion, order.Kind).GroupKind()]; kind.Reflect != nil {
		usage, err = kind.Reflect(&Reflected{
			Status: raw, Sequence: sequence, Current: sequence == wire.SequenceOf(w), Seen: usage.Answered,
			Replicas: order.Spec.Replicas, Annotations: order.Metadata.Annotations,
			ObservedSequence: status.ObservedSequence, ObservedSpread: status.ObservedSpread,
		})
		if err != nil {
			return nil
		}
	}
	report := &work.Report{HubID: w.Annotations[topology.AnnotationHubID], InUse: usage.InUse}
	if usage.Answered {
		report.Sequence = sequence
	}
	return report
}
