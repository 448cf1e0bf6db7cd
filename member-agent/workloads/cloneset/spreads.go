package cloneset

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/spread"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// spreadIndex is the index of WorkloadSpreads by the CloneSet that they name.
const spreadIndex = "cloneset.target"

const (
	// spreadRetry is how often a cluster without the kind is asked for it again: as often as controllers ask for their
	// own.
	spreadRetry = 10 * time.Second
	// spreadWait is how long CloneSets wait for the WorkloadSpreads when the agent starts. A list of thousands takes a
	// second; where it cannot be had at all, pods that start in no subset are better than none.
	spreadWait = 30 * time.Second
)

// spreads knows the WorkloadSpreads of CloneSets. It is a source that CloneSets wait for. A cluster may not have the
// kind; then there are none until it has. A WorkloadSpread decides where new pods go, and changes nothing about those
// that run; its CloneSet is looked at when its spec changes because pods may wait for that: the API server may have
// refused them with what it adds.
type spreads struct {
	cache   cache.Cache
	indexer atomic.Pointer[toolscache.Indexer]
	// known is closed when it is known which WorkloadSpreads there are, or that there are none.
	known chan struct{}
	once  sync.Once
}

var _ source.SyncingSource = &spreads{}

func newSpreads(c cache.Cache) *spreads { return &spreads{cache: c, known: make(chan struct{})} }

// Start begins to watch.
func (s *spreads) Start(ctx context.Context, q workload.Queue) error {
	go func() {
		// It ends with the agent, or when the kind is watched.
		_ = wait.PollUntilContextCancel(ctx, spreadRetry, true, func(ctx context.Context) (bool, error) {
			err := s.watch(ctx, q)
			switch {
			case meta.IsNoMatchError(err):
				s.once.Do(func() { close(s.known) })
			case err != nil && ctx.Err() == nil:
				ctrl.LoggerFrom(ctx).Error(err, "pods of CloneSets start in no subset until WorkloadSpreads can be watched")
			}
			return err == nil, nil
		})
	}()
	return nil
}

// watch returns when all WorkloadSpreads are known and watched.
func (s *spreads) watch(ctx context.Context, q workload.Queue) error {
	informer, err := s.cache.GetInformer(ctx, &v1beta1.WorkloadSpread{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch WorkloadSpreads: %w", err)
	}
	shared, ok := informer.(toolscache.SharedIndexInformer)
	if !ok {
		return fmt.Errorf("watch WorkloadSpreads: a cache of type %T has no indexes; use one cache for all namespaces",
			informer)
	}
	indexer := shared.GetIndexer()
	if _, ok := indexer.GetIndexers()[spreadIndex]; !ok {
		if err := shared.AddIndexers(toolscache.Indexers{spreadIndex: byCloneSet}); err != nil {
			return fmt.Errorf("index WorkloadSpreads by their target: %w", err)
		}
	}
	if _, err := shared.AddEventHandler(spreadEvents(q)); err != nil {
		return fmt.Errorf("watch WorkloadSpreads: %w", err)
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), shared.HasSynced) {
		return ctx.Err()
	}
	s.indexer.Store(&indexer)
	s.once.Do(func() { close(s.known) })
	return nil
}

// WaitForSync waits until it is known which WorkloadSpreads there are, though not forever.
func (s *spreads) WaitForSync(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, spreadWait)
	defer cancel()
	select {
	case <-s.known:
	case <-ctx.Done():
	}
	return nil
}

// spreadEvents puts the CloneSets of WorkloadSpreads that came, went, or have another spec into the queue.
func spreadEvents(q workload.Queue) toolscache.ResourceEventHandler {
	look := func(obj any) {
		if gone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		if ws, ok := obj.(*v1beta1.WorkloadSpread); ok {
			if target := spread.TargetOf(ws); target == spread.Named(v1beta1.CloneSetKind, target.Name) {
				key := types.NamespacedName{Namespace: ws.Namespace, Name: target.Name}
				q.AddAfter(reconcile.Request{NamespacedName: key}, gatherEvents)
			}
		}
	}
	return toolscache.ResourceEventHandlerFuncs{AddFunc: look, DeleteFunc: look, UpdateFunc: func(before, after any) {
		old, ok := before.(*v1beta1.WorkloadSpread)
		if ws, is := after.(*v1beta1.WorkloadSpread); !ok || !is || old.Generation != ws.Generation {
			look(after)
		}
	}}
}

func byCloneSet(obj any) ([]string, error) {
	ws, ok := obj.(*v1beta1.WorkloadSpread)
	if !ok {
		return nil, nil
	}
	target := spread.TargetOf(ws)
	if target != spread.Named(v1beta1.CloneSetKind, target.Name) {
		return nil, nil
	}
	return []string{types.NamespacedName{Namespace: ws.Namespace, Name: target.Name}.String()}, nil
}

// ruling returns the WorkloadSpread that rules the CloneSet of this name, or nil. It must not be changed.
func (s *spreads) ruling(_ context.Context, key types.NamespacedName) *v1beta1.WorkloadSpread {
	indexer := s.indexer.Load()
	if indexer == nil {
		return nil
	}
	objs, err := (*indexer).ByIndex(spreadIndex, key.String())
	if err != nil || len(objs) == 0 { // the index is there
		return nil
	}
	all := make([]*v1beta1.WorkloadSpread, 0, len(objs))
	for _, obj := range objs {
		if ws, ok := obj.(*v1beta1.WorkloadSpread); ok {
			all = append(all, ws)
		}
	}
	return spread.Ruling(all)
}
