package apply

import (
	"context"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
)

// Reconciler carries out Works. Each Work has one worker at a time.
type Reconciler struct {
	Options
	member client.Client
	reader client.Reader // without a cache

	waiting *waiting

	mu    sync.Mutex
	works map[types.NamespacedName]*memo
}

// Reconcile looks at one Work: gather, decide, carry out.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	w, err := r.Hub.Work(ctx, req.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !r.Hub.MayExecute(ctx) {
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
		// It was seen terminating, and went before the object: the order to delete stands.
	}
	m := r.recall(req.NamespacedName, w)
	r.Hub.Orphaned(req.NamespacedName, "", "")
	if m.orderErr == nil {
		if why := r.Allowed.refuses(m.order); why != "" {
			return ctrl.Result{}, r.refuse(ctx, w, m, why)
		}
	}
	if !r.Copies.Holds(w) && !r.Hub.MayExecuteNew(ctx) {
		return ctrl.Result{RequeueAfter: holdAgain}, r.hold(ctx, w, m) // all Works come again when the hub has answered
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

// unreadable tells of a Work that says nothing that could be done; one that is to go is let go.
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

// outcome stores how an attempt ended.
func (r *Reconciler) outcome(w *work.Work, m *memo, applied bool, reason, message string) {
	r.Outcomes.set(client.ObjectKeyFromObject(w), Outcome{
		WorkUID: w.UID, Generation: w.Generation,
		Ref: m.order.Ref, HubID: m.order.HubID, Sequence: m.order.Sequence,
		RescheduleAfter: w.Annotations[topology.AnnotationRescheduleAfter],
		Applied:         applied, Reason: reason, Message: message, At: r.Clock.Now(),
	})
}

func logger(ctx context.Context, m *memo) logr.Logger {
	return ctrl.LoggerFrom(ctx).WithValues("object", m.order.Ref.String(), "sequence", m.order.Sequence)
}
