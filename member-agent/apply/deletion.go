package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/namespaces"
)

// propagationOf returns how the object of a Work is deleted.
func propagationOf(w *work.Work) client.PropagationPolicy {
	if w.Annotations[topology.AnnotationPropagation] == string(metav1.DeletePropagationForeground) {
		return client.PropagationPolicy(metav1.DeletePropagationForeground)
	}
	return client.PropagationPolicy(metav1.DeletePropagationBackground)
}

// lingers reports whether an object of this hub is being deleted and still exists.
func lingers(facts Facts) bool {
	return !facts.Suspended && facts.Live != nil && Owner(facts.Live) == facts.Order.HubID &&
		facts.Live.GetDeletionTimestamp() != nil
}

// deletingMessage says what an object that is being deleted waits for, and what happens after that.
func deletingMessage(facts Facts) string {
	message := fmt.Sprintf("%s in the member: %s", facts.Order.Ref, conditions.Waiting(facts.Live))
	if !facts.Deleting {
		message += "; the hub did not order that: the object is created again when it is gone"
	}
	return message
}

// terminating reports whether the cache shows that a namespace is being deleted. If the cache does not know, the API
// server refuses the request.
func (r *Reconciler) terminating(ctx context.Context, name string) bool {
	if name == "" {
		return false
	}
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return r.member.Get(ctx, client.ObjectKey{Name: name}, namespace) == nil && namespace.DeletionTimestamp != nil
}

// awaitNamespace stores that the namespace of an order is being deleted in the member, and returns when to try again.
// The namespace is created again when it is gone.
func (r *Reconciler) awaitNamespace(w *work.Work, m *memo) ctrl.Result {
	m.Refused, m.RetryAt = m.order.Hash, r.Clock.Now().Add(namespaces.LookAgain)
	if w.DeletionTimestamp.IsZero() {
		r.outcome(w, m, false, work.ReasonNamespaceTerminating, fmt.Sprintf(
			"%s waits: namespace %s is being deleted in the member, and nothing can be created there; "+
				"the agent creates both when it is gone",
			m.order.Ref, m.order.Ref.Namespace))
	}
	return ctrl.Result{RequeueAfter: namespaces.LookAgain}
}

// carryOutDeletion deletes the object, and finishes the Work if the object is gone already. Otherwise the event of the
// deletion wakes the Work again.
func (r *Reconciler) carryOutDeletion(
	ctx context.Context, w *work.Work, m *memo, live *unstructured.Unstructured,
) (ctrl.Result, error) {
	// First, so that an agent that restarts before the Work is gone does not create the object again.
	if err := r.Copies.Keep(ctx, w); err != nil {
		return ctrl.Result{}, err
	}
	gone, err := r.delete(ctx, w, m, live)
	if err != nil {
		return ctrl.Result{}, err
	}
	if gone {
		return ctrl.Result{}, r.finish(ctx, w)
	}
	return ctrl.Result{RequeueAfter: deleteAgain}, nil
}

// delete deletes the object with the uid of live, and reports whether it was gone already.
func (r *Reconciler) delete(
	ctx context.Context, w *work.Work, m *memo, live *unstructured.Unstructured,
) (gone bool, err error) {
	err = r.member.Delete(ctx, shell(live), client.Preconditions{UID: new(live.GetUID())}, propagationOf(w))
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("delete %s: %w", m.order.Ref, err)
	}
	logger(ctx, m).Info("Deleted, as the hub ordered")
	return false, nil
}

// release orphans an object: it removes the hub's label and annotations. Limits that the hub granted stay, in the spec
// or in AnnotationBudget, so that no pod moves; an annotation records the user's own values.
func (r *Reconciler) release(ctx context.Context, w *work.Work, m *memo, live *unstructured.Unstructured) error {
	strategy, err := orphanAnnotation(w, live)
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":    live.GetUID(), // no other object of that name
		"labels": map[string]any{topology.LabelHub: nil},
		"annotations": map[string]any{
			topology.AnnotationSequence: nil, topology.AnnotationSubsetLimits: nil,
			topology.AnnotationZones: nil, topology.AnnotationSpread: nil,
			topology.AnnotationTemplateBefore: nil, topology.AnnotationHandedOver: nil,
			topology.AnnotationLetGo: strategy,
		},
	}})
	if err != nil {
		return err
	}
	err = r.member.Patch(ctx, shell(live), client.RawPatch(types.MergePatchType, patch), client.FieldOwner(FieldManager))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("take the mark off %s: %w", m.order.Ref, err)
	}
	logger(ctx, m).Info("Let go, as the hub ordered; the object stays")
	return nil
}

// finish removes the finalizer from the Work, and the member's copy of the Work.
func (r *Reconciler) finish(ctx context.Context, w *work.Work) error {
	if err := r.removeFinalizer(ctx, w); err != nil {
		return err
	}
	return r.Copies.Drop(ctx, client.ObjectKeyFromObject(w))
}

// removeFinalizer removes the finalizer from the Work, which may be gone.
func (r *Reconciler) removeFinalizer(ctx context.Context, w *work.Work) error {
	at := slices.Index(w.Finalizers, work.ExecutionFinalizer)
	if at < 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":             w.UID,             // not a later Work of that name
		"resourceVersion": w.ResourceVersion, // the list is written whole
		"finalizers":      slices.Delete(slices.Clone(w.Finalizers), at, at+1),
	}})
	if err != nil {
		return err
	}
	err = r.Hub.Client().Patch(ctx, w, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(FieldManager))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("take the finalizer off Work %s: %w", client.ObjectKeyFromObject(w), err)
	}
	return nil
}

// orphanAnnotation returns the value of topology.AnnotationLetGo for an object that is orphaned: the update strategy of
// the user and that of the object. It is nil if the Work has no strategy of the user.
func orphanAnnotation(w *work.Work, live *unstructured.Unstructured) (any, error) {
	users := w.Annotations[topology.AnnotationStrategy]
	if users == "" || !json.Valid([]byte(users)) {
		return nil, nil
	}
	granted, _, err := unstructured.NestedFieldNoCopy(live.Object, "spec", "updateStrategy")
	if err != nil {
		return nil, nil // a kind without a budget
	}
	data, err := json.Marshal(granted)
	if err == nil {
		data, err = json.Marshal(topology.LetGo{Users: json.RawMessage(users), Lent: data})
	}
	if err != nil {
		return nil, fmt.Errorf("note the update strategy of %s/%s: %w", live.GetNamespace(), live.GetName(), err)
	}
	return string(data), nil
}
