package uniteddeployment

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	kruise "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/namespaces"
)

// defaultWorkers is how many UnitedDeployments are worked on at once. A pass costs a few reads from the cache and one
// request per child that changes, so a few workers keep an API server busy.
const defaultWorkers = 4

// Options of the controller.
type Options struct {
	// Workers is how many UnitedDeployments are worked on at once; 0 is the default of 4.
	Workers int
	// Clock gives the times in conditions; nil is the real one.
	Clock clock.PassiveClock
	// ClusterName is what this cluster answers to node selector requirements on topology.flotilla.dev/cluster: those that it
	// fulfils are left out of the pods. "" if it has none.
	ClusterName string
	// Federated tells whether a hub owns the workloads of a namespace; the controller does nothing there. Nil: nowhere.
	Federated func(ctx context.Context, namespace string) (bool, error)
	// Allowance tells whether a hub lends the UnitedDeployment what it may disrupt, and whether that has run out. Nil: no hub does.
	Allowance func(context.Context, *kruise.UnitedDeployment) (lent, over bool)
	// Foreign reports whether the UnitedDeployment has content that its hub did not order: it is not acted on before Ordered
	// tells that the content is as ordered again. Nil: no hub orders any.
	Foreign func(*kruise.UnitedDeployment) bool
	Ordered source.Source
}

// Setup adds the controller to the manager, whose scheme must know apps.kruise.io/v1beta1, apps/v1 and core/v1.
func Setup(ctx context.Context, mgr ctrl.Manager, opts Options) error {
	indexer := mgr.GetFieldIndexer()
	if err := errors.Join(
		indexChildren(ctx, indexer),
		indexPods(ctx, indexer),
		history.Index(ctx, indexer, kruise.UnitedDeploymentKind.Kind),
	); err != nil {
		return err
	}
	if opts.Workers <= 0 {
		opts.Workers = defaultWorkers
	}
	if opts.Clock == nil {
		opts.Clock = clock.RealClock{}
	}
	r := &reconciler{
		client:    mgr.GetClient(),
		live:      mgr.GetAPIReader(),
		revisions: history.Store{Client: mgr.GetClient(), Live: mgr.GetAPIReader()},
		clock:     opts.Clock,
		cluster:   opts.ClusterName,
		federated: opts.Federated,
		allowance: opts.Allowance,
		foreign:   opts.Foreign,
		ledger:    newLedger(),
		events:    mgr.GetEventRecorder("flotilla-uniteddeployment"),

		namespaces: namespaces.New(mgr.GetClient()),
	}
	// Events of its own status pass too: a pass that saw an old status in the cache is followed by one that sees the new.
	b := ctrl.NewControllerManagedBy(mgr).
		Named("uniteddeployment").
		For(&kruise.UnitedDeployment{}).
		Owns(&kruise.CloneSet{}).
		Owns(&appsv1.Deployment{}).
		Owns(&appsv1.StatefulSet{}).
		Watches(&corev1.Pod{}, podEvents{client: mgr.GetClient()}).
		WithOptions(controller.Options{MaxConcurrentReconciles: opts.Workers})
	if opts.Ordered != nil {
		b = b.WatchesRawSource(opts.Ordered)
	}
	if opts.Federated != nil {
		b = b.WatchesMetadata(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.inNamespace), builder.WithPredicates(predicate.LabelChangedPredicate{}))
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("set up the UnitedDeployment controller: %w", err)
	}
	return nil
}

// inNamespace returns the UnitedDeployments of a namespace whose owner may have changed.
func (r *reconciler) inNamespace(ctx context.Context, namespace client.Object) []reconcile.Request {
	var list kruise.UnitedDeploymentList
	if err := r.client.List(ctx, &list, client.InNamespace(namespace.GetName()), client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "list UnitedDeployments", "namespace", namespace.GetName())
		return nil
	}
	requests := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}
