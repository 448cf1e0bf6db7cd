package workloadspread

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/spread"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// gatherEvents is how long events of pods are gathered before their WorkloadSpread is looked at. A pass looks at all
// pods of the workload, the start of one makes about five events, and nobody who makes or admits pods waits for what a
// pass writes: a quarter of a second is soon enough for a person who watches the counters, and for the next scale-in.
const gatherEvents = 250 * time.Millisecond

func enqueue(q workload.Queue, keys []types.NamespacedName) {
	for _, key := range keys {
		q.AddAfter(reconcile.Request{NamespacedName: key}, gatherEvents)
	}
}

// spreadEvents puts a WorkloadSpread into the queue, and with it the others of its target where another may rule now.
type spreadEvents struct{ registry *registry }

var _ handler.EventHandler = spreadEvents{}

// Create handles a WorkloadSpread that came.
func (h spreadEvents) Create(_ context.Context, e event.CreateEvent, q workload.Queue) {
	h.come(e.Object, q)
}

// Update handles one that changed. Events of our own status writes pass too: the pass that sees a closed subset in the
// cache deletes what waits there.
func (h spreadEvents) Update(_ context.Context, e event.UpdateEvent, q workload.Queue) {
	if e.ObjectOld.GetUID() != e.ObjectNew.GetUID() ||
		(e.ObjectOld.GetDeletionTimestamp() == nil) != (e.ObjectNew.GetDeletionTimestamp() == nil) {
		h.come(e.ObjectNew, q)
		return
	}
	q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e.ObjectNew)})
}

// Delete handles one that is gone.
func (h spreadEvents) Delete(_ context.Context, e event.DeleteEvent, q workload.Queue) {
	for _, key := range h.siblings(e.Object) {
		q.Add(reconcile.Request{NamespacedName: key})
	}
	h.registry.drop(client.ObjectKeyFromObject(e.Object), e.Object.GetUID())
}

// Generic is not used.
func (spreadEvents) Generic(context.Context, event.GenericEvent, workload.Queue) {}

func (h spreadEvents) come(object client.Object, q workload.Queue) {
	if ws, ok := object.(*v1beta1.WorkloadSpread); ok {
		h.registry.put(client.ObjectKeyFromObject(ws), ws.UID, spread.TargetOf(ws))
	}
	for _, key := range h.siblings(object) {
		q.Add(reconcile.Request{NamespacedName: key})
	}
}

func (h spreadEvents) siblings(object client.Object) []types.NamespacedName {
	ws, ok := object.(*v1beta1.WorkloadSpread)
	if !ok {
		return nil
	}
	return h.registry.of(ws.Namespace, spread.TargetOf(ws))
}

// podEvents puts the WorkloadSpreads of a pod's workload into the queue.
type podEvents struct {
	client   client.Reader
	registry *registry
}

var _ handler.EventHandler = podEvents{}

// Create handles a pod that came.
func (h podEvents) Create(ctx context.Context, e event.CreateEvent, q workload.Queue) {
	h.add(ctx, e.Object, q)
}

// Update handles a changed pod; if its controller changed, the WorkloadSpreads of both are enqueued.
func (h podEvents) Update(ctx context.Context, e event.UpdateEvent, q workload.Queue) {
	h.add(ctx, e.ObjectNew, q)
	if workload.ChangedController(e) {
		h.add(ctx, e.ObjectOld, q)
	}
}

// Delete handles a pod that is gone.
func (h podEvents) Delete(ctx context.Context, e event.DeleteEvent, q workload.Queue) {
	h.add(ctx, e.Object, q)
}

// Generic is not used.
func (podEvents) Generic(context.Context, event.GenericEvent, workload.Queue) {}

func (h podEvents) add(ctx context.Context, pod client.Object, q workload.Queue) {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil {
		return
	}
	enqueue(q, h.registry.of(pod.GetNamespace(), controllerTarget(ref)))
	if ref.Kind != "ReplicaSet" || h.registry.empty(pod.GetNamespace()) {
		return
	}
	set := metadataOf(replicaSetGVK)
	if err := h.client.Get(ctx, client.ObjectKey{Namespace: pod.GetNamespace(), Name: ref.Name}, set,
		client.UnsafeDisableDeepCopy); err != nil {
		return // the event of the ReplicaSet tells its Deployment's WorkloadSpreads
	}
	if owner := metav1.GetControllerOfNoCopy(set); owner != nil && set.GetUID() == ref.UID {
		enqueue(q, h.registry.of(pod.GetNamespace(), controllerTarget(owner)))
	}
}

// controllerTarget returns the workload that a reference to a controller means.
func controllerTarget(ref *metav1.OwnerReference) spread.Target {
	version, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return spread.Target{}
	}
	return spread.Target{Group: version.Group, Kind: ref.Kind, Name: ref.Name}
}

// workloadEvents returns the WorkloadSpreads of a workload, and of the Deployment that controls a ReplicaSet.
func (r *reconciler) workloadEvents(gvk schema.GroupVersionKind) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
		keys := r.registry.of(object.GetNamespace(), spread.Target{Group: gvk.Group, Kind: gvk.Kind, Name: object.GetName()})
		if owner := metav1.GetControllerOfNoCopy(object); owner != nil && gvk == replicaSetGVK {
			keys = append(keys, r.registry.of(object.GetNamespace(), controllerTarget(owner))...)
		}
		return requestsOf(keys)
	})
}

func requestsOf(keys []types.NamespacedName) []reconcile.Request {
	requests := make([]reconcile.Request, 0, len(keys))
	for _, key := range keys {
		requests = append(requests, reconcile.Request{NamespacedName: key})
	}
	return requests
}

// metadataOf returns an empty object that is read with its metadata alone.
func metadataOf(gvk schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(gvk)
	return object
}

// replicaSetGVK is the kind of ReplicaSets, of which the cache holds the metadata alone: templates are most of them,
// and each Deployment keeps ten.
var replicaSetGVK = appsv1.SchemeGroupVersion.WithKind("ReplicaSet")

// The kinds of Kubernetes whose objects the cache holds whole. A StatefulSet of apps.kruise.io is another kind.
var (
	deploymentGVK        = appsv1.SchemeGroupVersion.WithKind("Deployment")
	nativeStatefulSetGVK = appsv1.SchemeGroupVersion.WithKind("StatefulSet")
)
