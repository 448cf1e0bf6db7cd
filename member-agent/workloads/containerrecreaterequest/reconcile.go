package containerrecreaterequest

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podready"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// Reconcile makes one pass over a request.
func (r *reconciler) Reconcile(ctx context.Context, of reconcile.Request) (reconcile.Result, error) {
	f := facts{request: &v1beta1.ContainerRecreateRequest{}, pod: &corev1.Pod{}, now: r.clock.Now()}
	if err := r.client.Get(ctx, of.NamespacedName, f.request); err != nil {
		r.daemons.forget(of.NamespacedName)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	err := r.client.Get(ctx, types.NamespacedName{Namespace: of.Namespace, Name: f.request.Spec.PodName}, f.pod)
	switch {
	case apierrors.IsNotFound(err):
		f.pod = nil
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("read pod %s: %w", f.request.Spec.PodName, err)
	}
	if f.goneSince, err = r.daemons.goneSince(of.NamespacedName, f.request, f.now); err != nil {
		return reconcile.Result{}, fmt.Errorf("look for the daemon of ContainerRecreateRequest %s: %w", of.Name, err)
	}
	if f.expired, err = r.expired(ctx, f.request); err != nil {
		return reconcile.Result{}, err
	}
	p := makePlan(f)
	if err := r.carryOut(ctx, f, p); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: p.wait}, nil
}

// carryOut writes what the plan says. What fails first ends the pass: the next one goes on.
func (r *reconciler) carryOut(ctx context.Context, f facts, p plan) error {
	request := f.request
	if p.hold {
		if err := r.metadata(ctx, request, func() {
			controllerutil.AddFinalizer(request, v1beta1.FinalizerCRRUnready)
		}); err != nil {
			return err
		}
	}
	if p.mark != nil {
		if err := r.mark(ctx, f, *p.mark); err != nil {
			return err
		}
	}
	if !equality.Semantic.DeepEqual(request.Status, p.status) {
		before := request.DeepCopy()
		request.Status = p.status
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if err := r.client.Status().Patch(ctx, request, patch, workload.FieldOwner); err != nil {
			return fmt.Errorf("write the status of ContainerRecreateRequest %s: %w", request.Name, err)
		}
	}
	if p.release {
		if err := r.unmark(ctx, f); err != nil {
			return err
		}
		if err := r.metadata(ctx, request, func() {
			controllerutil.RemoveFinalizer(request, v1beta1.FinalizerCRRUnready)
			delete(request.Labels, v1beta1.LabelCRRActive)
		}); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	if p.remove {
		err := r.client.Delete(ctx, request, client.Preconditions{UID: &request.UID})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete ContainerRecreateRequest %s, which has ended: %w", request.Name, err)
		}
	}
	return nil
}

// metadata writes a change of finalizers or labels.
func (r *reconciler) metadata(ctx context.Context, request *v1beta1.ContainerRecreateRequest, change func()) error {
	before := request.DeepCopy()
	change()
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.client.Patch(ctx, request, patch, workload.FieldOwner); err != nil {
		return fmt.Errorf("write the metadata of ContainerRecreateRequest %s: %w", request.Name, err)
	}
	return nil
}

// mark makes the pod not ready because of the request, or no longer.
func (r *reconciler) mark(ctx context.Context, f facts, notReady bool) error {
	patch, err := podready.Patch(f.pod, writerOf(f.request), notReady, f.now)
	if err != nil || patch == nil {
		return err
	}
	target := &corev1.Pod{}
	target.Namespace, target.Name = f.pod.Namespace, f.pod.Name
	err = r.client.Status().Patch(ctx, target, client.RawPatch(types.StrategicMergePatchType, patch), workload.FieldOwner)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("mark pod %s: %w", f.pod.Name, err)
	}
	return nil
}

// unmark takes back the mark of a request whose finalizer is about to go. It reads the pod from the API server: a
// request can end before the cache shows its mark, and nothing would take it back later.
func (r *reconciler) unmark(ctx context.Context, f facts) error {
	if !controllerutil.ContainsFinalizer(f.request, v1beta1.FinalizerCRRUnready) {
		return nil
	}
	pod := &corev1.Pod{}
	err := r.live.Get(ctx, types.NamespacedName{Namespace: f.request.Namespace, Name: f.request.Spec.PodName}, pod)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read pod %s: %w", f.request.Spec.PodName, err)
	}
	f.pod = pod
	if own := f.own(); err != nil || own == nil || !marked(own, f.request) {
		return nil
	}
	return r.mark(ctx, f, false)
}
