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

// divided reports whether a hub divides the replicas of an object over members.
func divided(desired *unstructured.Unstructured) bool {
	_, scales, err := unstructured.NestedFieldNoCopy(desired.Object, "spec", "replicas")
	return err != nil || scales && desired.GroupVersionKind().Group == apps.GroupVersion.Group
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
