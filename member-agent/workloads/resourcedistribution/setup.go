package resourcedistribution

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// Add adds the controller of ResourceDistributions to the manager. Where the agent may not read and write all Secrets
// and ConfigMaps, the controller only says so.
func Add(_ context.Context, env *workload.Env) error {
	r := &Reconciler{}
	if !env.Distributes {
		b := workload.For(env, r.kind(r.refuse))
		r.Controller = b.Controller
		return b.Complete()
	}
	b := workload.For(env, r.kind(r.phases))
	r.Controller = b.Controller
	marked, err := labels.NewRequirement(v1beta1.LabelDistribution, selection.Exists, nil)
	if err != nil {
		return fmt.Errorf("select copies: %w", err)
	}
	mgr := env.Manager
	// A cache of its own, for objects with the label of copies alone: the manager's has other ConfigMaps too.
	r.copies, err = cache.New(mgr.GetConfig(), cache.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		HTTPClient: mgr.GetHTTPClient(), DefaultLabelSelector: labels.NewSelector().Add(*marked),
		DefaultTransform: cache.TransformStripManagedFields()})
	if err != nil {
		return fmt.Errorf("make a cache of copies: %w", err)
	}
	if err := mgr.Add(r.copies); err != nil {
		return fmt.Errorf("add a cache of copies: %w", err)
	}
	for _, kind := range []string{kindSecret, kindConfigMap} {
		b.WatchesRawSource(source.Kind(r.copies, metadataOf(kind),
			handler.TypedEnqueueRequestForOwner[*metav1.PartialObjectMetadata](mgr.GetScheme(), mgr.GetRESTMapper(),
				&v1beta1.ResourceDistribution{}, handler.OnlyControllerOwner())))
	}
	b.WatchesMetadata(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.all), builder.WithPredicates(coming()))
	return b.Complete()
}

func (r *Reconciler) kind(phases func(*pass) []workload.Phase) workload.Kind[*v1beta1.ResourceDistribution, memory] {
	return workload.Kind[*v1beta1.ResourceDistribution, memory]{
		GVK:     v1beta1.ResourceDistributionKind,
		New:     func() *v1beta1.ResourceDistribution { return &v1beta1.ResourceDistribution{} },
		NewList: func() client.ObjectList { return &v1beta1.ResourceDistributionList{} },
		Workers: 2, // each makes many requests at a time
		Phases:  phases,
	}
}

// metadataOf returns the metadata of an object of a kind of v1.
func metadataOf(kind string) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	return o
}

// coming passes the events of namespaces that come, begin to go, are gone, or get other labels.
func coming() predicate.Predicate {
	return predicate.Or(predicate.LabelChangedPredicate{}, predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return (e.ObjectOld.GetDeletionTimestamp() == nil) != (e.ObjectNew.GetDeletionTimestamp() == nil)
	}})
}

// all returns all ResourceDistributions.
func (r *Reconciler) all(ctx context.Context, _ client.Object) (out []reconcile.Request) {
	var list v1beta1.ResourceDistributionList
	// An error is not retried: the cache answers once it has the kind, and each object has a pass then.
	_ = r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy)
	_ = meta.EachListItem(&list, func(item runtime.Object) error {
		object, _ := item.(client.Object)
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(object)})
		return nil
	})
	return out
}
