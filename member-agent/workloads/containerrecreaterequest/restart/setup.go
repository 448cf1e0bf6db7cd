package restart

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
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
	// read returns what the spec says.
	read func(client.Object) (settings, error)
}

// settings are what the spec of a workload says about its pods.
type settings struct {
	limits budget.Limits
	// minReady is how long a pod must be Ready to be available, in seconds.
	minReady int32
	// paused: the user has paused updates.
	paused bool
}

// kinds are those kinds.
func kinds() []kind {
	return []kind{
		{v1beta1.CloneSetKind, func() client.Object { return &v1beta1.CloneSet{} }, ofCloneSet},
		{v1beta1.StatefulSetKind, func() client.Object { return &v1beta1.StatefulSet{} }, ofStatefulSet},
		{v1beta1.DaemonSetKind, func() client.Object { return &v1beta1.DaemonSet{} }, ofDaemonSet},
	}
}

func ofCloneSet(object client.Object) (settings, error) {
	set, _ := object.(*v1beta1.CloneSet)
	var s budget.Strategy
	rolling := set.Spec.UpdateStrategy.RollingUpdate
	if rolling != nil && set.Spec.UpdateStrategy.Type != v1beta1.OnDeleteCloneSetUpdateStrategyType {
		s = budget.Strategy{Partition: rolling.Partition, MaxUnavailable: rolling.MaxUnavailable,
			MaxSurge: rolling.MaxSurge, Paused: rolling.Paused}
	}
	limits, err := budget.Resolve(s, ptr.Deref(set.Spec.Replicas, 1))
	return settings{limits: limits, minReady: set.Spec.MinReadySeconds, paused: s.Paused}, err
}

func ofStatefulSet(object client.Object) (settings, error) {
	set, _ := object.(*v1beta1.StatefulSet)
	s := budget.Strategy{Defaults: budget.Defaults{MaxUnavailable: new(intstr.FromInt32(1)), RoundDown: true}}
	rolling := ptr.Deref(set.Spec.UpdateStrategy.RollingUpdate, v1beta1.RollingUpdateStatefulSetStrategy{})
	s.MaxUnavailable, s.Paused = rolling.MaxUnavailable, rolling.Paused
	if rolling.Partition != nil {
		s.Partition = new(intstr.FromInt32(*rolling.Partition))
	}
	limits, err := budget.Resolve(s, ptr.Deref(set.Spec.Replicas, 1))
	return settings{limits: limits, minReady: ptr.Deref(rolling.MinReadySeconds, 0), paused: s.Paused}, err
}

func ofDaemonSet(object client.Object) (settings, error) {
	set, _ := object.(*v1beta1.DaemonSet)
	rolling := ptr.Deref(set.Spec.UpdateStrategy.RollingUpdate, v1beta1.RollingUpdateDaemonSet{})
	p := budget.PerNode{Partition: rolling.Partition, MaxUnavailable: rolling.MaxUnavailable, MaxSurge: rolling.MaxSurge}
	limits, err := p.Resolve(set.Status.DesiredNumberScheduled)
	return settings{limits: limits, minReady: set.Spec.MinReadySeconds, paused: ptr.Deref(rolling.Paused, false)}, err
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
		clock: env.Clock, events: mgr.GetEventRecorder("flotilla-restart"), said: map[types.NamespacedName]string{}}
	if r.clock == nil {
		r.clock = clock.RealClock{}
	}
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
