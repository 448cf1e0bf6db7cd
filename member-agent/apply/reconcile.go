package apply

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
)

// holdAgain is how often a held order is tried again: contact can lapse and return between two checks of the session,
// which sends no event. It costs no request.
const holdAgain = 5 * time.Second

// Reconciler carries out Works. Each Work has one worker at a time.
type Reconciler struct {
	Options
	member client.Client
	reader client.Reader // without a cache
	events events.EventRecorder

	waiting *waiting

	mu    sync.Mutex
	works map[types.NamespacedName]*memo
}

// Reconcile carries out one Work: gather, decide, execute.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	w, err := r.Hub.Work(ctx, req.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !r.Hub.MayExecute(ctx) {
		r.uncorrected(req.NamespacedName)
		return ctrl.Result{}, nil // all Works come again when it changes
	}
	if w == nil {
		if w = r.Copies.Work(req.NamespacedName); w == nil {
			r.forget(req.NamespacedName)
			return ctrl.Result{}, nil
		}
		if w.DeletionTimestamp.IsZero() {
			return ctrl.Result{}, r.orphan(ctx, w)
		}
		// The Work was seen terminating, and is gone before its object: the order to delete still holds.
	}
	m := r.recall(req.NamespacedName, w)
	r.Hub.Orphaned(req.NamespacedName, "", "")
	if m.orderErr == nil {
		if why := r.Allowed.refuses(m.order); why != "" {
			return ctrl.Result{}, r.refuse(ctx, w, m, why)
		}
	}
	if !r.Copies.Holds(w) && !r.Hub.MayExecuteNew(ctx) {
		return r.hold(ctx, w, m)
	}
	if m.orderErr != nil {
		return ctrl.Result{}, r.unreadable(ctx, w, m)
	}
	facts, err := r.gather(ctx, w, m)
	if err != nil {
		return r.failed(w, m, err), nil
	}
	return r.carryOut(ctx, w, m, facts)
}

// hold postpones a new order while the hub has not answered the session. The object is reported as it is. All Works are
// reconciled again when the hub has answered.
func (r *Reconciler) hold(ctx context.Context, w *work.Work, m *memo) (ctrl.Result, error) {
	name := client.ObjectKeyFromObject(w)
	r.Outcomes.set(name, heldOutcome(w, m, r.Clock.Now()))
	if m.order == nil {
		return ctrl.Result{RequeueAfter: holdAgain}, nil
	}
	r.Generations.forget(m.order.Ref) // nothing is corrected meanwhile
	err := r.Objects.Bind(ctx, name, m.order.Ref)
	if err != nil && !meta.IsNoMatchError(err) { // a kind that is not served has no objects
		return ctrl.Result{}, err
	}
	m.bound = err == nil
	return ctrl.Result{RequeueAfter: holdAgain}, nil
}

// orphan handles a Work that disappeared without a deletion timestamp. Its object stays as it is, and is named to the
// hub until a user deletes it or removes the hub's label.
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

// unreadable stores the outcome of a Work whose manifest cannot be read, or finishes one that is being deleted.
func (r *Reconciler) unreadable(ctx context.Context, w *work.Work, m *memo) error {
	if !w.DeletionTimestamp.IsZero() {
		return r.finish(ctx, w)
	}
	r.Outcomes.set(client.ObjectKeyFromObject(w), Outcome{
		WorkUID: w.UID, Generation: w.Generation, HubID: m.hubID,
		Reason: work.ReasonApplyFailed, Message: m.orderErr.Error(), At: r.Clock.Now(),
	})
	return nil
}

// uncorrected lets workload controllers act on what other writers change in the object of a Work.
func (r *Reconciler) uncorrected(name types.NamespacedName) {
	r.mu.Lock()
	m := r.works[name]
	r.mu.Unlock()
	if m != nil && m.order != nil {
		r.Generations.forget(m.order.Ref)
	}
}

func logger(ctx context.Context, m *memo) logr.Logger {
	return ctrl.LoggerFrom(ctx).WithValues("object", m.order.Ref.String(), "sequence", m.order.Sequence)
}
