package launchpriority

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/launch"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// workers is how many barriers are opened at a time.
const workers = 8

// opener opens the barriers of pods.
type opener struct {
	client client.Client
	events events.EventRecorder

	mu sync.Mutex
	// opened are the barriers of pods whose containers have not all started.
	opened map[types.NamespacedName]barrier
}

// barrier is what is known of a barrier.
type barrier struct {
	pod types.UID
	// keys is how many keys it has.
	keys int
}

// Add adds the controller that opens barriers to the manager.
func Add(mgr ctrl.Manager) error {
	o := &opener{client: mgr.GetClient(), events: mgr.GetEventRecorder("flotilla-launchpriority"),
		opened: map[types.NamespacedName]barrier{}}
	waits := predicate.NewPredicateFuncs(func(object client.Object) bool {
		pod, ok := object.(*corev1.Pod)
		return ok && launch.Waits(pod) && (!completed(pod) || launch.Lacks(pod, launch.Keys(pod)))
	})
	waits.DeleteFunc = func(e event.DeleteEvent) bool { return o.known(client.ObjectKeyFromObject(e.Object)) }
	err := ctrl.NewControllerManagedBy(mgr).Named("launchpriority").
		Watches(&corev1.Pod{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(waits)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](workload.FirstBackoff,
				workload.LastBackoff),
		}).
		Complete(o)
	if err != nil {
		return fmt.Errorf("set up the container launch priority: %w", err)
	}
	return nil
}

// completed reports whether all containers of the pod have started in order before.
func completed(pod *corev1.Pod) bool { return pod.Annotations[launch.AnnotationCompleted] == "true" }

// Reconcile opens the barrier of one pod as far as its containers have started. It makes a barrier again that was
// deleted, when the kubelet says on the pod that a container cannot start without.
func (o *opener) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	pod := &corev1.Pod{}
	if err := o.client.Get(ctx, request.NamespacedName, pod); err != nil {
		if apierrors.IsNotFound(err) {
			o.forget(request.NamespacedName)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	keys, done := launch.Due(pod)
	if completed(pod) {
		keys, done = launch.Keys(pod), false
	}
	lacks := launch.Lacks(pod, keys)
	if lacks || !podstate.Active(pod) || !launch.Waits(pod) || completed(pod) {
		o.forget(request.NamespacedName)
	}
	if !podstate.Active(pod) || !launch.Waits(pod) || completed(pod) && !lacks {
		return reconcile.Result{}, nil
	}
	if err := o.open(ctx, pod, keys); err != nil {
		o.events.Eventf(pod, nil, corev1.EventTypeWarning, "FailedLaunch", "Launch", "%s", workload.Note(err))
		return reconcile.Result{}, err
	}
	if !done {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, o.complete(ctx, pod)
}

// complete says on the pod that all its containers have started.
func (o *opener) complete(ctx context.Context, pod *corev1.Pod) error {
	patch := fmt.Sprintf(`{"metadata":{"uid":%q,"annotations":{%q:"true"}}}`, pod.UID, launch.AnnotationCompleted)
	target := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	err := o.client.Patch(ctx, target, client.RawPatch(types.MergePatchType, []byte(patch)), workload.FieldOwner)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("say on pod %s that its containers have started: %w", pod.Name, err)
	}
	o.forget(client.ObjectKeyFromObject(pod))
	return nil
}

func (o *opener) forget(pod types.NamespacedName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.opened, pod)
}

// known reports whether something is known of the barrier of a pod of this name.
func (o *opener) known(pod types.NamespacedName) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, known := o.opened[pod]
	return known
}

// has returns how many keys the barrier of a pod has for sure.
func (o *opener) has(pod *corev1.Pod) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	if known := o.opened[client.ObjectKeyFromObject(pod)]; known.pod == pod.UID {
		return known.keys
	}
	return 0
}

// open makes the barrier of the pod have the keys. ConfigMaps are not read: one that is the pod's is known by its
// owner.
func (o *opener) open(ctx context.Context, pod *corev1.Pod, keys []string) error {
	if o.has(pod) >= len(keys) {
		return nil
	}
	data := map[string]string{}
	for _, key := range keys {
		data[key] = "true"
	}
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: launch.Barrier(pod.Name),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}},
		},
		Data: data,
	}
	err := o.client.Create(ctx, object, workload.FieldOwner)
	if apierrors.IsAlreadyExists(err) {
		err = o.add(ctx, pod, keys)
	}
	if err != nil {
		return fmt.Errorf("open the barrier of pod %s: write ConfigMap %s: %w", pod.Name, object.Name, err)
	}
	if completed(pod) {
		return nil // nothing opens it further
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.opened[client.ObjectKeyFromObject(pod)] = barrier{pod.UID, len(keys)}
	return nil
}

// add adds the keys to a barrier that exists. It fails if another object than the pod owns the ConfigMap: the garbage
// collector deletes one of an earlier pod of that name.
func (o *opener) add(ctx context.Context, pod *corev1.Pod, keys []string) error {
	patch := []workload.Operation{{Op: "test", Path: "/metadata/ownerReferences/0/uid", Value: pod.UID}}
	for _, key := range keys {
		patch = append(patch, workload.Operation{Op: "add", Path: "/data/" + key, Value: "true"})
	}
	text, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("encode its keys: %w", err)
	}
	target := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: launch.Barrier(pod.Name)}}
	return o.client.Patch(ctx, target, client.RawPatch(types.JSONPatchType, text), workload.FieldOwner)
}
