// Package expiry deletes jobs that the hub placed on members after their ttlSecondsAfterFinished. Members' manifests
// have no such time, so that the job stays in all of them until the hub deletes it.
package expiry

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
)

type reconciler struct {
	client client.Client
	clock  clock.PassiveClock
}

// Setup adds the controller to the manager if the rules place jobs.
func Setup(mgr ctrl.Manager, rules kinds.Table, clk clock.PassiveClock) error {
	if _, placed := rules[apps.BroadcastJobKind.GroupKind()]; !placed {
		return nil
	}
	ended := predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return expires(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool { return expires(e.ObjectNew) },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
	err := ctrl.NewControllerManagedBy(mgr).Named("expiry").
		For(&apps.BroadcastJob{}, builder.WithPredicates(ended)).
		Complete(&reconciler{client: mgr.GetClient(), clock: clk})
	if err != nil {
		return fmt.Errorf("set up the deletion of jobs that have ended: %w", err)
	}
	return nil
}

// expires reports whether an object is a job of the hub that ended and is to be deleted after some time.
func expires(object client.Object) bool {
	job, ok := object.(*apps.BroadcastJob)
	if !ok || job.DeletionTimestamp != nil || job.Status.CompletionTime == nil ||
		job.Spec.CompletionPolicy.TTLSecondsAfterFinished == nil {
		return false
	}
	for i := range job.Status.Conditions {
		if c := &job.Status.Conditions[i]; string(c.Type) == apps.ConditionFederated {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// Reconcile deletes the job when its time is over.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	job := &apps.BroadcastJob{}
	if err := r.client.Get(ctx, request.NamespacedName, job); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("read BroadcastJob %s: %w", request.NamespacedName, err)
	} else if err != nil || !expires(job) {
		return ctrl.Result{}, nil
	}
	ttl := time.Duration(*job.Spec.CompletionPolicy.TTLSecondsAfterFinished) * time.Second
	if left := job.Status.CompletionTime.Add(ttl).Sub(r.clock.Now()); left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	err := r.client.Delete(ctx, job, client.Preconditions{UID: &job.UID},
		client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("delete BroadcastJob %s after ttlSecondsAfterFinished: %w", request.NamespacedName,
			err)
	}
	return ctrl.Result{}, nil
}
