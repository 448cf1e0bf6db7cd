package apply

import (
	"context"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
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
	events events.EventRecorder

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

// uncorrected says that what others write into the object of a Work stays for now.
func (r *Reconciler) uncorrected(name types.NamespacedName) {
	r.mu.Lock()
	m := r.works[name]
	r.mu.Unlock()
	if m != nil && m.order != nil {
		r.Generations.forget(m.order.Ref)
	}
}

// applied stores that the object is as ordered, unless somebody contests that.
func (r *Reconciler) applied(w *work.Work, m *memo) {
	if m.contest.active(r.Clock.Now()) {
		r.outcome(w, m, false, work.ReasonOverwritten, m.contest.message)
		return
	}
	r.outcome(w, m, true, work.ReasonApplied, appliedMessageOf(m))
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
