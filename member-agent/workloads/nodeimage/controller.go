package nodeimage

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"
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

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/nodeimages"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

const (
	// workers is how many NodeImages are written at a time, writesPerSecond how many in a second: a thousand nodes that
	// come at once get theirs within 20 seconds.
	workers         = 4
	writesPerSecond = 50
	// gatherReleases is how long jobs that end are gathered before what they leave is taken from a NodeImage.
	gatherReleases = 2 * time.Second
)

// reconciler keeps the NodeImages of nodes.
type reconciler struct {
	client    client.Client // reads from the cache
	images    *nodeimages.Store
	clock     clock.PassiveClock
	namespace string
	writes    flowcontrol.RateLimiter
}

// Add adds the controller of NodeImages to the manager.
func Add(_ context.Context, env *workload.Env) error {
	mgr := env.Manager
	r := &reconciler{client: mgr.GetClient(), images: env.Images(), clock: env.Clock, namespace: env.Namespace,
		writes: flowcontrol.NewTokenBucketRateLimiter(writesPerSecond, workers)}
	if r.clock == nil {
		r.clock = clock.RealClock{}
	}
	if r.namespace == "" {
		r.namespace = workload.DefaultNamespace
	}
	err := ctrl.NewControllerManagedBy(mgr).Named("nodeimage").
		Watches(&corev1.Node{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(predicate.Funcs{
			UpdateFunc: func(e event.UpdateEvent) bool {
				before, _ := e.ObjectOld.(*corev1.Node)
				after, _ := e.ObjectNew.(*corev1.Node)
				return before == nil || after == nil || workload.NodeChanged(before, after)
			},
		})).
		Watches(&v1beta1.NodeImage{}, &handler.EnqueueRequestForObject{}).
		Watches(&v1beta1.ImagePullJob{}, r.ofJobs()).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](workload.FirstBackoff,
				workload.LastBackoff),
		}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the controller of NodeImages: %w", err)
	}
	return nil
}

// ofJobs enqueues the NodeImages with entries of a job that needs fewer of them than before.
func (r *reconciler) ofJobs() handler.EventHandler {
	enqueue := func(ctx context.Context, object client.Object, q workload.Queue) {
		images, err := r.images.All(ctx)
		if err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "list the NodeImages of a job", "job", client.ObjectKeyFromObject(object))
			return
		}
		for _, image := range images {
			if names(image, object.GetUID()) {
				q.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Name: image.Name}}, gatherReleases)
			}
		}
	}
	return handler.Funcs{
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q workload.Queue) {
			before, _ := e.ObjectOld.(*v1beta1.ImagePullJob)
			after, _ := e.ObjectNew.(*v1beta1.ImagePullJob)
			switch {
			case before == nil || after == nil:
			case before.UID != after.UID:
				enqueue(ctx, before, q)
			case after.DeletionTimestamp != nil, after.Status.CompletionTime != nil && before.Status.CompletionTime == nil,
				before.Spec.Image != after.Spec.Image,
				!slices.Equal(before.Status.FailedNodes, after.Status.FailedNodes):
				enqueue(ctx, after, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q workload.Queue) { enqueue(ctx, e.Object, q) },
	}
}

// names reports whether an entry of a NodeImage has the job as an owner.
func names(image *v1beta1.NodeImage, job types.UID) bool {
	for _, spec := range image.Spec.Images {
		for i := range spec.Tags {
			if slices.ContainsFunc(spec.Tags[i].OwnerReferences, func(o v1beta1.JobReference) bool { return o.UID == job }) {
				return true
			}
		}
	}
	return false
}

// Reconcile brings one NodeImage to what its node and the jobs ask for.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	facts, err := r.gather(ctx, request.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	plan := Make(facts)
	if err := r.apply(ctx, request.Name, facts, plan); err != nil {
		return reconcile.Result{}, err
	}
	if plan.Next.IsZero() {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{RequeueAfter: max(plan.Next.Sub(facts.Now), time.Second)}, nil
}

func (r *reconciler) gather(ctx context.Context, name string) (Facts, error) {
	f := Facts{Jobs: map[types.UID]*v1beta1.ImagePullJob{}, Namespace: r.namespace, Now: r.clock.Now()}
	node, image := &corev1.Node{}, &v1beta1.NodeImage{}
	switch err := r.client.Get(ctx, client.ObjectKey{Name: name}, node); {
	case err == nil:
		f.Node = node
	case !apierrors.IsNotFound(err):
		return f, fmt.Errorf("read Node %s: %w", name, err)
	}
	switch err := r.client.Get(ctx, client.ObjectKey{Name: name}, image); {
	case err == nil:
		f.Image = image
	case !apierrors.IsNotFound(err):
		return f, fmt.Errorf("read NodeImage %s: %w", name, err)
	}
	var jobs v1beta1.ImagePullJobList
	if err := r.client.List(ctx, &jobs, client.UnsafeDisableDeepCopy); err != nil {
		return f, fmt.Errorf("list ImagePullJobs: %w", err)
	}
	for i := range jobs.Items {
		f.Jobs[jobs.Items[i].UID] = &jobs.Items[i]
	}
	return f, nil
}

func (r *reconciler) apply(ctx context.Context, name string, facts Facts, plan Plan) error {
	if !plan.Create && !plan.Delete && plan.Edit == nil {
		if facts.Image == nil {
			r.images.Forget(name)
		}
		return nil
	}
	if err := r.writes.Wait(ctx); err != nil {
		return fmt.Errorf("wait before a write of NodeImage %s: %w", name, err)
	}
	switch {
	case plan.Create:
		image := &v1beta1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: facts.Node.Labels}}
		if err := r.client.Create(ctx, image, workload.FieldOwner); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create NodeImage %s: %w", name, err)
		}
	case plan.Delete:
		uid := facts.Image.UID
		err := r.client.Delete(ctx, facts.Image, client.Preconditions{UID: &uid})
		if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			return fmt.Errorf("delete NodeImage %s: %w", name, err)
		}
	default:
		if err := r.images.Change(ctx, name, plan.Edit); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}
