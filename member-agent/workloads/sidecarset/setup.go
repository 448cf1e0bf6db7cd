package sidecarset

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/allow"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/marks"
)

// injectedIndex is the cache's index of pods by the SidecarSets whose sidecars they say they have.
const injectedIndex = "sidecarset.injected"

// podDelay is how long events of pods are gathered.
const podDelay = 100 * time.Millisecond

// Add adds the controller of SidecarSets to the manager.
func Add(ctx context.Context, env *workload.Env) error {
	r := &Reconciler{namespace: cmp.Or(env.Namespace, workload.DefaultNamespace)}
	r.allowed = &allow.Source{Live: env.Manager.GetAPIReader(), Namespaces: Namespaces(env.Namespace)}
	var err error
	if r.gauge, err = newMissing(metrics.Registry); err != nil {
		return err
	}
	b := workload.For(env, workload.Kind[*v1beta1.SidecarSet, memory]{
		GVK:     v1beta1.SidecarSetKind,
		New:     func() *v1beta1.SidecarSet { return &v1beta1.SidecarSet{} },
		NewList: func() client.ObjectList { return &v1beta1.SidecarSetList{} },
		Workers: 4,
		Phases:  r.phases,
		Forget:  func(key types.NamespacedName) { r.gauge.DeleteLabelValues(key.Name) },
	})
	r.Controller = b.Controller
	err = env.Manager.GetFieldIndexer().IndexField(ctx, &corev1.Pod{}, injectedIndex, func(o client.Object) []string {
		return marks.Sets(o)
	})
	if err != nil {
		return fmt.Errorf("index pods by their SidecarSets: %w", err)
	}
	b.ReadsPods(ctx).OwnsRevisions(ctx)
	b.Watches(&corev1.Pod{}, podEvents())
	// Another SidecarSet may have the names of this one, or not any more.
	b.Watches(&v1beta1.SidecarSet{}, handler.EnqueueRequestsFromMapFunc(r.others),
		builder.WithPredicates(predicate.GenerationChangedPredicate{}))
	return b.Complete()
}

// Namespaces returns where the objects of SidecarSets are that are not cluster-scoped: the agent's namespace, and that
// of an OpenKruise manager.
func Namespaces(agent string) []string {
	return slices.Compact([]string{cmp.Or(agent, workload.DefaultNamespace), allow.KruiseNamespace})
}

// podEvents enqueues the SidecarSets whose sidecars a pod has.
func podEvents() handler.EventHandler {
	enqueue := func(q workload.Queue, objects ...client.Object) {
		for _, object := range objects {
			for _, name := range marks.Sets(object) {
				q.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}, podDelay)
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q workload.Queue) { enqueue(q, e.Object) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q workload.Queue) { enqueue(q, e.ObjectOld, e.ObjectNew) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q workload.Queue) { enqueue(q, e.Object) },
	}
}

// others returns all other SidecarSets.
func (r *Reconciler) others(ctx context.Context, changed client.Object) (out []reconcile.Request) {
	sets, err := r.sets(ctx)
	if err != nil {
		return nil // each has a pass once the cache has the kind
	}
	for _, set := range sets {
		if set.Name != changed.GetName() {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(set)})
		}
	}
	return out
}
