package workloadspread

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/freshness"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/write"
)

// Options of the controller.
type Options struct {
	// Workers is how many WorkloadSpreads are worked on side by side; 0 means 4: most passes write nothing.
	Workers int
	// Clock tells the time; nil means the real one.
	Clock clock.PassiveClock
	// Federated tells whether a hub owns the workloads of a namespace; the controller does nothing there. Nil: nowhere.
	Federated func(ctx context.Context, namespace string) (bool, error)
}

const defaultWorkers = 4

// backoff between failed passes grows from the first to the second.
const (
	firstBackoff = 50 * time.Millisecond
	lastBackoff  = 30 * time.Second
)

// Setup adds the controller of WorkloadSpreads to the manager, whose scheme must know apps.kruise.io/v1beta1, apps/v1, batch/v1 and
// core/v1. It registers indexes and reads nothing.
func Setup(ctx context.Context, mgr ctrl.Manager, opts Options) error {
	if opts.Workers <= 0 {
		opts.Workers = defaultWorkers
	}
	if opts.Clock == nil {
		opts.Clock = clock.RealClock{}
	}
	source, err := podset.NewSource(ctx, mgr.GetCache())
	if err != nil {
		return fmt.Errorf("set up WorkloadSpreads: %w", err)
	}
	if err := indexReplicaSets(ctx, mgr.GetFieldIndexer()); err != nil {
		return fmt.Errorf("set up WorkloadSpreads: %w", err)
	}
	r := &reconciler{
		client:    mgr.GetClient(),
		live:      mgr.GetAPIReader(),
		events:    mgr.GetEventRecorder("flotilla-workloadspread"),
		clock:     opts.Clock,
		federated: opts.Federated,
		source:    source,
		writer:    &write.Writer{Client: mgr.GetClient(), Fresh: freshness.NewStore(opts.Clock)},
		self:      freshness.NewStore(opts.Clock),
		registry:  newRegistry(),
		numbers:   newNumbers(),
		pace:      &pace{},
	}
	asked := builder.WithPredicates(predicate.GenerationChangedPredicate{}) // the status of a target says nothing here
	newest := builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))
	deployment, set := appsv1.SchemeGroupVersion.WithKind("Deployment"), appsv1.SchemeGroupVersion.WithKind("StatefulSet")
	b := ctrl.NewControllerManagedBy(mgr).
		Named("workloadspread").
		Watches(&v1beta1.WorkloadSpread{}, spreadEvents{r.registry}).
		Watches(&corev1.Pod{}, podEvents{mgr.GetClient(), r.registry}).
		Watches(&v1beta1.CloneSet{}, r.workloadEvents(v1beta1.CloneSetKind), asked).
		Watches(&appsv1.Deployment{}, r.workloadEvents(deployment), asked).
		Watches(&appsv1.StatefulSet{}, r.workloadEvents(set), asked).
		WatchesMetadata(&appsv1.ReplicaSet{}, r.workloadEvents(replicaSetGVK), newest).
		WatchesMetadata(&batchv1.Job{}, r.workloadEvents(batchv1.SchemeGroupVersion.WithKind("Job")), asked).
		// Nodes bring no pass; their labels are to be in the cache when a pod's event comes.
		WatchesMetadata(&corev1.Node{}, handler.Funcs{}).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: opts.Workers,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstBackoff, lastBackoff),
		})
	if opts.Federated != nil {
		b = b.WatchesMetadata(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.inNamespace), builder.WithPredicates(predicate.LabelChangedPredicate{}))
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("set up WorkloadSpreads: %w", err)
	}
	return nil
}
