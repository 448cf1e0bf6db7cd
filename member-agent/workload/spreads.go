package workload

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/spread"
)

const (
	// spreadRetry is how often the agent looks for the kind in a cluster without it: as often as controllers look for
	// theirs.
	spreadRetry = 10 * time.Second
	// spreadWait is how long workloads wait for the spreads when the agent starts. A list of thousands takes a
	// second. If it cannot be had at all, pods that start in no subset are better than none.
	spreadWait = 30 * time.Second
)

// Spreads knows the objects that spread the pods of the workloads of one kind (package kernel/spread), whose controller
// gives new pods their subsets. It is a source that the controller waits for. A cluster without the kind of these
// objects has none until it is installed. A spread decides where new pods go, and changes no running pod. If its spec
// changes, its workload is reconciled, because the API server may have refused pods with what the spread adds.
type Spreads struct {
	cache cache.Cache
	kind  schema.GroupVersionKind
	// delay is how long events are gathered before the workload is reconciled.
	delay   time.Duration
	indexer atomic.Pointer[toolscache.Indexer]
	// known is closed when it is known which spreads there are, or that there are none.
	known chan struct{}
	once  sync.Once
}

var _ source.SyncingSource = &Spreads{}

// NewSpreads returns the spreads of the workloads of a kind.
func NewSpreads(c cache.Cache, kind schema.GroupVersionKind, delay time.Duration) *Spreads {
	return &Spreads{cache: c, kind: kind, delay: delay, known: make(chan struct{})}
}

// Start begins to watch.
func (s *Spreads) Start(ctx context.Context, q Queue) error {
	go func() {
		// It ends with the agent, or when the kind is watched.
		_ = wait.PollUntilContextCancel(ctx, spreadRetry, true, func(ctx context.Context) (bool, error) {
			err := s.watch(ctx, q)
			switch {
			case meta.IsNoMatchError(err):
				s.once.Do(func() { close(s.known) })
			case err != nil && ctx.Err() == nil:
				ctrl.LoggerFrom(ctx).Error(err, "pods start in no subset until their spreads can be watched",
					"kind", s.kind.Kind)
			}
			return err == nil, nil
		})
	}()
	return nil
}

// watch returns when all spreads are known and watched.
func (s *Spreads) watch(ctx context.Context, q Queue) error {
	informer, err := s.cache.GetInformer(ctx, &spread.Object{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch spreads: %w", err)
	}
	shared, ok := informer.(toolscache.SharedIndexInformer)
	if !ok {
		return fmt.Errorf("watch spreads: a cache of type %T has no indexes; use one cache for all namespaces",
			informer)
	}
	indexer := shared.GetIndexer()
	if _, ok := indexer.GetIndexers()[s.index()]; !ok {
		if err := shared.AddIndexers(toolscache.Indexers{s.index(): s.byTarget}); err != nil {
			return fmt.Errorf("index spreads by their target: %w", err)
		}
	}
	if _, err := shared.AddEventHandler(s.events(q)); err != nil {
		return fmt.Errorf("watch spreads: %w", err)
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), shared.HasSynced) {
		return ctx.Err()
	}
	s.indexer.Store(&indexer)
	s.once.Do(func() { close(s.known) })
	return nil
}

// WaitForSync waits until it is known which spreads there are, though not forever.
func (s *Spreads) WaitForSync(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, spreadWait)
	defer cancel()
	select {
	case <-s.known:
	case <-ctx.Done():
	}
	return nil
}

// index names the index of spreads by the workload of the kind that they name.
func (s *Spreads) index() string { return "target." + s.kind.GroupKind().String() }

// target returns the workload of the kind that the spread names.
func (s *Spreads) target(ws *spread.Object) (types.NamespacedName, bool) {
	target := spread.TargetOf(ws)
	return types.NamespacedName{Namespace: ws.Namespace, Name: target.Name}, target == spread.Named(s.kind, target.Name)
}

// events enqueue the workloads of spreads that are created or deleted, or get another spec.
func (s *Spreads) events(q Queue) toolscache.ResourceEventHandler {
	look := func(obj any) {
		if gone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		if ws, ok := obj.(*spread.Object); ok {
			if key, ok := s.target(ws); ok {
				q.AddAfter(reconcile.Request{NamespacedName: key}, s.delay)
			}
		}
	}
	return toolscache.ResourceEventHandlerFuncs{AddFunc: look, DeleteFunc: look, UpdateFunc: func(before, after any) {
		old, ok := before.(*spread.Object)
		if ws, is := after.(*spread.Object); !ok || !is || old.Generation != ws.Generation {
			look(after)
		}
	}}
}

func (s *Spreads) byTarget(obj any) ([]string, error) {
	if ws, ok := obj.(*spread.Object); ok {
		if key, ok := s.target(ws); ok {
			return []string{key.String()}, nil
		}
	}
	return nil, nil
}

// Ruling returns the spread that rules the workload of this name, or nil. It must not be changed.
func (s *Spreads) Ruling(_ context.Context, key types.NamespacedName) *spread.Object {
	indexer := s.indexer.Load()
	if indexer == nil {
		return nil
	}
	objs, err := (*indexer).ByIndex(s.index(), key.String())
	if err != nil || len(objs) == 0 { // the index is there
		return nil
	}
	all := make([]*spread.Object, 0, len(objs))
	for _, obj := range objs {
		if ws, ok := obj.(*spread.Object); ok {
			all = append(all, ws)
		}
	}
	return spread.Ruling(all)
}
