package karmada

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
)

const (
	// conflictAgain is how often an object that is not Karmada's is looked at again: nothing tells when it goes.
	conflictAgain = 30 * time.Second
	// deleteAgain is how long the end of a deleted object is waited for, before it is looked at without an event.
	deleteAgain = 5 * time.Second
)

// Reconcile gathers what a Work asks for and what stands, does what is left to do, and reflects what came of it.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	w := &work.Work{}
	if err := r.works.Get(ctx, req.NamespacedName, w); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(req.NamespacedName)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("get Work %s: %w", req.NamespacedName, err)
	}
	o, err := parse(w)
	if err == nil {
		err = r.bind(ctx, w, o)
	}
	if err != nil {
		return r.notExecutable(ctx, w, o, err)
	}
	live, err := r.store.Get(ctx, o.ref)
	if err != nil {
		return ctrl.Result{}, err
	}
	switch {
	case w.DeletionTimestamp != nil:
		return r.end(ctx, w, o, live)
	case w.Spec.SuspendDispatching != nil && *w.Spec.SuspendDispatching:
		return ctrl.Result{}, r.report(ctx, w, o, live, outcome{held: true})
	}
	return r.carryOut(ctx, w, o, live)
}

// notExecutable handles a Work that cannot be read (its order is nil), or whose object cannot be watched. Nothing was
// ever created for a Work that the member refuses, so its finalizer may go.
func (r *Reconciler) notExecutable(ctx context.Context, w *work.Work, o *order, err error) (ctrl.Result, error) {
	var refused *refusal
	switch isRefused := errors.As(err, &refused); {
	case o != nil && !isRefused:
		return ctrl.Result{}, err
	case w.DeletionTimestamp != nil:
		return ctrl.Result{}, r.removeFinalizer(ctx, w)
	case isRefused:
		return ctrl.Result{RequeueAfter: conflictAgain}, r.report(ctx, w, nil, nil, outcome{message: refused.Error()})
	}
	return ctrl.Result{}, r.report(ctx, w, nil, nil, outcome{message: err.Error()}) // until the Work changes
}

// refusal is what the member does not take.
type refusal struct{ error }

// bind sees to it that objects of the kind are watched.
func (r *Reconciler) bind(ctx context.Context, w *work.Work, o *order) error {
	err := r.store.Bind(ctx, client.ObjectKeyFromObject(w), o.ref)
	if meta.IsNoMatchError(err) {
		return &refusal{fmt.Errorf("the member does not serve %s of %s; install its definition there",
			o.ref.Kind, o.ref.GroupVersion())}
	}
	if err != nil {
		return fmt.Errorf("watch %s: %w", o.ref, err)
	}
	return nil
}

// end deletes the object of a Work that is being deleted, or keeps it unmanaged. Then it removes the finalizer.
func (r *Reconciler) end(
	ctx context.Context, w *work.Work, o *order, live *unstructured.Unstructured,
) (ctrl.Result, error) {
	switch {
	case live == nil || !isOf(live, w): // gone, or another Work's by now
		r.forget(client.ObjectKeyFromObject(w))
		return ctrl.Result{}, r.removeFinalizer(ctx, w)
	case w.Spec.PreserveResourcesOnDeletion != nil && *w.Spec.PreserveResourcesOnDeletion:
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"uid": live.GetUID(), "labels": map[string]any{LabelManaged: nil},
			"annotations": map[string]any{annotationWorkNamespace: nil, annotationWorkName: nil, annotationGeneration: nil},
		}})
		if err != nil {
			return ctrl.Result{}, fmt.Errorf("encode the patch of %s: %w", o.ref, err)
		}
		release := client.RawPatch(types.MergePatchType, patch)
		err = r.member.Patch(ctx, shell(live), release, client.FieldOwner(fieldManager))
		if client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, fmt.Errorf("take the marks of Karmada off %s: %w", o.ref, err)
		}
		return ctrl.Result{RequeueAfter: deleteAgain}, nil // without its label it is gone for us, which is an event
	case live.GetDeletionTimestamp() != nil:
		return ctrl.Result{RequeueAfter: deleteAgain}, nil
	}
	err := r.member.Delete(ctx, shell(live), client.Preconditions{UID: new(live.GetUID())},
		client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("delete %s: %w", o.ref, err)
	}
	return ctrl.Result{RequeueAfter: deleteAgain}, nil
}

// removeFinalizer removes the finalizer of Karmada from the Work.
func (r *Reconciler) removeFinalizer(ctx context.Context, w *work.Work) error {
	at := slices.Index(w.Finalizers, work.ExecutionFinalizer)
	if at < 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": w.UID, "resourceVersion": w.ResourceVersion, // the list is written whole
		"finalizers": slices.Delete(slices.Clone(w.Finalizers), at, at+1),
	}})
	if err != nil {
		return fmt.Errorf("encode the patch of Work %s/%s: %w", w.Namespace, w.Name, err)
	}
	empty := &work.Work{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name}}
	err = r.hub.Patch(ctx, empty, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(fieldManager))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("take the finalizer off Work %s/%s: %w", w.Namespace, w.Name, err)
	}
	return nil
}
