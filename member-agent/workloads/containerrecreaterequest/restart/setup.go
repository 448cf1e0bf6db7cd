package restart

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// kind is a kind whose pods can be restarted.
type kind struct {
	gvk schema.GroupVersionKind
	new func() client.Object
	// limits returns the limits in the spec, and whether updates are paused.
	limits func(client.Object) (budget.Limits, bool, error)
}

// kinds are those kinds.
func kinds() []kind {
	return []kind{
		{v1beta1.CloneSetKind, func() client.Object { return &v1beta1.CloneSet{} }, ofCloneSet},
		{v1beta1.StatefulSetKind, func() client.Object { return &v1beta1.StatefulSet{} }, ofStatefulSet},
		{v1beta1.DaemonSetKind, func() client.Object { return &v1beta1.DaemonSet{} }, ofDaemonSet},
	}
}

func ofCloneSet(object client.Object) (budget.Limits, bool, error) {
	set, _ := object.(*v1beta1.CloneSet)
	var s budget.Strategy
	if rolling := set.Spec.UpdateStrategy.RollingUpdate; rolling != nil {
		// A restart adds no pods, so a surge does not make maxUnavailable smaller.
		s = budget.Strategy{MaxUnavailable: rolling.MaxUnavailable, Paused: rolling.Paused}
	}
	limits, err := budget.Resolve(s, ptr.Deref(set.Spec.Replicas, 1))
	return limits, s.Paused, err
}

func ofStatefulSet(object client.Object) (budget.Limits, bool, error) {
	set, _ := object.(*v1beta1.StatefulSet)
	s := budget.Strategy{Defaults: budget.Defaults{MaxUnavailable: new(intstr.FromInt32(1)), RoundDown: true}}
	if rolling := set.Spec.UpdateStrategy.RollingUpdate; rolling != nil {
		s.MaxUnavailable, s.Paused = rolling.MaxUnavailable, rolling.Paused
	}
	limits, err := budget.Resolve(s, ptr.Deref(set.Spec.Replicas, 1))
	limits.MaxUnavailable = max(limits.MaxUnavailable, 1)
	return limits, s.Paused, err
}

func ofDaemonSet(object client.Object) (budget.Limits, bool, error) {
	set, _ := object.(*v1beta1.DaemonSet)
	var p budget.PerNode
	paused := false
	if rolling := set.Spec.UpdateStrategy.RollingUpdate; rolling != nil {
		p.MaxUnavailable, paused = rolling.MaxUnavailable, ptr.Deref(rolling.Paused, false)
	}
	limits, err := p.Resolve(set.Status.DesiredNumberScheduled)
	return limits, paused, err
}

// workers is how many workloads of a kind are worked on at the same time.
const workers = 2

// Add adds the controllers of restarts to the manager, one for each kind.
func Add(ctx context.Context, env *workload.Env) error {
	if env.Pods == nil {
		pods, err := podset.NewSource(ctx, env.Manager.GetCache())
		if err != nil {
			return fmt.Errorf("set up restarts: %w", err)
		}
		env.Pods = pods
	}
	for _, k := range kinds() {
		if err := add(env, k); err != nil {
			return fmt.Errorf("set up the restarts of %s: %w", k.gvk.Kind, err)
		}
	}
	return nil
}

func add(env *workload.Env, k kind) error {
	mgr := env.Manager
	name := strings.ToLower(k.gvk.Kind) + "-restart"
	r := &restarter{client: mgr.GetClient(), pods: env.Pods, gate: env.Gate, disruptions: env.Disruptions, kind: k,
		events: mgr.GetEventRecorder("flotilla-restart"), said: map[types.NamespacedName]string{}}
	asks := predicate.NewPredicateFuncs(func(object client.Object) bool {
		return object.GetAnnotations()[v1beta1.AnnotationRestart] != ""
	})
	toWorkload := func(_ context.Context, request client.Object) []reconcile.Request {
		of, workloadName, _ := strings.Cut(request.GetAnnotations()[v1beta1.AnnotationRestartOf], "/")
		if of != k.gvk.Kind {
			return nil
		}
		return []reconcile.Request{{NamespacedName: types.NamespacedName{
			Namespace: request.GetNamespace(), Name: workloadName}}}
	}
	return ctrl.NewControllerManagedBy(mgr).Named(name).
		Watches(k.new(), &handler.EnqueueRequestForObject{}, builder.WithPredicates(asks)).
		Watches(&v1beta1.ContainerRecreateRequest{}, handler.EnqueueRequestsFromMapFunc(toWorkload)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](workload.FirstBackoff,
				workload.LastBackoff),
		}).
		Complete(r)
}
