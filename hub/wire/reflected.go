package wire

import (
	"encoding/json"
	"strconv"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
)

// reflected is what the hub reads in the status of an object that an agent of Karmada reflected.
type reflected struct {
	// ResourceTemplateGeneration is the sequence of the order that stands in the object: its annotation, told back.
	ResourceTemplateGeneration json.Number `json:"resourceTemplateGeneration"`
	// Generation is that of the member object, ObservedGeneration the one that its controller has seen.
	Generation         int64 `json:"generation"`
	ObservedGeneration int64 `json:"observedGeneration"`
	// ObservedSequence and ObservedSpread are what controllers of Flotilla say of what travels in annotations.
	ObservedSequence int64  `json:"observedSequence"`
	ObservedSpread   string `json:"observedSpread"`
}

// orderIn is what is read of a manifest.
type orderIn struct {
	Kind     string
	Metadata struct{ Annotations map[string]string }
	Spec     struct{ Replicas *int32 }
}

// reflectedReport makes a report of what an agent of Karmada reflects, which writes none itself; nil where that says nothing of an order.
// It has no time and no number of its own: an agent of Karmada replaces the status as a whole, so the newest is what stands.
//
// An order counts as answered once the object that stands carries its sequence and its controller has seen that. Before that the report
// answers none: which of the orders before it was seen, the status does not say.
func reflectedReport(w *work.Work) *work.Report {
	if len(w.Status.ManifestStatuses) != 1 || w.Status.ManifestStatuses[0].Status == nil || len(w.Spec.Workload.Manifests) != 1 {
		return nil
	}
	raw := w.Status.ManifestStatuses[0].Status.Raw
	var status reflected
	var order orderIn
	if json.Unmarshal(raw, &status) != nil || status.ResourceTemplateGeneration == "" || json.Unmarshal(w.Spec.Workload.Manifests[0].Raw, &order) != nil {
		return nil
	}
	stands, err := strconv.ParseInt(string(status.ResourceTemplateGeneration), 10, 64)
	if err != nil || w.Status.ManifestStatuses[0].Identifier.Kind != order.Kind {
		return nil
	}
	report := &work.Report{HubID: w.Annotations[topology.AnnotationHubID]}
	current := stands == SequenceOf(w)
	switch order.Kind {
	case apps.CloneSetKind.Kind:
		set := apps.CloneSetStatus{}
		if json.Unmarshal(raw, &set) != nil {
			return nil
		}
		desired := set.Replicas
		if current && order.Spec.Replicas != nil {
			desired = *order.Spec.Replicas
		}
		report.InUse = []work.SubsetUse{work.CloneSetUse(desired, &set)}
		if status.seen() && current && status.ObservedSpread == topology.SpreadSeen(order.Metadata.Annotations) {
			report.Sequence = stands
		}
	case apps.UnitedDeploymentKind.Kind:
		united := apps.UnitedDeploymentStatus{}
		if json.Unmarshal(raw, &united) != nil {
			return nil
		}
		report.InUse = work.UnitedDeploymentUse(&united)
		if status.ObservedSequence >= stands {
			report.Sequence = stands
		}
	default:
		if status.seen() {
			report.Sequence = stands
		}
	}
	return report
}

// seen tells whether the object's controller has seen what stands there.
func (r *reflected) seen() bool { return r.Generation > 0 && r.ObservedGeneration >= r.Generation }
