package karmada

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/objects"
	"github.com/flotilla-dev/flotilla/member-agent/report"
)

const (
	// requestTimeout bounds one look at a Work with all its requests: an API server that hangs must not hold the workers.
	requestTimeout = 30 * time.Second
	// retryFirst doubles with each error up to retryMost.
	retryFirst = 100 * time.Millisecond
	retryMost  = 30 * time.Second
)

// Options of the controller.
type Options struct {
	// Hub reaches the API server of Karmada.
	Hub *rest.Config
	// ClusterName is the name of this member's Cluster there.
	ClusterName string
	// Workers is how many Works are carried out at the same time, at least 1.
	Workers int
	// Kinds are those whose reports say more than others.
	Kinds report.Kinds
	Clock clock.PassiveClock
}

// Reconciler carries out one Work at a time.
type Reconciler struct {
	works  client.Reader // the cache of the hub
	hub    client.Client
	member client.Client
	// live reads past caches what stands in the member.
	live  client.Reader
	store *objects.Store
	clock clock.PassiveClock
	kinds report.Kinds

	mu   sync.Mutex
	sent map[types.NamespacedName]sent
}

// Setup registers the controller. It asks nothing of the hub.
func Setup(mgr ctrl.Manager, o Options) error {
	scheme := runtime.NewScheme()
	if err := work.AddToScheme(scheme); err != nil {
		return fmt.Errorf("build the scheme of Karmada's hub: %w", err)
	}
	store, err := objects.New(mgr.GetConfig(), mgr.GetRESTMapper(), LabelManaged)
	if err != nil {
		return fmt.Errorf("set up the store of member objects: %w", err)
	}
	works, err := cache.New(o.Hub, cache.Options{
		Scheme: scheme, DefaultNamespaces: map[string]cache.Config{work.NamespacePrefix + o.ClusterName: {}},
		DefaultTransform: cache.TransformStripManagedFields(),
	})
	if err != nil {
		return fmt.Errorf("set up the cache of Karmada's hub: %w", err)
	}
	hub, err := client.New(o.Hub, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("set up the client of Karmada's hub: %w", err)
	}
	for _, runnable := range []manager.Runnable{store, works} {
		if err := mgr.Add(runnable); err != nil {
			return fmt.Errorf("add to the manager: %w", err)
		}
	}
	r := &Reconciler{
		works:  works,
		hub:    hub,
		member: mgr.GetClient(),
		live:   mgr.GetAPIReader(),
		store:  store,
		clock:  o.Clock,
		kinds:  o.Kinds,
		sent:   map[types.NamespacedName]sent{},
	}
	c, err := controller.New("karmada", mgr, controller.Options{
		Reconciler: r, MaxConcurrentReconciles: max(1, o.Workers), ReconciliationTimeout: requestTimeout,
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](retryFirst, retryMost),
	})
	if err != nil {
		return fmt.Errorf("set up karmada: %w", err)
	}
	byName := handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, w *work.Work) []ctrl.Request {
		return []ctrl.Request{{NamespacedName: client.ObjectKeyFromObject(w)}}
	})
	for _, events := range []source.Source{source.Kind(works, &work.Work{}, byName), store.Source()} {
		if err := c.Watch(events); err != nil {
			return fmt.Errorf("set up karmada: %w", err)
		}
	}
	return nil
}
