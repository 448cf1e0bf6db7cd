package restart

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// orphans takes the mark of a restart from pods that no workload controls any more, such as those of a workload that
// was deleted without its pods.
type orphans struct{ restarter }

// addOrphans adds the controller of such pods to the manager.
func addOrphans(env *workload.Env) error {
	o := &orphans{restarter{client: env.Manager.GetClient()}}
	toPod := func(_ context.Context, object client.Object) []reconcile.Request {
		request, ok := object.(*v1beta1.ContainerRecreateRequest)
		if !ok || request.Annotations[v1beta1.AnnotationRestartOf] == "" {
			return nil
		}
		return []reconcile.Request{{NamespacedName: types.NamespacedName{
			Namespace: request.Namespace, Name: request.Spec.PodName}}}
	}
	err := ctrl.NewControllerManagedBy(env.Manager).Named("orphan-restart").
		Watches(&corev1.Pod{}, &handler.EnqueueRequestForObject{},
			builder.WithPredicates(predicate.NewPredicateFuncs(isOrphan))).
		Watches(&v1beta1.ContainerRecreateRequest{}, handler.EnqueueRequestsFromMapFunc(toPod)).
		Complete(o)
	if err != nil {
		return fmt.Errorf("set up the controller of pods whose restart has no workload: %w", err)
	}
	return nil
}

// isOrphan reports whether the object is a pod that has LabelRestarting, and that no workload controls which can
// restart. A pod that is being deleted is none.
func isOrphan(object client.Object) bool {
	if !isMarked(object) || object.GetDeletionTimestamp() != nil {
		return false
	}
	owner := metav1.GetControllerOfNoCopy(object)
	return owner == nil || !slices.ContainsFunc(kinds(), func(k kind) bool {
		return owner.Kind == k.gvk.Kind && strings.HasPrefix(owner.APIVersion, k.gvk.Group+"/")
	})
}

// Reconcile takes the mark from one pod, unless a request of it has not ended: its end brings another pass.
func (o *orphans) Reconcile(ctx context.Context, of reconcile.Request) (reconcile.Result, error) {
	pod := &corev1.Pod{}
	if err := o.client.Get(ctx, of.NamespacedName, pod); err != nil || !isOrphan(pod) {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	var list v1beta1.ContainerRecreateRequestList
	if err := o.client.List(ctx, &list, client.InNamespace(pod.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, fmt.Errorf("list ContainerRecreateRequests in %s: %w", pod.Namespace, err)
	}
	for i := range list.Items {
		if uidOf(&list.Items[i]) == pod.UID && list.Items[i].Status.Phase != v1beta1.CRRCompleted {
			return reconcile.Result{}, nil
		}
	}
	return reconcile.Result{}, o.mark(ctx, pod, false)
}
