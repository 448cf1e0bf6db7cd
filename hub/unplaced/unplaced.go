// Package unplaced says, on objects in federated namespaces of the hub, that the hub does not place their kind on
// members. No agent acts on them there either, so that they would stay without any answer.
package unplaced

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

// kind is a kind that a hub may not place.
type kind struct {
	schema.GroupVersionKind
	object func() client.Object
	list   func() client.ObjectList
	// status returns the status of an object, as it is and as it is to be.
	status func(o client.Object, answer answer) (have, want any)
}

// unplaced are the kinds of our definitions that the hub answers here unless it places them.
func unplaced() []kind {
	return []kind{
		{GroupVersionKind: apps.AdvancedCronJobKind,
			object: func() client.Object { return &apps.AdvancedCronJob{} },
			list:   func() client.ObjectList { return &apps.AdvancedCronJobList{} },
			status: func(o client.Object, answer answer) (have, want any) {
				job, _ := o.(*apps.AdvancedCronJob)
				status := job.Status.DeepCopy()
				status.ObservedGeneration = answer.generation(status.ObservedGeneration)
				status.Conditions = conditions.Merge(status.Conditions, answer.now, wanted(status.Conditions, answer)...)
				return &job.Status, status
			}},
	}
}

// Setup adds a controller for each kind to the manager that rules do not place.
func Setup(mgr ctrl.Manager, rules kinds.Table, clk clock.PassiveClock) error {
	for _, k := range unplaced() {
		if _, placed := rules[k.GroupKind()]; placed {
			continue
		}
		r := &reconciler{kind: k, client: mgr.GetClient(), clock: clk}
		err := ctrl.NewControllerManagedBy(mgr).Named("unplaced-"+strings.ToLower(k.Kind)).
			For(k.object(), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
			Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.in),
				builder.WithPredicates(predicate.LabelChangedPredicate{})).
			Complete(r)
		if err != nil {
			return fmt.Errorf("set up the controller of unplaced %ss: %w", k.Kind, err)
		}
	}
	return nil
}

type reconciler struct {
	kind
	client client.Client
	clock  clock.PassiveClock
}

// in returns the objects of a namespace.
func (r *reconciler) in(ctx context.Context, namespace client.Object) []reconcile.Request {
	list := r.list()
	var out []reconcile.Request
	err := r.client.List(ctx, list, client.InNamespace(namespace.GetName()))
	if err == nil {
		err = meta.EachListItem(list, func(item runtime.Object) error {
			if object, ok := item.(client.Object); ok {
				out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(object)})
			}
			return nil
		})
	}
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "list objects of a namespace", "kind", r.Kind, "namespace", namespace.GetName())
	}
	return out
}

// Reconcile writes the conditions of one object. In a namespace that is not federated it takes back what it wrote.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	object := r.object()
	if err := r.client.Get(ctx, request.NamespacedName, object); apierrors.IsNotFound(err) {
		return ctrl.Result{}, nil
	} else if err != nil {
		return ctrl.Result{}, fmt.Errorf("read %s %s: %w", r.Kind, request.NamespacedName, err)
	}
	federated, err := r.federated(ctx, request.Namespace)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("read namespace %s: %w", request.Namespace, err)
	}
	have, want := r.status(object, answer{r.Kind, object.GetGeneration(), federated, r.clock.Now()})
	if equality.Semantic.DeepEqual(have, want) {
		return ctrl.Result{}, nil
	}
	// All of it: the schema asks for the counters, which are zero, and conditions may go.
	patch, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/resourceVersion", "value": object.GetResourceVersion()},
		{"op": "add", "path": "/status", "value": want}})
	if err == nil {
		err = r.client.Status().Patch(ctx, object, client.RawPatch(types.JSONPatchType, patch),
			client.FieldOwner("flotilla-hub"))
	}
	if apierrors.IsInvalid(err) { // it has changed, which the cache is about to show
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("write the status of %s %s: %w", r.Kind, request.NamespacedName, err)
	}
	return ctrl.Result{}, nil
}

// answer is what there is to say about an object.
type answer struct {
	kind      string
	observed  int64
	federated bool
	now       time.Time
}

// generation returns the generation that the status answers, given the one that it answered before.
func (a answer) generation(before int64) int64 {
	if a.federated {
		return a.observed
	}
	return before
}

// message says what is wrong and what to do.
func (a answer) message() string {
	return fmt.Sprintf("a hub does not place %ss of apps.kruise.io on members, so nothing is created: apply it in "+
		"the members that are to run it, in a namespace that is not federated", a.kind)
}

// wanted returns the conditions that belong on an object with those of have. Where it is not federated an agent may
// have written others, which stay.
func wanted[C conditions.Own[C]](have []C, a answer) []conditions.Condition {
	var out []conditions.Condition
	for _, row := range []struct {
		condition string
		status    corev1.ConditionStatus
	}{
		{apps.ConditionFederated, corev1.ConditionFalse}, {apps.ConditionReady, corev1.ConditionFalse},
		{apps.ConditionReconciling, corev1.ConditionFalse}, {apps.ConditionStalled, corev1.ConditionTrue},
	} {
		if a.federated {
			out = append(out, conditions.Condition{Type: row.condition, Status: row.status,
				Reason: topology.PolicyUnknownKind, Message: a.message()})
			continue
		}
		for _, c := range have {
			common, _ := c.Common()
			if common.Type == row.condition && common.Reason == topology.PolicyUnknownKind {
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
