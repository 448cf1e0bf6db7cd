package apply

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
)

// look tells the hub what stands where it is to adopt. Nothing tells when an object without a mark changes, so it is
// looked at again after a while.
func (r *Reconciler) look(w *work.Work, m *memo, live *unstructured.Unstructured) ctrl.Result {
	message := fmt.Sprintf("%s does not stand in the member; the hub is told", m.order.Ref)
	switch {
	case live != nil && m.order.Adopt == topology.AdoptLook:
		message = fmt.Sprintf("%s stands in the member; the hub is told what it has, and nothing is changed until it answers", m.order.Ref)
	case live != nil:
		message = fmt.Sprintf("%s stands in the member with other replicas than the hub knows of; the hub is told, and nothing is changed until it answers", m.order.Ref)
	}
	r.Outcomes.set(client.ObjectKeyFromObject(w), Outcome{
		WorkUID: w.UID, Generation: w.Generation,
		Ref: m.order.Ref, HubID: m.order.HubID, Sequence: m.order.Sequence,
		Reason: work.ReasonAdopting, Message: message, Found: live, At: r.Clock.Now(),
	})
	return ctrl.Result{RequeueAfter: conflictAgain}
}

// sameContent tells whether an object that is copied whole holds all that the order says, so that adopting it changes
// nothing but marks: what pods read must not change under them, nor what they are made from. For the workloads that a hub divides it
// asked before what stands.
func sameContent(live, desired *unstructured.Unstructured) bool {
	if _, scales, err := unstructured.NestedFieldNoCopy(desired.Object, "spec", "replicas"); err != nil || scales && desired.GroupVersionKind().Group == apps.GroupVersion.Group {
		return true
	}
	for field, want := range desired.Object {
		switch field {
		case "apiVersion", "kind", "metadata":
		default:
			if !contains(live.Object[field], want) {
				return false
			}
		}
	}
	return true
}

// contains tells whether a value has all that another one says; lists are of one length.
func contains(have, want any) bool {
	switch w := want.(type) {
	case map[string]any:
		h, _ := have.(map[string]any)
		for key, value := range w {
			if !contains(h[key], value) {
				return false
			}
		}
		return true
	case []any:
		h, _ := have.([]any)
		if len(h) != len(w) {
			return false
		}
		for i := range w {
			if !contains(h[i], w[i]) {
				return false
			}
		}
		return true
	case float64: // as JSON has it; a client reads whole numbers as such
		n, whole := have.(int64)
		return whole && float64(n) == w || have == want
	}
	return have == want
}

// letGoNote is the value of topology.AnnotationLetGo for an object that is let go; nil where the Work tells no strategy.
func letGoNote(w *work.Work, live *unstructured.Unstructured) (any, error) {
	users := w.Annotations[topology.AnnotationStrategy]
	if users == "" || !json.Valid([]byte(users)) {
		return nil, nil
	}
	lent, _, err := unstructured.NestedFieldNoCopy(live.Object, "spec", "updateStrategy")
	if err != nil {
		return nil, nil // no object of a kind that is lent anything
	}
	data, err := json.Marshal(lent)
	if err == nil {
		data, err = json.Marshal(topology.LetGo{Users: json.RawMessage(users), Lent: data})
	}
	if err != nil {
		return nil, fmt.Errorf("note the update strategy of %s/%s: %w", live.GetNamespace(), live.GetName(), err)
	}
	return string(data), nil
}
