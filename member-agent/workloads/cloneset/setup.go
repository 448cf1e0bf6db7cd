package cloneset

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/freshness"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/namespaces"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/volumes"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/write"
)

// Options of the controller.
type Options struct {
	// Workers is how many CloneSets are worked on side by side; 0 means 16.
	Workers int
	// Clock tells the time; nil means the real one.
	Clock clock.PassiveClock
	// Federated tells whether a hub owns the workloads of a namespace; the controller does nothing there. Nil: nowhere.
	Federated func(ctx context.Context, namespace string) (bool, error)
	// Allowance tells whether a hub lends the CloneSet what it may disrupt, and whether that has run out. Nil: no hub does.
	Allowance func(context.Context, *v1beta1.CloneSet) (lent, over bool)
	// Foreign reports whether the CloneSet has content that its hub did not order: it is not acted on before Ordered tells
	// that the content is as ordered again. Nil: no hub orders any.
	Foreign func(*v1beta1.CloneSet) bool
	Ordered source.Source
	// ShortHash makes new pods name their revision by its short hash in the label controller-revision-hash, as OpenKruise
	// does with its gate CloneSetShortHash. Where all pods of a CloneSet do so already, new ones do so anyway.
	ShortHash bool
}

// gatherEvents is how long events of pods are gathered before their CloneSet is looked at: a rollout makes about five
// events for each pod, and 20 ms is small against the second that a pod takes to start.
const gatherEvents = 20 * time.Millisecond

// backoff between failed passes grows from the first to the second: a quota that was raised is noticed in half a minute.
const (
	firstBackoff = 50 * time.Millisecond
	lastBackoff  = 30 * time.Second
)

// Setup adds the controller of CloneSets to the manager, whose scheme must know apps.kruise.io/v1beta1, apps/v1 and core/v1.
// It registers indexes and reads nothing.
func Setup(ctx context.Context, mgr ctrl.Manager, opts Options) error {
	if opts.Workers == 0 {
		opts.Workers = 16
	}
	if opts.Clock == nil {
		opts.Clock = clock.RealClock{}
	}
	source, err := podset.NewSource(ctx, mgr.GetCache())
	if err != nil {
		return fmt.Errorf("set up CloneSets: %w", err)
	}
	claims, err := volumes.NewSource(ctx, mgr.GetCache())
	if err != nil {
		return fmt.Errorf("set up CloneSets: %w", err)
	}
	if err := history.Index(ctx, mgr.GetFieldIndexer(), v1beta1.CloneSetKind.Kind); err != nil {
		return fmt.Errorf("set up CloneSets: %w", err)
	}
	asks, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("set up CloneSets: %w", err)
	}
	pods, revisions := freshness.NewStore(opts.Clock), freshness.NewStore(opts.Clock)
	spreads := newSpreads(mgr.GetCache())
	r := &Reconciler{
		client:    mgr.GetClient(),
		live:      mgr.GetAPIReader(),
		events:    mgr.GetEventRecorder("flotilla-cloneset"),
		clock:     opts.Clock,
		federated: opts.Federated,
		allowance: opts.Allowance,
		foreign:   opts.Foreign,
		source:    source,
		claims:    claims,
		history:   history.Store{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Fresh: revisions},
		writer:    &write.Writer{Client: mgr.GetClient(), Fresh: pods, Claims: freshness.NewStore(opts.Clock)},
		pods:      pods,
		self:      freshness.NewStore(opts.Clock),
		revisions: revisions,
		pace:      newPace(),
		ruling:    spreads.ruling,
		noResize:  (&resizes{discovery: asks, clock: opts.Clock}).missing,
		shortHash: opts.ShortHash,

		namespaces: namespaces.New(mgr.GetClient()),
	}
	ofController := handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), &v1beta1.CloneSet{}, handler.OnlyControllerOwner())
	b := ctrl.NewControllerManagedBy(mgr).
		Named("cloneset").
		For(&v1beta1.CloneSet{}).
		Watches(&corev1.Pod{}, podEvents{client: mgr.GetClient()}).
		Watches(&corev1.PersistentVolumeClaim{}, ofController).
		Watches(&appsv1.ControllerRevision{}, ofController).
		WatchesRawSource(spreads).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: opts.Workers,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstBackoff, lastBackoff),
		})
	if opts.Ordered != nil {
		b = b.WatchesRawSource(opts.Ordered)
	}
	if opts.Federated != nil {
		b = b.Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.inNamespace), builder.OnlyMetadata,
			builder.WithPredicates(predicate.LabelChangedPredicate{}))
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("set up CloneSets: %w", err)
	}
	return nil
}

// inNamespace returns the CloneSets of a namespace whose owner may have changed.
func (r *Reconciler) inNamespace(ctx context.Context, namespace client.Object) []reconcile.Request {
	var list v1beta1.CloneSetList
	if err := r.client.List(ctx, &list, client.InNamespace(namespace.GetName()), client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "list CloneSets", "namespace", namespace.GetName())
		return nil
	}
	requests := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// podEvents puts the CloneSet of a pod into the queue.
type podEvents struct{ client client.Reader }

var _ handler.EventHandler = podEvents{}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Create handles a pod that came.
func (h podEvents) Create(ctx context.Context, e event.CreateEvent, q queue) { h.add(ctx, e.Object, q) }

// Update handles a pod that changed; if it changed its controller both are told.
func (h podEvents) Update(ctx context.Context, e event.UpdateEvent, q queue) {
	h.add(ctx, e.ObjectNew, q)
	before, after := metav1.GetControllerOf(e.ObjectOld), metav1.GetControllerOf(e.ObjectNew)
	if before != nil && (after == nil || before.UID != after.UID) {
		h.add(ctx, e.ObjectOld, q)
	}
}

// Delete handles a pod that is gone.
func (h podEvents) Delete(ctx context.Context, e event.DeleteEvent, q queue) { h.add(ctx, e.Object, q) }

// Generic is not used.
func (podEvents) Generic(context.Context, event.GenericEvent, queue) {}

func (h podEvents) add(ctx context.Context, pod client.Object, q queue) {
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
		if ref.Kind == v1beta1.CloneSetKind.Kind {
			enqueue(q, pod.GetNamespace(), ref.Name)
		}
		return
	}
	// A pod without a controller may be one to adopt.
	var list v1beta1.CloneSetList
	if err := h.client.List(ctx, &list, client.InNamespace(pod.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		return // a later event of the CloneSet finds the pod
	}
	for i := range list.Items {
		selector, err := metav1.LabelSelectorAsSelector(list.Items[i].Spec.Selector)
		if err == nil && !selector.Empty() && selector.Matches(labels.Set(pod.GetLabels())) {
			enqueue(q, pod.GetNamespace(), list.Items[i].Name)
		}
	}
}

func enqueue(q queue, namespace, name string) {
	q.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}, gatherEvents)
}
