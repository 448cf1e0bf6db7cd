package containerrecreaterequest

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/containerrecreaterequest/restart"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/containerrecreaterequest/terminator"
)

// workers is how many requests are worked on at the same time.
const workers = 8

// reconciler works on ContainerRecreateRequests.
type reconciler struct {
	client client.Client
	// live reads from the API server, not from a cache.
	live    client.Reader
	daemons daemons
	gate    workload.Gate // nil without a hub
	clock   clock.PassiveClock
}

// Add adds the controller of ContainerRecreateRequests to the manager, and those that make such requests.
func Add(ctx context.Context, env *workload.Env) error {
	if env.Pods == nil {
		pods, err := podset.NewSource(ctx, env.Manager.GetCache())
		if err != nil {
			return fmt.Errorf("set up the controller of ContainerRecreateRequest: %w", err)
		}
		env.Pods = pods
	}
	r := &reconciler{client: env.Manager.GetClient(), live: env.Manager.GetAPIReader(), gate: env.Gate, clock: env.Clock,
		daemons: daemons{pods: env.Pods, gone: map[types.NamespacedName]time.Time{}}}
	if r.clock == nil {
		r.clock = clock.RealClock{}
	}
	err := ctrl.NewControllerManagedBy(env.Manager).Named("containerrecreaterequest").
		For(&v1beta1.ContainerRecreateRequest{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.ofPod)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](workload.FirstBackoff,
				workload.LastBackoff),
		}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the controller of ContainerRecreateRequest: %w", err)
	}
	if err := terminator.Add(env); err != nil {
		return err
	}
	return restart.Add(ctx, env)
}

// ofPod returns the requests of a pod that have not ended; for a pod of the daemon those of its node.
func (r *reconciler) ofPod(ctx context.Context, object client.Object) (out []reconcile.Request) {
	var list v1beta1.ContainerRecreateRequestList
	pod, ok := object.(*corev1.Pod)
	where := []client.ListOption{client.UnsafeDisableDeepCopy}
	if !ok || !isDaemon(pod) {
		where = append(where, client.InNamespace(object.GetNamespace()))
	}
	// An error is not retried: each request has a pass when the cache has its kind.
	_ = r.client.List(ctx, &list, where...)
	for i := range list.Items {
		request := &list.Items[i]
		own := request.Spec.PodName == object.GetName() && request.Namespace == object.GetNamespace()
		served := ok && isDaemon(pod) && request.Labels[v1beta1.LabelCRRNodeName] == pod.Spec.NodeName
		if (own || served) && (request.Status.Phase != v1beta1.CRRCompleted ||
			slices.Contains(request.Finalizers, v1beta1.FinalizerCRRUnready)) {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(request)})
		}
	}
	return out
}
