package restart

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/restarts"
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
	// grace is the termination grace period in the template, in seconds.
	grace int64
	// paused: the user has paused updates. onDelete: the controller updates no pod by itself.
	paused, onDelete bool
	// unseen: the controller has not acted on the spec yet.
	unseen bool
	// old is how many pods do not have the update revision, and can get it.
	old int32
	// stuck says why the update does not go on; "" if nothing says that it does not.
	stuck string
}

// updating says that the restart waits for an update.
func (s settings) updating() string {
	if s.stuck != "" {
		return "an update of the workload does not go on: " + s.stuck + "; correct the template, or undo the update with " +
			"flotilla rollout undo"
	}
	return "an update of the workload is under way; the restart goes on when its pods are updated"
}

// stuck returns why the update of a workload with these conditions does not go on, "" if none of them says so.
func stuck[C conditions.Own[C]](list []C) string {
	for _, own := range list {
		c, _ := own.Common()
		if c.Type == v1beta1.ConditionStalled && c.Status == metav1.ConditionTrue ||
			c.Type == v1beta1.ConditionProgressing && c.Status == metav1.ConditionFalse {
			return cmp.Or(c.Message, c.Reason)
		}
	}
	return ""
}

// defaultGrace is the termination grace period of a template without one, in seconds.
const defaultGrace = 30

// settingsOf returns what all kinds have, given the observed generation and the grace period of the template.
func settingsOf(object client.Object, observed int64, grace *int64) settings {
	return settings{unseen: observed < object.GetGeneration(), grace: min(ptr.Deref(grace, defaultGrace), math.MaxInt32)}
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
	out := settingsOf(set, set.Status.ObservedGeneration, set.Spec.Template.Spec.TerminationGracePeriodSeconds)
	out.onDelete = set.Spec.UpdateStrategy.Type == v1beta1.OnDeleteCloneSetUpdateStrategyType
	if rolling := set.Spec.UpdateStrategy.RollingUpdate; rolling != nil && !out.onDelete {
		s = budget.Strategy{Partition: rolling.Partition, MaxUnavailable: rolling.MaxUnavailable,
			MaxSurge: rolling.MaxSurge, Paused: rolling.Paused}
	}
	limits, err := budget.Resolve(s, ptr.Deref(set.Spec.Replicas, 1))
	out.limits, out.minReady, out.paused = limits, set.Spec.MinReadySeconds, s.Paused
	out.old, out.stuck = set.Status.Replicas-set.Status.UpdatedReplicas, stuck(set.Status.Conditions)
	return out, err
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
	out := settingsOf(set, set.Status.ObservedGeneration, set.Spec.Template.Spec.TerminationGracePeriodSeconds)
	out.onDelete = set.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType
	out.limits, out.minReady, out.paused = limits, ptr.Deref(rolling.MinReadySeconds, 0), s.Paused
	out.old, out.stuck = set.Status.Replicas-set.Status.UpdatedReplicas, stuck(set.Status.Conditions)
	return out, err
}

func ofDaemonSet(object client.Object) (settings, error) {
	set, _ := object.(*v1beta1.DaemonSet)
	rolling := ptr.Deref(set.Spec.UpdateStrategy.RollingUpdate, v1beta1.RollingUpdateDaemonSet{})
	p := budget.PerNode{Partition: rolling.Partition, MaxUnavailable: rolling.MaxUnavailable, MaxSurge: rolling.MaxSurge}
	limits, err := p.Resolve(set.Status.DesiredNumberScheduled)
	out := settingsOf(set, set.Status.ObservedGeneration, set.Spec.Template.Spec.TerminationGracePeriodSeconds)
	out.onDelete = set.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType
	out.limits, out.minReady, out.paused = limits, set.Spec.MinReadySeconds, ptr.Deref(rolling.Paused, false)
	out.old = set.Status.CurrentNumberScheduled - set.Status.UpdatedNumberScheduled
	out.stuck = stuck(set.Status.Conditions)
	if counts := set.Status.NodeCounts; counts != nil { // an update does not wait for these
		out.old -= counts.NotUpdatable + counts.LostOutdated
	}
	return out, err
}

// Workload returns an empty object of a kind whose pods can be restarted; nil for another kind.
func Workload(kind string) client.Object {
	for _, k := range kinds() {
		if k.gvk.Kind == kind {
			return k.new()
		}
	}
	return nil
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
	if env.Refusals == nil {
		env.Refusals = &restarts.Refusals{}
	}
	for _, k := range kinds() {
		if err := add(env, k); err != nil {
			return fmt.Errorf("set up the restarts of %s: %w", k.gvk.Kind, err)
		}
	}
	return addOrphans(env)
}

func add(env *workload.Env, k kind) error {
	mgr := env.Manager
	name := strings.ToLower(k.gvk.Kind) + "-restart"
	r := &restarter{client: mgr.GetClient(), pods: env.Pods, gate: env.Gate, disruptions: env.Disruptions, kind: k,
		clock: env.Clock, events: mgr.GetEventRecorder("flotilla-restart"), said: map[types.NamespacedName]string{},
		refusals: env.Refusals}
	if r.clock == nil {
		r.clock = clock.RealClock{}
	}
	toWorkload := func(_ context.Context, request client.Object) []reconcile.Request {
		of, workloadName, _ := strings.Cut(request.GetAnnotations()[v1beta1.AnnotationRestartOf], "/")
		if of != k.gvk.Kind {
			return nil
		}
		return []reconcile.Request{{NamespacedName: types.NamespacedName{
			Namespace: request.GetNamespace(), Name: workloadName}}}
	}
	ofPod := func(_ context.Context, pod client.Object) []reconcile.Request {
		owner := metav1.GetControllerOfNoCopy(pod)
		if owner == nil || owner.Kind != k.gvk.Kind || !strings.HasPrefix(owner.APIVersion, k.gvk.Group+"/") {
			return nil
		}
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: pod.GetNamespace(), Name: owner.Name}}}
	}
	return ctrl.NewControllerManagedBy(mgr).Named(name).
		Watches(k.new(), &handler.EnqueueRequestForObject{}, builder.WithPredicates(asks())).
		Watches(&v1beta1.ContainerRecreateRequest{}, handler.EnqueueRequestsFromMapFunc(toWorkload)).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(ofPod),
			builder.WithPredicates(predicate.NewPredicateFuncs(isMarked))).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](workload.FirstBackoff,
				workload.LastBackoff),
		}).
		Complete(r)
}

// asks passes workloads for which a restart is asked, or was until this event.
func asks() predicate.Predicate {
	has := func(object client.Object) bool { return object.GetAnnotations()[v1beta1.AnnotationRestart] != "" }
	all := predicate.NewPredicateFuncs(has)
	all.UpdateFunc = func(e event.UpdateEvent) bool { return has(e.ObjectOld) || has(e.ObjectNew) }
	return all
}

// isMarked passes pods with LabelRestarting.
func isMarked(pod client.Object) bool {
	_, has := pod.GetLabels()[v1beta1.LabelRestarting]
	return has
}
