package orphans

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/objects"
)

const (
	// settlePause is how long an object is without an order before it is reported. A hub gives its orders within a second
	// or two after a member joined; ten seconds are for one that is busy.
	settlePause = 10 * time.Second
	// listPause is the least time between two rounds of lists: many events are one round.
	listPause = 2 * time.Second
	// listEvery finds objects of kinds that no Work names, of which no watch tells.
	listEvery = 10 * time.Minute
	// sessionAgain is how often it is asked whether the hub has answered: contact can lapse and come back without an
	// event. It costs no request.
	sessionAgain = 30 * time.Second
)

// Reconciler finds orphans. It has one worker.
type Reconciler struct {
	Options
	member client.Reader // without a cache
	mapper meta.RESTMapper

	// Only the worker uses these: when an object was first seen without an order, when the last round of lists began,
	// which kinds may not be listed, and whether this process has reported.
	since    map[key]time.Time
	listed   time.Time
	denied   map[schema.GroupKind]bool
	reported bool

	mu sync.Mutex
	// hubID and known decide whether an event is one that changes the result; known are all orphans, settled or not.
	hubID string
	known map[key]bool
}

// Reconcile makes one round: gather, find, report.
func (r *Reconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	if !r.Hub.MayExecuteNew(ctx) {
		r.reopen()
		return ctrl.Result{RequeueAfter: sessionAgain}, nil
	}
	hubID := r.Hub.HubID(ctx)
	if hubID == "" {
		r.Hub.ReportOrphans(nil) // an older hub does not say which label is its own
		return ctrl.Result{}, nil
	}
	now := r.Clock.Now()
	if wait := r.listed.Add(listPause).Sub(now); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	r.listed = now
	works, found, err := r.find(ctx, hubID)
	if err != nil {
		return ctrl.Result{}, err
	}
	for _, ref := range found {
		if err := r.Objects.Watch(ctx, ref.GroupVersionKind); err != nil { // its end is to be seen at once
			return ctrl.Result{}, fmt.Errorf("watch the orphans of kind %s: %w", ref.Kind, err)
		}
	}
	settled, again := settle(found, r.since, now, settlePause)
	r.remember(hubID, found)
	if again > 0 && !r.reported {
		return ctrl.Result{RequeueAfter: again}, nil // what the agent reported before its start holds until all are settled
	}
	if len(settled) > 0 {
		if current, err := r.Hub.HasAllWorks(ctx, works); err != nil {
			return ctrl.Result{}, err
		} else if !current {
			return ctrl.Result{RequeueAfter: listPause}, nil
		}
	}
	r.report(ctx, settled)
	if again == 0 {
		again = listEvery
	}
	return ctrl.Result{RequeueAfter: again}, nil
}

// report names the orphans to the hub, and logs them if they changed.
func (r *Reconciler) report(ctx context.Context, orphans []objects.Ref) {
	names := make([]string, len(orphans))
	for i, ref := range orphans {
		names[i] = ref.Qualified()
	}
	r.reported = true
	if r.Hub.ReportOrphans(names) && len(names) > 0 {
		ctrl.LoggerFrom(ctx).Info("Objects carry the label of the hub and have no order; they stay as they are. "+
			"Adopt or delete them, or remove the label", "label", topology.LabelHub, "count", len(names), "first", names[0])
	}
}

// reopen begins the pause anew for what is not settled: the orders of the next session are others.
func (r *Reconciler) reopen() {
	now := r.Clock.Now()
	maps.DeleteFunc(r.since, func(_ key, first time.Time) bool { return now.Sub(first) < settlePause })
}

func (r *Reconciler) remember(hubID string, found []objects.Ref) {
	known := make(map[key]bool, len(found))
	for _, ref := range found {
		known[keyOf(ref)] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hubID, r.known = hubID, known
}

// changes reports whether an event of an object that no Work names changes which orphans there are.
func (r *Reconciler) changes(ref objects.Ref, object metav1.Object, gone bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return (!gone && needsOrder(object, r.hubID)) != r.known[keyOf(ref)]
}

// any reports whether an orphan is known, which a new Work may name.
func (r *Reconciler) any() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.known) > 0
}
