package store

import (
	"fmt"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// Watching watches the copied kinds from the moment on that somebody needs them: a hub without policies for ConfigMaps
// and without workloads that name one never lists ConfigMaps. It is safe for concurrent use.
type Watching struct {
	watchers []watcher
	// starting is held while controllers take up a watch, which can wait for a controller that starts itself; mu never is.
	starting sync.Mutex
	mu       sync.Mutex
	started  map[string]bool
}

// watcher is a controller, and what it wants to hear of a kind.
type watcher struct {
	watch  func(source.TypedSource[wire.Key]) error
	source func(rule kinds.Kind) source.TypedSource[wire.Key]
}

// NewWatching returns a store without watches.
func NewWatching() *Watching { return &Watching{started: map[string]bool{}} }

// Add has a controller hear of every copied kind that is started later. It is called before the first Start.
func (w *Watching) Add(
	watch func(source.TypedSource[wire.Key]) error,
	of func(rule kinds.Kind) source.TypedSource[wire.Key],
) {
	w.watchers = append(w.watchers, watcher{watch, of})
}

// Start sees to it that a copied kind is watched; a nil Watching watches nothing. It returns at once; a reader of the
// cache waits for the first list.
func (w *Watching) Start(rule kinds.Kind) error {
	if w == nil || w.Watched(rule) {
		return nil
	}
	w.starting.Lock()
	defer w.starting.Unlock()
	if w.Watched(rule) {
		return nil
	}
	for _, one := range w.watchers {
		if err := one.watch(one.source(rule)); err != nil {
			return fmt.Errorf("watch %s: %w", rule.GVK.Kind, err)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.started[rule.GVK.Kind] = true
	return nil
}

// Watched tells whether objects of a kind are in the cache.
func (w *Watching) Watched(rule kinds.Kind) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return rule.Mode != kinds.Copy || w.started[rule.GVK.Kind]
}
