package workload

import (
	"context"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/volumes"
)

// Kind is what is a kind's own. T is the type of its objects, M what it remembers of one between passes.
type Kind[T client.Object, M any] struct {
	GVK     schema.GroupVersionKind
	New     func() T
	NewList func() client.ObjectList
	// Workers is how many objects are reconciled in parallel unless Env says otherwise.
	Workers int
	// Phases returns the phases of a pass, in order.
	Phases func(*Pass[T, M]) []Phase
	// Events handles the events of the kind's own objects; nil enqueues the object.
	Events handler.EventHandler
	// Selector selects the pods of an object, also those to adopt. It is for kinds that own pods.
	Selector func(T) *metav1.LabelSelector
	// Member reports whether a pod of this name can be the object's, beside the selector; nil says that any can.
	Member func(T, string) bool
	// ScaleFailure and UpdateFailure are the conditions that show errors of pods that come and go, and of those that
	// change. They are for kinds that own pods.
	ScaleFailure, UpdateFailure string
	// PodDelay is how long events of pods are gathered before their owner is reconciled.
	PodDelay time.Duration
	// OneByOne reports whether the pods of an object come and go one after the other, so that there is nothing to gather
	// and each event takes the rollout on; nil says that none do.
	OneByOne func(T) bool
	// Forget drops what the kind itself keeps about an object that is gone; nil keeps nothing.
	Forget func(types.NamespacedName)
}

func (k *Kind[T, M]) name() string { return strings.ToLower(k.GVK.Kind) }

// FirstBackoff and LastBackoff bound the time between failed passes: a quota that was raised is noticed in half a
// minute.
const (
	FirstBackoff = 50 * time.Millisecond
	LastBackoff  = 30 * time.Second
)

// Builder sets a controller up. A kind adds its own watches to the embedded builder.
type Builder[T client.Object, M any] struct {
	*builder.Builder
	Controller *Controller[T, M]

	env *Env
	err error
}

// For begins the controller of a kind. It reads nothing. The manager's scheme must know the kind, apps/v1 and core/v1.
// The first error of it and of the builder's methods is that of Complete.
func For[T client.Object, M any](env *Env, kind Kind[T, M]) *Builder[T, M] {
	mgr := env.Manager
	if env.Clock == nil {
		env.Clock = clock.RealClock{}
	}
	b := &Builder[T, M]{env: env, Builder: ctrl.NewControllerManagedBy(mgr).Named(kind.name())}
	b.Controller = New(Parts{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: mgr.GetEventRecorder("flotilla-" + kind.name()),
		Clock: env.Clock, Gate: env.Gate, Disruptions: env.Disruptions,
	}, kind)
	if kind.Events != nil {
		b.Watches(kind.New(), kind.Events)
	} else {
		b.For(kind.New())
	}
	workers := kind.Workers
	if env.Workers > 0 {
		workers = env.Workers
	}
	b.WithOptions(controller.Options{
		MaxConcurrentReconciles: workers,
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](FirstBackoff,
			LastBackoff),
	})
	b.WatchesMetadata(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(b.Controller.inNamespace),
		builder.WithPredicates(predicate.LabelChangedPredicate{}))
	if ordered := b.Controller.Gate.Ordered(kind.GVK); ordered != nil {
		b.WatchesRawSource(ordered)
	}
	return b
}

// ReadsPods gives the controller the pods of the cache. Its passes wait until the cache shows its writes to pods.
func (b *Builder[T, M]) ReadsPods(ctx context.Context) *Builder[T, M] {
	if b.env.Pods == nil && b.err == nil {
		b.env.Pods, b.err = podset.NewSource(ctx, b.env.Manager.GetCache())
	}
	b.Controller.usePods(b.env.Pods)
	return b
}

// OwnsPods is ReadsPods of a kind whose objects control pods: their events enqueue the object.
func (b *Builder[T, M]) OwnsPods(ctx context.Context) *Builder[T, M] {
	b.ReadsPods(ctx).Watches(&corev1.Pod{}, podEvents[T, M]{b.Controller})
	return b
}

// OwnsClaims gives the controller the claims of the cache. Events of claims that its objects control enqueue the
// object.
func (b *Builder[T, M]) OwnsClaims(ctx context.Context) *Builder[T, M] {
	b.readsClaims(ctx)
	b.Owns(&corev1.PersistentVolumeClaim{})
	return b
}

func (b *Builder[T, M]) readsClaims(ctx context.Context) {
	if b.env.Claims == nil && b.err == nil {
		b.env.Claims, b.err = volumes.NewSource(ctx, b.env.Manager.GetCache())
	}
	b.Controller.useClaims(b.env.Claims)
}

// NamesClaims gives the controller the claims of the cache. Events of a claim enqueue the objects for which names is
// true: that have it by its name, whoever owns it.
func (b *Builder[T, M]) NamesClaims(
	ctx context.Context,
	names func(T, *corev1.PersistentVolumeClaim) bool,
) *Builder[T, M] {
	b.readsClaims(ctx)
	pods := podEvents[T, M]{b.Controller}
	enqueue := func(ctx context.Context, object client.Object, q Queue) {
		claim, _ := object.(*corev1.PersistentVolumeClaim)
		// An error is not retried: passes look at their claims anyway.
		_ = b.Controller.each(ctx, claim.Namespace, func(object T) {
			if names(object, claim) {
				pods.enqueue(q, client.ObjectKeyFromObject(object))
			}
		})
	}
	b.Watches(&corev1.PersistentVolumeClaim{}, handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q Queue) { enqueue(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q Queue) { enqueue(ctx, e.ObjectNew, q) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q Queue) { enqueue(ctx, e.Object, q) },
	})
	return b
}

// OwnsRevisions keeps the revisions of the kind's objects.
func (b *Builder[T, M]) OwnsRevisions(ctx context.Context) *Builder[T, M] {
	if b.err == nil {
		b.err = history.Index(ctx, b.env.Manager.GetFieldIndexer(), b.Controller.kind.GVK)
	}
	b.Owns(&appsv1.ControllerRevision{})
	return b
}

// Complete adds the controller to the manager.
func (b *Builder[T, M]) Complete() error {
	if b.err == nil {
		b.err = b.Builder.Complete(b.Controller)
	}
	if b.err != nil {
		return fmt.Errorf("set up the controller of %s: %w", b.Controller.kind.GVK.Kind, b.err)
	}
	return nil
}

// inNamespace returns the objects of a namespace that may have become a hub's, or ours.
func (c *Controller[T, M]) inNamespace(ctx context.Context, namespace client.Object) []reconcile.Request {
	var requests []reconcile.Request
	err := c.each(ctx, namespace.GetName(), func(object T) {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(object)})
	})
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "list objects of a namespace", "kind", c.kind.GVK.Kind, "namespace",
			namespace.GetName())
	}
	return requests
}

// each calls do for the objects of a namespace. They are the cache's and must not be changed.
func (c *Controller[T, M]) each(ctx context.Context, namespace string, do func(T)) error {
	list := c.kind.NewList()
	if err := c.Client.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list %ss: %w", c.kind.GVK.Kind, err)
	}
	return meta.EachListItem(list, func(item runtime.Object) error {
		if object, ok := item.(T); ok {
			do(object)
		}
		return nil
	})
}
