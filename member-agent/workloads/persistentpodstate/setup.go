package persistentpodstate

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// Add adds the controllers of PersistentPodStates, and of those that annotations ask for, to the manager.
func Add(ctx context.Context, env *workload.Env) error {
	r := &Reconciler{Namespace: env.Namespace}
	b := workload.For(env, r.kind()).ReadsPods(ctx).OnNodes(ctx)
	r.Controller = b.Controller
	asked := builder.WithPredicates(predicate.GenerationChangedPredicate{})
	b.Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.ofPod)).
		Watches(&v1beta1.StatefulSet{}, r.ofWorkload(v1beta1.StatefulSetKind), asked).
		Watches(&appsv1.StatefulSet{}, r.ofWorkload(nativeStatefulSet()), asked)
	if err := b.Complete(); err != nil {
		return err
	}
	for kind, object := range map[schema.GroupVersionKind]func() client.Object{
		v1beta1.StatefulSetKind: func() client.Object { return &v1beta1.StatefulSet{} },
		nativeStatefulSet():     func() client.Object { return &appsv1.StatefulSet{} },
	} {
		if err := addGenerator(env, kind, object); err != nil {
			return err
		}
	}
	if err := env.Manager.Add(manager.RunnableFunc(custom(env))); err != nil {
		return fmt.Errorf("set up PersistentPodStates of the white list: %w", err)
	}
	return nil
}

func (r *Reconciler) kind() workload.Kind[*v1beta1.PersistentPodState, memory] {
	return workload.Kind[*v1beta1.PersistentPodState, memory]{
		GVK:     v1beta1.PersistentPodStateKind,
		New:     func() *v1beta1.PersistentPodState { return &v1beta1.PersistentPodState{} },
		NewList: func() client.ObjectList { return &v1beta1.PersistentPodStateList{} },
		Workers: 4, // most passes write nothing
		Phases:  r.phases,
	}
}

// ofPod returns the PersistentPodStates of the workload that controls a pod.
func (r *Reconciler) ofPod(ctx context.Context, pod client.Object) []reconcile.Request {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return nil
	}
	kind := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind()
	return r.of(ctx, pod.GetNamespace(), kind, owner.Name)
}

// ofWorkload enqueues the PersistentPodStates of workloads of a kind.
func (r *Reconciler) ofWorkload(kind schema.GroupVersionKind) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, object client.Object) []reconcile.Request {
		return r.of(ctx, object.GetNamespace(), kind.GroupKind(), object.GetName())
	})
}

func (r *Reconciler) of(ctx context.Context, namespace string, kind schema.GroupKind, name string) (
	out []reconcile.Request,
) {
	var list v1beta1.PersistentPodStateList
	// An error is not retried: each object has a pass when the cache has its kind.
	_ = r.Client.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy)
	for i := range list.Items {
		if ref := list.Items[i].Spec.TargetReference; ref.Name == name && kindOf(ref) == kind {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return out
}
