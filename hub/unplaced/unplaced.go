// Package unplaced says, on objects in federated namespaces of the hub, that the hub does not place their kind on
// members. No agent acts on them there either, so that they would stay without any answer.
package unplaced

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
)

// message says what is wrong and what to do.
const message = "a hub does not place DaemonSets of apps.kruise.io on members, so nothing is created: apply it in " +
	"the members that are to run it, in a namespace that is not federated"

// Setup adds the controller to the manager, unless rules places the kind.
func Setup(mgr ctrl.Manager, rules kinds.Table, clk clock.PassiveClock) error {
	if _, placed := rules[apps.DaemonSetKind.GroupKind()]; placed {
		return nil
	}
	r := &reconciler{client: mgr.GetClient(), clock: clk}
	err := ctrl.NewControllerManagedBy(mgr).Named("unplaced").
		For(&apps.DaemonSet{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.in),
			builder.WithPredicates(predicate.LabelChangedPredicate{})).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up controller unplaced: %w", err)
	}
	return nil
}

type reconciler struct {
	client client.Client
	clock  clock.PassiveClock
}

// in returns the objects of a namespace.
func (r *reconciler) in(ctx context.Context, namespace client.Object) []reconcile.Request {
	list := &apps.DaemonSetList{}
	if err := r.client.List(ctx, list, client.InNamespace(namespace.GetName())); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "list DaemonSets of a namespace", "namespace", namespace.GetName())
	}
	var out []reconcile.Request
	for i := range list.Items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return out
}

// Reconcile writes the conditions of one object. In a namespace that is not federated it takes back what it wrote.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	set := &apps.DaemonSet{}
	if err := r.client.Get(ctx, request.NamespacedName, set); apierrors.IsNotFound(err) {
		return ctrl.Result{}, nil
	} else if err != nil {
		return ctrl.Result{}, fmt.Errorf("read DaemonSet %s: %w", request.NamespacedName, err)
	}
	federated, err := r.federated(ctx, request.Namespace)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("read namespace %s: %w", request.Namespace, err)
	}
	status := set.Status.DeepCopy()
	if federated {
		status.ObservedGeneration = set.Generation
	}
	status.Conditions = conditions.Merge(status.Conditions, r.clock.Now(), wanted(status.Conditions, federated)...)
	if equality.Semantic.DeepEqual(&set.Status, status) {
		return ctrl.Result{}, nil
	}
	// All of it: the schema asks for the counters, which are zero, and conditions may go.
	patch, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/resourceVersion", "value": set.ResourceVersion},
		{"op": "add", "path": "/status", "value": status}})
	if err == nil {
		err = r.client.Status().Patch(ctx, set, client.RawPatch(types.JSONPatchType, patch),
			client.FieldOwner("flotilla-hub"))
	}
	if apierrors.IsInvalid(err) { // it has changed, which the cache is about to show
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("write the status of DaemonSet %s: %w", request.NamespacedName, err)
	}
	return ctrl.Result{}, nil
}

// wanted returns the conditions that belong on an object with those of have. Where it is not federated an agent may
// have written others, which stay.
func wanted(have []apps.DaemonSetCondition, federated bool) []conditions.Condition {
	var out []conditions.Condition
	for _, row := range []struct {
		condition string
		status    corev1.ConditionStatus
	}{
		{apps.ConditionFederated, corev1.ConditionFalse}, {apps.ConditionReady, corev1.ConditionFalse},
		{apps.ConditionReconciling, corev1.ConditionFalse}, {apps.ConditionStalled, corev1.ConditionTrue},
	} {
		if federated {
			out = append(out, conditions.Condition{Type: row.condition, Status: row.status,
				Reason: topology.PolicyUnknownKind, Message: message})
			continue
		}
		for _, c := range have {
			if string(c.Type) == row.condition && c.Reason == topology.PolicyUnknownKind {
				out = append(out, conditions.Remove(row.condition))
			}
		}
	}
	return out
}

// federated reports whether the namespace is.
func (r *reconciler) federated(ctx context.Context, name string) (bool, error) {
	namespace := &corev1.Namespace{}
	if err := r.client.Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return namespace.Labels[topology.LabelFederated] == "true", nil
}
