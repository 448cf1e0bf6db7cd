package report

import (
	"context"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/apply"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
)

// Reconciler reports on Works. Each Work has one worker at a time.
type Reconciler struct {
	Options
	epoch   int64
	counter atomic.Int64

	mu    sync.Mutex
	works map[types.NamespacedName]*memo
}

// Reconcile reports on one Work, if the hub listens and there is something to say.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if r.Hub.Round() == 0 || !r.Hub.MayExecute(ctx) {
		return ctrl.Result{}, nil // the hub does not listen; all Works come again when it does
	}
	w, err := r.Hub.Work(ctx, req.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	outcome, known := r.Outcomes.Get(req.NamespacedName)
	switch {
	case w == nil:
		r.forget(req.NamespacedName)
		r.Hub.Reported(req.NamespacedName)
		return ctrl.Result{}, nil
	case !known || outcome.WorkUID != w.UID:
		return ctrl.Result{}, nil // nothing to say yet
	case !w.DeletionTimestamp.IsZero() && !outcome.Held && outcome.Reason != work.ReasonDeleting:
		r.Hub.Reported(req.NamespacedName)
		return ctrl.Result{}, nil // nothing to say any more
	}
	return r.tell(ctx, w, outcome)
}

// tell sends the report on a Work if the hub does not have it yet, and its time has come.
func (r *Reconciler) tell(ctx context.Context, w *work.Work, outcome apply.Outcome) (ctrl.Result, error) {
	name := client.ObjectKeyFromObject(w)
	var live *unstructured.Unstructured
	if outcome.Ref.Kind != "" {
		var err error
		if live, err = r.Objects.Get(ctx, outcome.Ref); err != nil {
			return ctrl.Result{}, err
		}
	}
	if eventFollows(outcome, live) {
		return ctrl.Result{}, nil
	}
	m := r.recall(name, w)
	now := r.Clock.Now()
	status, err := r.Kinds.Build(m.status, outcome, live, metav1.NewTime(now))
	if err != nil {
		return ctrl.Result{}, err
	}
	next, err := r.addPods(ctx, w, live, m.status.Report, status.Report)
	if err != nil {
		return ctrl.Result{}, err
	}
	m.keepsRestarts(&status, r.Hub.Round())
	if m.unkept == r.Hub.Round() {
		status.Report.NotReady = nil // it is an earlier version
	}
	held := m.holdReasons(status, now)
	if held > 0 || m.knows(outcome, status) {
		r.Hub.Reported(name)
		return ctrl.Result{RequeueAfter: podstate.Sooner(held, next)}, nil
	}
	done := r.Kinds.settled(live, outcome, status)
	wait := pause(moment{
		now: now, sent: m.sentAt, since: outcome.At,
		fresh:   outcome.Applied && (m.generation != outcome.Generation || m.sequence != outcome.Sequence),
		settled: done,
		awaited: awaits(m.status, status, m.finished),
	})
	if wait > 0 {
		return ctrl.Result{RequeueAfter: podstate.Sooner(wait, next)}, nil
	}
	changed := m.lacksReasons(status)
	if err := r.sendTraced(ctx, w, m, outcome, status); err != nil {
		return ctrl.Result{}, err
	}
	m.sentReasons(changed, status, now, r.Hub.Round())
	if done {
		m.settled = outcome.Sequence
	}
	r.Hub.Reported(name)
	return ctrl.Result{RequeueAfter: next}, nil
}

// eventFollows reports whether an applied object is not in the cache yet, or is deleted to be created again.
func eventFollows(outcome apply.Outcome, live *unstructured.Unstructured) bool {
	return outcome.Applied && !outcome.Kept && (live == nil || live.GetDeletionTimestamp() != nil)
}
