package workload

import (
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Queue is the queue of a controller.
type Queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// podEvents enqueues the controller of a pod, and for a pod without one all objects that may adopt it.
type podEvents[T client.Object, M any] struct{ *Controller[T, M] }

// Create handles a new pod.
func (h podEvents[T, M]) Create(ctx context.Context, e event.CreateEvent, q Queue) {
	h.add(ctx, e.Object, q)
}

// Update handles a changed pod; if its controller changed, both are enqueued.
func (h podEvents[T, M]) Update(ctx context.Context, e event.UpdateEvent, q Queue) {
	h.add(ctx, e.ObjectNew, q)
	if ChangedController(e) {
		h.add(ctx, e.ObjectOld, q)
	}
}

// Delete handles a pod that is gone.
func (h podEvents[T, M]) Delete(ctx context.Context, e event.DeleteEvent, q Queue) {
	h.add(ctx, e.Object, q)
}

// Generic is not used.
func (podEvents[T, M]) Generic(context.Context, event.GenericEvent, Queue) {}

func (h podEvents[T, M]) add(ctx context.Context, pod client.Object, q Queue) {
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
		if IsKind(ref, h.kind.GVK.GroupKind()) {
			h.enqueue(q, types.NamespacedName{Namespace: pod.GetNamespace(), Name: ref.Name})
		}
		return
	}
	// An error is not retried: a later event of the object finds the pod.
	_ = h.each(ctx, pod.GetNamespace(), func(object T) {
		selector, err := metav1.LabelSelectorAsSelector(h.kind.Selector(object))
		if err == nil && !selector.Empty() && selector.Matches(labels.Set(pod.GetLabels())) {
			h.enqueue(q, client.ObjectKeyFromObject(object))
		}
	})
}

func (h podEvents[T, M]) enqueue(q Queue, key types.NamespacedName) {
	q.AddAfter(reconcile.Request{NamespacedName: key}, h.kind.PodDelay)
}

var _ handler.EventHandler = podEvents[client.Object, struct{}]{}

// ChangedController reports whether an update took an object from its controller.
func ChangedController(e event.UpdateEvent) bool {
	before, after := metav1.GetControllerOfNoCopy(e.ObjectOld), metav1.GetControllerOfNoCopy(e.ObjectNew)
	return before != nil && (after == nil || before.UID != after.UID)
}

// IsKind reports whether a reference is to an object of the kind, in any version.
func IsKind(ref *metav1.OwnerReference, kind schema.GroupKind) bool {
	group, _, ok := strings.Cut(ref.APIVersion, "/")
	if !ok {
		group = "" // the core group has no name
	}
	return ref.Kind == kind.Kind && group == kind.Group
}
