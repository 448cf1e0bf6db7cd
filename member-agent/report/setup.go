package report

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/apply"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/restarts"
	"github.com/flotilla-dev/flotilla/member-agent/objects"
	"github.com/flotilla-dev/flotilla/member-agent/tracing"
)

// Hub is what report needs of the connection to the hub.
type Hub interface {
	// Work returns the Work as seen last, nil if there is none.
	Work(ctx context.Context, name types.NamespacedName) (*work.Work, error)
	// MayExecute reports whether the hub means this cluster.
	MayExecute(ctx context.Context) bool
	// Round counts the sessions of this process, 0 before the hub was heard.
	Round() int64
	// Rounds wakes a controller for every Work when a session begins.
	Rounds() source.Source
	// Reported tells that the hub knows what stands for a Work.
	Reported(name types.NamespacedName)
	// Client writes to the hub.
	Client() client.Client
}

// Options of the controller.
type Options struct {
	Hub      Hub
	Objects  *objects.Store
	Outcomes *apply.Outcomes
	// Kinds are those whose replicas the hub divides.
	Kinds Kinds
	// Pods reads the member's pods and what controls them; Setup fills it.
	Pods client.Reader
	// Workers is how many reports are under way at the same time, at least 1.
	Workers int
	Clock   clock.PassiveClock
	// MemberClock is the time by which the ages of pods are counted; nil: Clock.
	MemberClock clock.PassiveClock
	// Tracer goes on with the traces that Works carry; nil: nothing is traced.
	Tracer *tracing.Tracer
	// Refusals are the pods that may not restart in place now; nil: there are none.
	Refusals *restarts.Refusals
}

// Setup registers the controller, and its index of pods with the manager's cache, which Options.Pods becomes. The epoch
// of its reports is the time of this call.
func Setup(ctx context.Context, mgr ctrl.Manager, options Options) error {
	options.Pods = mgr.GetClient()
	if options.MemberClock == nil {
		options.MemberClock = options.Clock
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &corev1.Pod{}, unschedulableIndex, indexUnschedulable); err != nil {
		return fmt.Errorf("index pods without a node: %w", err)
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &corev1.Pod{}, markedIndex, indexMarked); err != nil {
		return fmt.Errorf("index pods that probes marked: %w", err)
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &corev1.Pod{}, failingIndex, indexFailing); err != nil {
		return fmt.Errorf("index pods that are not Ready: %w", err)
	}
	r := &Reconciler{Options: options, epoch: options.Clock.Now().UnixNano(), works: map[types.NamespacedName]*memo{}}
	c, err := controller.New("report", mgr, controller.Options{
		Reconciler:              r,
		MaxConcurrentReconciles: max(1, options.Workers),
		// A hub that is away is tried again within 5 s of its return.
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](100*time.Millisecond, 5*time.Second),
	})
	if err != nil {
		return fmt.Errorf("set up report: %w", err)
	}
	waiting := source.Kind[client.Object](mgr.GetCache(), &corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.worksOf),
		unschedulableChanged())
	values := source.Kind[client.Object](mgr.GetCache(), &corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.askedAbout),
		valuesChanged())
	marked := source.Kind[client.Object](mgr.GetCache(), &corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.worksOf),
		statesChanged())
	failing := source.Kind[client.Object](mgr.GetCache(), &corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.worksOf),
		reasonsChanged())
	for _, events := range []source.Source{options.Outcomes.Source(), options.Objects.Source(), options.Hub.Rounds(),
		waiting, values, marked, failing} {
		if err := c.Watch(events); err != nil {
			return fmt.Errorf("set up report: %w", err)
		}
	}
	return nil
}
