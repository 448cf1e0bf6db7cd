package meta

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon"
)

// workers is how many pods are looked at at the same time. Stops run beside them.
const workers = 4

// Part returns the part of the daemon that restarts containers for their environment.
func Part() nodedaemon.Part {
	return nodedaemon.Part{
		Name: "meta",
		Reads: func(node string) map[client.Object]cache.ByObject {
			return map[client.Object]cache.ByObject{&corev1.Pod{}: nodedaemon.Pods(node)}
		},
		Add: add,
	}
}

// settle is how long a change of a pod is known before its containers restart.
const settle = 2 * time.Second

// change is what containers of a pod are to see of its metadata, and when that was first seen.
type change struct {
	wants uint64
	since time.Time
}

// reconciler looks at the pods of the node.
type reconciler struct {
	env nodedaemon.Env

	mu sync.Mutex
	// pods are what containers were created with, by pod and ID; stopped those that were stopped for their environment,
	// hooked those whose hook was run before.
	pods            map[types.NamespacedName]map[string]created
	stopped, hooked map[string]bool
	// stopping are the pods of which a container is being stopped; failed says why one could not be.
	stopping map[types.NamespacedName]bool
	// changed is what containers of a pod are to see, and since when that differs from what they see.
	changed map[types.NamespacedName]change
	failed  map[types.NamespacedName]error
	// stops is the context of the stops, nil until the manager runs; ended has an event for each end of stops.
	stops   context.Context //nolint:containedctx // stops outlive the pass that begins them
	running sync.WaitGroup
	ended   chan event.GenericEvent
}

func newReconciler(env nodedaemon.Env) *reconciler {
	return &reconciler{env: env, pods: map[types.NamespacedName]map[string]created{}, stopped: map[string]bool{},
		hooked: map[string]bool{}, stopping: map[types.NamespacedName]bool{}, failed: map[types.NamespacedName]error{},
		changed: map[types.NamespacedName]change{}, ended: make(chan event.GenericEvent)}
}

func add(mgr manager.Manager, env nodedaemon.Env) error {
	concerned := predicate.NewPredicateFuncs(func(object client.Object) bool {
		pod, ok := object.(*corev1.Pod)
		return ok && cares(pod)
	})
	concerned.DeleteFunc = nil
	r := newReconciler(env)
	if err := mgr.Add(manager.RunnableFunc(r.run)); err != nil {
		return fmt.Errorf("add the stops of containers for their environments: %w", err)
	}
	err := ctrl.NewControllerManagedBy(mgr).Named("meta").
		Watches(&corev1.Pod{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(concerned)).
		WatchesRawSource(source.Channel(r.ended, &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).Complete(r)
	if err != nil {
		return fmt.Errorf("set up the environments of containers: %w", err)
	}
	return nil
}

// Reconcile reports what the containers of a pod run, and restarts those whose environment an update in place changed.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	pod := &corev1.Pod{}
	err := r.env.Client.Get(ctx, request.NamespacedName, pod)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("read pod %s: %w", request.NamespacedName, err)
	}
	if err != nil || pod.Spec.NodeName != r.env.Node || !cares(pod) {
		r.forget(request.NamespacedName)
		return ctrl.Result{}, nil
	}
	known, err := r.know(ctx, pod)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("read the containers of pod %s: %w", request.NamespacedName, err)
	}
	annotation, restart, err := plan(pod, known)
	if err != nil {
		return ctrl.Result{}, err
	}
	if annotation != "" && annotation != pod.Annotations[annotationMeta] {
		if err := r.write(ctx, pod, annotation); err != nil {
			return ctrl.Result{}, err
		}
	}
	if wait := r.settles(pod, restart); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	return ctrl.Result{}, r.restart(pod, restart)
}

// settles returns how long to wait until containers of a pod restart. The kubelet watches the pod by itself: a
// container that it starts before it has seen the change would have to be stopped a second time.
func (r *reconciler) settles(pod *corev1.Pod, restart []string) time.Duration {
	key := client.ObjectKeyFromObject(pod)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(restart) == 0 {
		delete(r.changed, key)
		return 0
	}
	now, wants := r.env.Clock.Now(), wanted(pod)
	last, known := r.changed[key]
	if !known || last.wants != wants {
		last = change{wants: wants, since: now}
		r.changed[key] = last
	}
	return settle - now.Sub(last.since)
}

// know returns what the containers of a pod were created with. Each is asked for once.
func (r *reconciler) know(ctx context.Context, pod *corev1.Pod) (map[string]created, error) {
	key := client.ObjectKeyFromObject(pod)
	r.mu.Lock()
	before := r.pods[key]
	r.mu.Unlock()
	now := map[string]created{}
	for i := range pod.Spec.Containers {
		container := &pod.Spec.Containers[i]
		id, _ := runs(pod, container.Name)
		if id == "" || len(fed(pod, container)) == 0 {
			continue
		}
		if have, ok := before[id]; ok {
			now[id] = have
			continue
		}
		answer, err := r.env.Runtime.ContainerStatus(ctx, id, true)
		if err != nil {
			return nil, err
		}
		have, err := read(answer.GetInfo(), answer.GetStatus().GetAnnotations())
		if err != nil {
			// Asking again gets the same answer. Without the annotation the agent creates such pods again.
			r.env.Log.V(1).Info("the environment of a container is not known", "pod", key, "container", container.Name,
				"why", err.Error())
			continue
		}
		now[id] = have
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pods[key] = now
	for id := range before {
		if _, stays := now[id]; !stays {
			delete(r.stopped, id)
			delete(r.hooked, id)
		}
	}
	return now, nil
}

func (r *reconciler) forget(pod types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.pods[pod] {
		delete(r.stopped, id)
		delete(r.hooked, id)
	}
	delete(r.pods, pod)
	delete(r.changed, pod)
	delete(r.failed, pod)
}

// write sets the annotation of a pod.
func (r *reconciler) write(ctx context.Context, pod *corev1.Pod, annotation string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "annotations": map[string]string{annotationMeta: annotation}}})
	if err != nil {
		return fmt.Errorf("encode annotation %s: %w", annotationMeta, err)
	}
	target := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	err = r.env.Client.Status().Patch(ctx, target, client.RawPatch(types.MergePatchType, patch),
		client.FieldOwner(nodedaemon.Program))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write annotation %s of pod %s: %w", annotationMeta, client.ObjectKeyFromObject(pod), err)
	}
	return nil
}
