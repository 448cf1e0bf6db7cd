package orphans

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/source"

	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/copies"
	"github.com/flotilla-dev/flotilla/member-agent/objects"
)

// Hub is what orphans need of the connection to the hub.
type Hub interface {
	// HubID returns the id of the hub, empty if the hub has not written it.
	HubID(ctx context.Context) string
	// MayExecuteNew reports whether the hub has answered the session: then its Works were listed completely.
	MayExecuteNew(ctx context.Context) bool
	// Works returns the Works as seen last, which the caller must not change.
	Works(ctx context.Context) ([]work.Work, error)
	// HasAllWorks asks the hub whether these are all Works that it has now.
	HasAllWorks(ctx context.Context, works []work.Work) (bool, error)
	// ReportOrphans takes the names of all orphans, and returns whether they changed.
	ReportOrphans(names []string) bool
	// OnOrders calls changed when a Work came, and when orders may have ended without an event of their objects: vanished
	// is true then.
	OnOrders(ctx context.Context, changed func(vanished bool)) error
}

// Options of the controller.
type Options struct {
	Hub     Hub
	Objects *objects.Store
	Copies  *copies.Store
	// Kinds that are looked at: those that the hub may bring.
	Kinds []schema.GroupKind
	Clock clock.PassiveClock
}

// roundTimeout bounds one round with all its lists.
const roundTimeout = time.Minute

// Setup registers the controller.
func Setup(mgr ctrl.Manager, options Options) error {
	r := &Reconciler{
		Options: options, member: mgr.GetAPIReader(), mapper: mgr.GetRESTMapper(),
		since: map[key]time.Time{}, denied: map[schema.GroupKind]bool{}, known: map[key]bool{},
	}
	c, err := controller.New("orphans", mgr, controller.Options{
		Reconciler: r, MaxConcurrentReconciles: 1, ReconciliationTimeout: roundTimeout,
	})
	if err != nil {
		return fmt.Errorf("set up orphans: %w", err)
	}
	if err := c.Watch(source.Func(r.start)); err != nil {
		return fmt.Errorf("set up orphans: %w", err)
	}
	return nil
}

// start wakes the controller for all that may change which orphans there are.
func (r *Reconciler) start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
	const soon = 500 * time.Millisecond // many events are one round
	wake := func() { queue.AddAfter(ctrl.Request{}, soon) }
	r.Objects.OnUnordered(func(ref objects.Ref, object metav1.Object, gone bool) {
		if r.changes(ref, object, gone) {
			wake()
		}
	})
	err := r.Hub.OnOrders(ctx, func(vanished bool) {
		if vanished || r.any() {
			wake()
		}
	})
	if err != nil {
		return fmt.Errorf("watch the orders of the hub: %w", err)
	}
	wake()
	return nil
}
