package apply

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/ownership"
)

// look reports the object that the hub wants to adopt, and changes nothing. An object without the hub's label sends no
// events, so it is read again after a while.
func (r *Reconciler) look(w *work.Work, m *memo, live *unstructured.Unstructured) ctrl.Result {
	message := fmt.Sprintf("%s does not stand in the member; the hub is told", m.order.Ref)
	switch {
	case live != nil && m.order.Adopt == topology.AdoptLook:
		message = fmt.Sprintf("%s stands in the member; the hub is told what it has, "+
			"and nothing is changed until it answers", m.order.Ref)
	case live != nil:
		message = fmt.Sprintf("%s stands in the member with other replicas than the hub knows of; "+
			"the hub is told, and nothing is changed until it answers", m.order.Ref)
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

// adoptionChanges asks the API server what adopting an object would change in it. It returns a sentence, empty for no
// change. An object that is copied whole must not change: running pods read it, or are created from it. Workloads that
// the hub divides were compared before, by flotilla adopt.
func (r *Reconciler) adoptionChanges(ctx context.Context, m *memo, live *unstructured.Unstructured) (string, error) {
	if divided(m.order.Desired) {
		return "", nil
	}
	next, err := r.replace(ctx, m, live, client.DryRunAll)
	if err != nil {
		return "", err
	}
	before, err := ownership.Digest(live, m.order.Desired)
	if err != nil {
		return "", err
	}
	after, err := ownership.Digest(next, m.order.Desired)
	if err != nil || before == after {
		return "", err
	}
	changes, err := ownership.Changes(next, live, m.order.Desired)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s stands in the member with other content than ordered, so it is not adopted: %s; "+
		"make them equal, or delete it there", m.order.Ref, ownership.Sentence(changes)), nil
}
