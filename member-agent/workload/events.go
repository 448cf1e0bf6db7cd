package workload

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
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
	q.AddAfter(reconcile.Request{NamespacedName: key}, h.podDelay(key))
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

// SlimNode is the cache's transform of nodes: it keeps what controllers of this agent read. The images of a node alone
// take more than all of that. It changes the object that it is given.
func SlimNode(obj any) (any, error) {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return obj, nil
	}
	node.ManagedFields, node.Annotations = nil, nil
	node.Spec = corev1.NodeSpec{Taints: node.Spec.Taints, Unschedulable: node.Spec.Unschedulable}
	node.Status = corev1.NodeStatus{Allocatable: node.Status.Allocatable,
		Conditions: slices.DeleteFunc(slices.Clone(node.Status.Conditions),
			func(c corev1.NodeCondition) bool { return c.Type != corev1.NodeReady })}
	return node, nil
}

// OnNodes gives the controller the nodes of the cache. A node that comes, goes, or changes in what decides about pods
// enqueues every object of the kind; a heartbeat does not.
func (b *Builder[T, M]) OnNodes(ctx context.Context) *Builder[T, M] {
	informer, err := b.env.Manager.GetCache().GetInformer(ctx, &corev1.Node{}, cache.BlockUntilSynced(false))
	shared, ok := informer.(toolscache.SharedIndexInformer)
	switch {
	case b.err != nil:
		return b
	case err != nil:
		b.err = fmt.Errorf("watch nodes: %w", err)
		return b
	case !ok:
		b.err = fmt.Errorf("watch nodes: a cache of type %T has no indexer", informer)
		return b
	}
	b.Controller.Nodes = func() []*corev1.Node { return nodesOf(shared.GetIndexer()) }
	pods := podEvents[T, M]{b.Controller}
	enqueue := func(ctx context.Context, q Queue) {
		// An error is not retried: the cache always lists.
		_ = b.Controller.each(ctx, "", func(object T) { pods.enqueue(q, client.ObjectKeyFromObject(object)) })
	}
	b.Watches(&corev1.Node{}, handler.Funcs{
		CreateFunc: func(ctx context.Context, _ event.CreateEvent, q Queue) { enqueue(ctx, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q Queue) {
			before, _ := e.ObjectOld.(*corev1.Node)
			after, _ := e.ObjectNew.(*corev1.Node)
			if before == nil || after == nil || NodeChanged(before, after) {
				enqueue(ctx, q)
			}
		},
		DeleteFunc: func(ctx context.Context, _ event.DeleteEvent, q Queue) { enqueue(ctx, q) },
	})
	return b
}

func nodesOf(indexer toolscache.Indexer) []*corev1.Node {
	list := indexer.List()
	out := make([]*corev1.Node, 0, len(list))
	for _, obj := range list {
		if node, ok := obj.(*corev1.Node); ok {
			out = append(out, node)
		}
	}
	return out
}

// NodeChanged reports whether a node changed in what decides about the pods that run on each node: labels, taints (a
// cordoned node has one) and whether it is ready.
func NodeChanged(before, after *corev1.Node) bool {
	return !maps.Equal(before.Labels, after.Labels) || ready(before) != ready(after) ||
		!slices.EqualFunc(before.Spec.Taints, after.Spec.Taints, func(a, b corev1.Taint) bool {
			return a.Key == b.Key && a.Value == b.Value && a.Effect == b.Effect
		})
}

// ready returns the status of the condition Ready, "" without one.
func ready(node *corev1.Node) corev1.ConditionStatus {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == corev1.NodeReady {
			return node.Status.Conditions[i].Status
		}
	}
	return ""
}
