package podunavailablebudget

import (
	"context"
	"errors"
	"maps"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/disruption"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/podunavailablebudget/budgets"
)

// Add adds the controller of PodUnavailableBudgets to the manager. It errs unless env.Disruptions is a Keeper.
func Add(ctx context.Context, env *workload.Env) error {
	keeper, ok := env.Disruptions.(*budgets.Keeper)
	if !ok {
		return errors.New("set up the controller of PodUnavailableBudget: nothing keeps the decisions")
	}
	r := &Reconciler{keeper: keeper}
	b := workload.For(env, r.kind()).ReadsPods(ctx)
	r.Controller = b.Controller
	inNamespace := handler.EnqueueRequestsFromMapFunc(r.inNamespace)
	asked := builder.WithPredicates(predicate.GenerationChangedPredicate{})
	b.Watches(&admissionregistrationv1.ValidatingWebhookConfiguration{}, inNamespace) // of all namespaces
	b.Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.counting),
		builder.WithPredicates(counts(env.Clock.Now))).
		Watches(&v1beta1.PodUnavailableBudget{}, inNamespace, asked). // they may overlap
		Watches(&apps.CloneSet{}, inNamespace, asked).
		Watches(&apps.StatefulSet{}, inNamespace, asked).
		Watches(&apps.UnitedDeployment{}, inNamespace, asked).
		Watches(&apps.DaemonSet{}, inNamespace).
		Watches(&appsv1.Deployment{}, inNamespace, asked).
		Watches(&appsv1.StatefulSet{}, inNamespace, asked)
	return b.Complete()
}

func (r *Reconciler) kind() workload.Kind[*v1beta1.PodUnavailableBudget, memory] {
	return workload.Kind[*v1beta1.PodUnavailableBudget, memory]{
		GVK:     v1beta1.PodUnavailableBudgetKind,
		New:     func() *v1beta1.PodUnavailableBudget { return &v1beta1.PodUnavailableBudget{} },
		NewList: func() client.ObjectList { return &v1beta1.PodUnavailableBudgetList{} },
		Workers: 4, // most passes write nothing
		Phases:  r.phases,
		Forget:  r.keeper.Forget,
	}
}

// counts passes the events of pods that change what is counted. The end of one that never was available does: without
// a workload it counts as one until then.
func counts(now func() time.Time) predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, ok := e.ObjectOld.(*corev1.Pod)
		is, isPod := e.ObjectNew.(*corev1.Pod)
		if !ok || !isPod {
			return false
		}
		at := now()
		return disruption.Available(was, at) != disruption.Available(is, at) || podstate.Ended(was) != podstate.Ended(is) ||
			(was.DeletionTimestamp == nil) != (is.DeletionTimestamp == nil) || workload.ChangedController(e) ||
			!maps.Equal(was.Labels, is.Labels)
	}}
}

// inNamespace returns the budgets of the namespace of an object.
func (r *Reconciler) inNamespace(ctx context.Context, object client.Object) (out []reconcile.Request) {
	var list v1beta1.PodUnavailableBudgetList
	// An error is not retried: the cache answers once it has the kind, and each object has a pass then.
	_ = r.Client.List(ctx, &list, client.InNamespace(object.GetNamespace()), client.UnsafeDisableDeepCopy)
	for i := range list.Items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return out
}

// counting returns the budgets that count a pod. A namespace can have hundreds of budgets.
func (r *Reconciler) counting(ctx context.Context, object client.Object) (out []reconcile.Request) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return r.inNamespace(ctx, object)
	}
	all, err := r.keeper.Counting(ctx, pod)
	if err != nil {
		return r.inNamespace(ctx, object)
	}
	for _, pub := range all {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(pub)})
	}
	return out
}
