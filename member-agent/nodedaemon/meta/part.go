package meta

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon"
)

// workers is how many pods are looked at, and containers stopped, at the same time.
const workers = 8

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

// reconciler looks at the pods of the node.
type reconciler struct {
	env nodedaemon.Env

	mu sync.Mutex
	// pods are what containers were created with, by pod and ID; stopped those that were stopped for their environment.
	pods    map[types.NamespacedName]map[string]created
	stopped map[string]bool
}

func newReconciler(env nodedaemon.Env) *reconciler {
	return &reconciler{env: env, pods: map[types.NamespacedName]map[string]created{}, stopped: map[string]bool{}}
}

func add(mgr manager.Manager, env nodedaemon.Env) error {
	concerned := predicate.NewPredicateFuncs(func(object client.Object) bool {
		pod, ok := object.(*corev1.Pod)
		return ok && cares(pod)
	})
	concerned.DeleteFunc = nil
	err := ctrl.NewControllerManagedBy(mgr).Named("meta").
		Watches(&corev1.Pod{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(concerned)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).Complete(newReconciler(env))
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
	for _, name := range restart {
		if err := r.restart(ctx, pod, name); err != nil {
			return ctrl.Result{}, fmt.Errorf("restart container %s of pod %s: %w", name, request.NamespacedName, err)
		}
	}
	return ctrl.Result{}, nil
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
		}
	}
	return now, nil
}

func (r *reconciler) forget(pod types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.pods[pod] {
		delete(r.stopped, id)
	}
	delete(r.pods, pod)
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

// restart stops a container once; the kubelet starts the next one.
func (r *reconciler) restart(ctx context.Context, pod *corev1.Pod, name string) error {
	id, _ := runs(pod, name)
	r.mu.Lock()
	done := r.stopped[id]
	r.mu.Unlock()
	if done {
		return nil
	}
	at := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == name })
	if err := r.stop(ctx, pod, &pod.Spec.Containers[at], id); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped[id] = true
	return nil
}
