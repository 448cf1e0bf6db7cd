package apply

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
)

// holdAgain is how often a held order is looked at: contact can lapse and come back within one look at the session, which wakes
// nobody. It costs no request.
const holdAgain = 5 * time.Second

// hold leaves an order that is new while the hub has not answered the session, and lets the report tell what stands.
func (r *Reconciler) hold(ctx context.Context, w *work.Work, m *memo) error {
	if m.order != nil {
		r.Generations.forget(m.order.Ref) // nothing is corrected meanwhile
		// A kind that is not served has no object that could stand.
		if err := r.Objects.Bind(ctx, client.ObjectKeyFromObject(w), m.order.Ref); err == nil {
			m.bound = true
		}
	}
	r.Outcomes.set(client.ObjectKeyFromObject(w), heldOutcome(w, m, r.Clock.Now()))
	return nil
}

// heldOutcome is that of an order about which nothing was done.
func heldOutcome(w *work.Work, m *memo, now time.Time) Outcome {
	outcome := Outcome{WorkUID: w.UID, Generation: w.Generation, HubID: m.hubID, Held: true, At: now}
	if m.order != nil {
		outcome.Ref, outcome.Sequence = m.order.Ref, m.order.Sequence
	}
	return outcome
}

// orphan looks at the object of a Work that vanished without having been deleted: the object stays as it is, and is named to
// the hub until somebody deletes it or takes the hub's mark off it.
func (r *Reconciler) orphan(ctx context.Context, w *work.Work) error {
	name := client.ObjectKeyFromObject(w)
	m := r.recall(name, w)
	r.uncorrected(name)
	if m.orderErr == nil {
		facts, err := r.gather(ctx, w, m)
		if err != nil {
			return err
		}
		if facts.Live != nil && Owner(facts.Live) == m.order.HubID {
			r.Outcomes.drop(name)
			r.Hub.Orphaned(name, m.order.Ref.Qualified(), m.order.HubID)
			return nil
		}
	}
	r.Hub.Orphaned(name, "", "")
	if err := r.Copies.Drop(ctx, name); err != nil {
		return err
	}
	r.forget(name)
	return nil
}
