// Package objects sees the member's objects that a hub owns: those that carry its label, topology.LabelHub. There is
// one watch for each kind that a Work named, started when the first Work of that kind comes, and none in a member
// without Works. apply and report share it: both ask what stands in the member, and both are woken by its changes.
package objects

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// syncTimeout bounds the wait for the first list of a kind. A member that takes longer is in trouble, and the worker
// that waits is needed for other Works; the Work is tried again.
const syncTimeout = 10 * time.Second

// Ref names an object of the member.
type Ref struct {
	schema.GroupVersionKind
	types.NamespacedName
}

// Qualified returns "Kind.group namespace/name", without the parts that the object lacks: the kind as kubectl takes it.
func (r Ref) Qualified() string {
	name := r.Name
	if r.Namespace != "" {
		name = r.NamespacedName.String()
	}
	return r.GroupKind().String() + " " + name
}

// String returns "Kind namespace/name".
func (r Ref) String() string { return r.Kind + " " + r.NamespacedName.String() }

// Store knows the member objects of all Works. Its methods are safe for concurrent use.
type Store struct {
	cache cache.Cache
	label string

	mu          sync.RWMutex
	watched     map[schema.GroupVersionKind]bool
	works       map[Ref]types.NamespacedName
	refs        map[types.NamespacedName]Ref
	subscribers []func(work types.NamespacedName)
	unordered   []func(ref Ref, object metav1.Object, gone bool)
}

// New returns a store of the objects with a label, in the member that config reaches. It asks nothing of the member
// before Start.
func New(config *rest.Config, mapper meta.RESTMapper, label string) (*Store, error) {
	marked, err := labels.NewRequirement(label, selection.Exists, nil)
	if err != nil {
		return nil, fmt.Errorf("select marked objects: %w", err)
	}
	c, err := cache.New(config, cache.Options{
		Mapper:                       mapper,
		DefaultLabelSelector:         labels.NewSelector().Add(*marked),
		DefaultTransform:             cache.TransformStripManagedFields(),
		DefaultUnsafeDisableDeepCopy: new(true), // readers of Get change nothing, see there
	})
	if err != nil {
		return nil, fmt.Errorf("make the cache of member objects: %w", err)
	}
	return &Store{
		cache:   c,
		label:   label,
		watched: map[schema.GroupVersionKind]bool{},
		works:   map[Ref]types.NamespacedName{},
		refs:    map[types.NamespacedName]Ref{},
	}, nil
}

// Start runs the watches until ctx ends.
func (s *Store) Start(ctx context.Context) error { return s.cache.Start(ctx) }

// Source wakes a controller for a Work when its member object comes, changes or goes.
func (s *Store) Source() source.Source {
	return source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.subscribers = append(s.subscribers, func(work types.NamespacedName) {
			queue.Add(reconcile.Request{NamespacedName: work})
		})
		return nil
	})
}

// Bind tells that work carries the object ref, and waits until objects of that kind are seen. It fails with a
// NoKindMatch error if the member does not serve the kind.
func (s *Store) Bind(ctx context.Context, work types.NamespacedName, ref Ref) error {
	s.mu.Lock()
	if old, ok := s.refs[work]; ok && old != ref {
		delete(s.works, old)
	}
	s.refs[work], s.works[ref] = ref, work
	s.mu.Unlock()

	informer, err := s.watch(ctx, ref.GroupVersionKind)
	if err != nil {
		return err
	}
	if informer.HasSynced() {
		return nil
	}
	// 10 ms: only the first Work of a kind waits here.
	err = wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, syncTimeout, true, func(context.Context) (bool, error) {
		return informer.HasSynced(), nil
	})
	if err != nil {
		return fmt.Errorf("list objects of kind %s with label %s in the member: %w", ref.Kind, s.label, err)
	}
	return nil
}

// Bound returns the objects of a namespace that Works carry, with the names of the Works.
func (s *Store) Bound(namespace string) map[Ref]types.NamespacedName {
	s.mu.RLock()
	defer s.mu.RUnlock()
	bound := map[Ref]types.NamespacedName{}
	for ref, work := range s.works {
		if ref.Namespace == namespace {
			bound[ref] = work
		}
	}
	return bound
}

// Watch begins to watch a kind without waiting for its first list, for OnUnordered.
func (s *Store) Watch(ctx context.Context, kind schema.GroupVersionKind) error {
	_, err := s.watch(ctx, kind)
	return err
}

// watch sees to it that there is exactly one handler for each kind. It does not wait.
func (s *Store) watch(ctx context.Context, kind schema.GroupVersionKind) (cache.Informer, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	informer, err := s.cache.GetInformer(ctx, object, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watched[kind] {
		return informer, nil
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { s.changed(kind, object, false) },
		UpdateFunc: func(before, after any) {
			a, aOK := before.(*unstructured.Unstructured)
			b, bOK := after.(*unstructured.Unstructured)
			if aOK && bOK && a.GetResourceVersion() == b.GetResourceVersion() {
				return // a resync, not a change
			}
			s.changed(kind, after, false)
		},
		DeleteFunc: func(object any) {
			if gone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
				object = gone.Obj
			}
			s.changed(kind, object, true)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", kind.Kind, err)
	}
	s.watched[kind] = true
	return informer, nil
}

// OnUnordered calls changed when an object that no Work carries comes, changes, or is gone or without the label. Of
// kinds that no Work named, and that Watch was not called for, it is not called.
func (s *Store) OnUnordered(changed func(ref Ref, object metav1.Object, gone bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unordered = append(s.unordered, changed)
}

func (s *Store) changed(kind schema.GroupVersionKind, object any, gone bool) {
	o, ok := object.(*unstructured.Unstructured)
	if !ok {
		return
	}
	ref := Ref{kind, types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}}
	s.mu.RLock()
	defer s.mu.RUnlock()
	work, ok := s.works[ref]
	if !ok {
		for _, changed := range s.unordered {
			changed(ref, o, gone)
		}
		return
	}
	for _, wake := range s.subscribers {
		wake(work)
	}
}

// Forget drops what Bind said of work.
func (s *Store) Forget(work types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ref, ok := s.refs[work]; ok {
		delete(s.refs, work)
		if s.works[ref] == work {
			delete(s.works, ref)
		}
	}
}

// Get returns the object as it was seen last, or nil if none with a hub's mark is seen, also because no Work of its
// kind was bound. The object is shared: the caller must not change it.
func (s *Store) Get(ctx context.Context, ref Ref) (*unstructured.Unstructured, error) {
	s.mu.RLock()
	watched := s.watched[ref.GroupVersionKind]
	s.mu.RUnlock()
	if !watched {
		return nil, nil
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(ref.GroupVersionKind)
	err := s.cache.Get(ctx, ref.NamespacedName, object)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", ref, err)
	}
	return object, nil
}
