package apply

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/flotilla-dev/flotilla/member-agent/objects"
)

// Generations knows which generation of a member object has the content that the hub ordered. Workload
// controllers do not act on any other one: what another writer changed in the object is about to be corrected.
// Its methods are safe for concurrent use.
type Generations struct {
	mu          sync.RWMutex
	ordered     map[objects.Ref]generation
	subscribers map[schema.GroupVersionKind][]func(types.NamespacedName)
}

type generation struct {
	uid    types.UID
	number int64
}

// NewGenerations returns an empty set.
func NewGenerations() *Generations {
	return &Generations{
		ordered:     map[objects.Ref]generation{},
		subscribers: map[schema.GroupVersionKind][]func(types.NamespacedName){},
	}
}

// Foreign reports whether the object has content that was not ordered, or was ordered just now and is not accepted yet.
// It is false for an object that no order is known of, and where the content cannot be corrected.
func (g *Generations) Foreign(kind schema.GroupVersionKind, object client.Object) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	ordered, known := g.ordered[objects.Ref{GroupVersionKind: kind, NamespacedName: client.ObjectKeyFromObject(object)}]
	return known && ordered.uid == object.GetUID() && ordered.number != object.GetGeneration()
}

// Source wakes a controller for an object of the kind when another generation of it is the ordered one.
func (g *Generations) Source(kind schema.GroupVersionKind) source.Source {
	return source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.subscribers[kind] = append(g.subscribers[kind], func(name types.NamespacedName) {
			queue.Add(reconcile.Request{NamespacedName: name})
		})
		return nil
	})
}

// accept says that the object has the ordered content at this generation.
func (g *Generations) accept(ref objects.Ref, uid types.UID, number int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	next := generation{uid, number}
	if g.ordered[ref] == next {
		return
	}
	g.ordered[ref] = next
	g.wake(ref)
}

// forget says that nothing is known of the object, or that its content stays as it is.
func (g *Generations) forget(ref objects.Ref) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, known := g.ordered[ref]; known {
		delete(g.ordered, ref)
		g.wake(ref)
	}
}

func (g *Generations) wake(ref objects.Ref) {
	for _, wake := range g.subscribers[ref.GroupVersionKind] {
		wake(ref.NamespacedName)
	}
}
