package report

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	ctrl "sigs.k8s.io/controller-runtime"

	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/apply"
)

// Reconciler reports on Works. Each Work has one worker at a time.
type Reconciler struct {
	Options
	epoch   int64
	counter atomic.Int64

	mu    sync.Mutex
	works map[types.NamespacedName]*memo
}

// memo is what is kept of a Work between two reports. Only the Work's worker uses its fields.
type memo struct {
	uid     types.UID
	sentAt  time.Time
	version string // of the Work, after our last report
	status  work.WorkStatus
	// order that the last report answered, as generation of the Work and sequence.
	generation, sequence int64
}

// Reconcile reports on one Work: gather, build, and send if there is news and its time has come.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	w, err := r.Hub.Work(ctx, req.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	outcome, known := r.Outcomes.Get(req.NamespacedName)
	if w == nil {
		r.forget(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	if !known || outcome.WorkUID != w.UID || !w.DeletionTimestamp.IsZero() || !r.Hub.MayExecute(ctx) {
		return ctrl.Result{}, nil // nothing to say yet, or no more
	}
	var live *unstructured.Unstructured
	if outcome.Ref.Kind != "" {
		if live, err = r.Objects.Get(ctx, outcome.Ref); err != nil {
			return ctrl.Result{}, err
		}
	}
	if outcome.Applied && (live == nil || live.GetDeletionTimestamp() != nil) {
		return ctrl.Result{}, nil // not seen yet, or being made again: its event comes
	}
	m := r.recall(req.NamespacedName, w)
	now := r.Clock.Now()
	status, err := Build(m.status, outcome, live, metav1.NewTime(now))
	if err != nil {
		return ctrl.Result{}, err
	}
	if Same(m.status, status) {
		return ctrl.Result{}, nil
	}
	wait := pause(moment{
		now: now, sent: m.sentAt, since: outcome.At,
		fresh:   outcome.Applied && (m.generation != outcome.Generation || m.sequence != outcome.Sequence),
		settled: live != nil && apply.CarriedOut(live) >= outcome.Sequence && Observed(live) && complete(status.Report),
	})
	if wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	return ctrl.Result{}, r.send(ctx, w, m, outcome, status)
}

func (r *Reconciler) forget(name types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.works, name)
}

// recall returns what is kept of the Work. Its status is the Work's own, unless the cache has not seen our last report.
func (r *Reconciler) recall(name types.NamespacedName, w *work.Work) *memo {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.works[name]
	if m == nil || m.uid != w.UID {
		m = &memo{uid: w.UID}
		r.works[name] = m
	}
	if order, err := resourceversion.CompareResourceVersion(w.ResourceVersion, m.version); m.version == "" || err != nil || order >= 0 {
		m.status = w.Status
	}
	return m
}
