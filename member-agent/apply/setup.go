package apply

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/source"

	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/copies"
	"github.com/flotilla-dev/flotilla/member-agent/objects"
	"github.com/flotilla-dev/flotilla/member-agent/tracing"
)

// Hub is what apply needs of the connection to the hub.
type Hub interface {
	// Work returns the Work as seen last, nil if there is none.
	Work(ctx context.Context, name types.NamespacedName) (*work.Work, error)
	// MayExecute reports whether the hub means this cluster.
	MayExecute(ctx context.Context) bool
	// MayExecuteNew reports whether new orders may be carried out.
	MayExecuteNew(ctx context.Context) bool
	// Orphaned reports an object whose Work disappeared, and the id of the hub in its label. An empty object means that it
	// does not exist any more.
	Orphaned(name types.NamespacedName, object, hubID string)
	// Client writes to the hub.
	Client() client.Client
	// Source wakes a controller for Works.
	Source() source.Source
}

// Options of the controller.
type Options struct {
	Hub      Hub
	Objects  *objects.Store
	Outcomes *Outcomes
	// Copies are the member's own copies of the Works that were carried out.
	Copies *copies.Store
	// Generations is told which generations of the objects are as ordered.
	Generations *Generations
	// Allowed is what is carried out.
	Allowed Allowed
	// Workers is how many Works are carried out at the same time, at least 1.
	Workers int
	Clock   clock.PassiveClock
	// Tracer goes on with the traces that Works carry; nil: nothing is traced.
	Tracer *tracing.Tracer
}

// requestTimeout bounds one reconcile with all its requests: an API server that hangs must not hold the workers.
const requestTimeout = 30 * time.Second

// Setup registers the controller.
func Setup(mgr ctrl.Manager, options Options) error {
	r := &Reconciler{
		Options: options, member: mgr.GetClient(), reader: mgr.GetAPIReader(), events: mgr.GetEventRecorder("flotilla-agent"),
		waiting: newWaiting(), works: map[types.NamespacedName]*memo{},
	}
	c, err := controller.New("apply", mgr, controller.Options{
		Reconciler:              r,
		MaxConcurrentReconciles: max(1, options.Workers),
		ReconciliationTimeout:   requestTimeout,
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](
			100*time.Millisecond, 30*time.Second),
	})
	if err != nil {
		return fmt.Errorf("set up apply: %w", err)
	}
	for _, events := range []source.Source{options.Hub.Source(), options.Objects.Source(),
		r.waiting.source(options.Outcomes)} {
		if err := c.Watch(events); err != nil {
			return fmt.Errorf("set up apply: %w", err)
		}
	}
	return nil
}
