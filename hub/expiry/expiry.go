// Package expiry deletes objects of the hub that have ended, such as jobs after their ttlSecondsAfterFinished. Members'
// manifests have no such time, so that the object stays in all of them until the hub deletes it.
package expiry

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/flotilla-dev/flotilla/hub/kinds"
)

type reconciler struct {
	kind   kinds.Kind
	client client.Client
	clock  clock.PassiveClock
}

// Setup adds a controller to the manager for each kind of the rules whose objects end.
func Setup(mgr ctrl.Manager, rules kinds.Table, clk clock.PassiveClock) error {
	for _, kind := range rules {
		if kind.Expires == nil {
			continue
		}
		r := &reconciler{kind: kind, client: mgr.GetClient(), clock: clk}
		ended := predicate.Funcs{
			CreateFunc: func(e event.CreateEvent) bool { return r.expires(e.Object) },
			UpdateFunc: func(e event.UpdateEvent) bool { return r.expires(e.ObjectNew) },
			DeleteFunc: func(event.DeleteEvent) bool { return false },
		}
		err := ctrl.NewControllerManagedBy(mgr).Named("expiry-"+strings.ToLower(kind.GVK.Kind)).
			For(kind.New(), builder.WithPredicates(ended)).
			Complete(r)
		if err != nil {
			return fmt.Errorf("set up the deletion of objects of kind %s that have ended: %w", kind.GVK.Kind, err)
		}
	}
	return nil
}

// expires reports whether an object is to be deleted at some time, and is not being deleted yet.
func (r *reconciler) expires(object client.Object) bool {
	_, ends := r.kind.Expires(object)
	return ends && object.GetDeletionTimestamp() == nil
}

// Reconcile deletes the object when its time is over.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	object := r.kind.New()
	if err := r.client.Get(ctx, request.NamespacedName, object); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("read %s %s: %w", r.kind.GVK.Kind, request.NamespacedName, err)
	} else if err != nil || !r.expires(object) {
		return ctrl.Result{}, nil
	}
	at, _ := r.kind.Expires(object)
	if left := at.Sub(r.clock.Now()); left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	uid := object.GetUID()
	err := r.client.Delete(ctx, object, client.Preconditions{UID: &uid},
		client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("delete %s %s, which has ended and whose time is over: %w", r.kind.GVK.Kind,
			request.NamespacedName, err)
	}
	return ctrl.Result{}, nil
}
