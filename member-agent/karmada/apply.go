package karmada

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
)

// fieldManager owns, in the member, the fields that Works carry.
const fieldManager = "flotilla-agent"

// sent is what was applied last for a Work, and what the member's API server made of it.
type sent struct {
	hash       uint64
	uid        types.UID
	generation int64
	version    string
}

// outcome is what came of a Work. held: nothing was tried.
type outcome struct {
	applied, held bool
	message       string
}

const appliedMessage = "The member's API server has taken the object."

// carryOut applies the object where it does not stand as ordered.
func (r *Reconciler) carryOut(ctx context.Context, w *work.Work, o *order, live *unstructured.Unstructured) (ctrl.Result, error) {
	key := client.ObjectKeyFromObject(w)
	if r.stands(key, o, live) {
		return ctrl.Result{}, r.report(ctx, w, o, live, outcome{applied: true, message: appliedMessage})
	}
	if live == nil && !o.overwrite {
		foreign, err := r.foreign(ctx, o)
		if err != nil {
			return ctrl.Result{}, err
		}
		if foreign {
			return ctrl.Result{RequeueAfter: conflictAgain}, r.report(ctx, w, o, nil, outcome{message: fmt.Sprintf(
				"%s stands in the member and was not made by Karmada (it has no label %s=true); delete it there, or let Karmada take it over with the annotation %s: %s", o.ref, LabelManaged, annotationConflict, overwrite)})
		}
	}
	answer := o.desired.DeepCopy() // Apply writes the server's answer into it
	if err := r.member.Apply(ctx, client.ApplyConfigurationFromUnstructured(answer), client.FieldOwner(fieldManager), client.ForceOwnership); err != nil {
		failed := r.report(ctx, w, o, live, outcome{message: fmt.Sprintf("%s was not taken: %v", o.ref, err)})
		return ctrl.Result{}, errors.Join(fmt.Errorf("apply %s: %w", o.ref, err), failed)
	}
	r.mu.Lock()
	r.sent[key] = sent{hash: o.hash, uid: answer.GetUID(), generation: answer.GetGeneration(), version: answer.GetResourceVersion()}
	r.mu.Unlock()
	return ctrl.Result{}, r.report(ctx, w, o, answer, outcome{applied: true, message: appliedMessage})
}

// stands tells whether what was sent last is what is asked for and what is seen. Of kinds without a generation every other version is a
// change that was not ordered, or our own.
func (r *Reconciler) stands(key types.NamespacedName, o *order, live *unstructured.Unstructured) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, ok := r.sent[key]
	if !ok || live == nil || last.hash != o.hash || last.uid != live.GetUID() {
		return false
	}
	if !carries(live.GetLabels(), o.desired.GetLabels()) || !carries(live.GetAnnotations(), o.desired.GetAnnotations()) {
		return false
	}
	if last.generation > 0 {
		return last.generation == live.GetGeneration()
	}
	return last.version == live.GetResourceVersion()
}

func carries(have, want map[string]string) bool {
	for key, value := range want {
		if have[key] != value {
			return false
		}
	}
	return true
}

// foreign tells whether an object of the name stands that Karmada did not make. The API server is asked: those without Karmada's label are
// in no cache.
func (r *Reconciler) foreign(ctx context.Context, o *order) (bool, error) {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(o.ref.GroupVersionKind)
	err := r.live.Get(ctx, o.ref.NamespacedName, object)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read %s: %w", o.ref, err)
	}
	return object.Labels[LabelManaged] != "true", nil
}

func (r *Reconciler) forget(key types.NamespacedName) {
	r.store.Forget(key)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.sent, key)
}

// shell is an object without content, for requests that name it.
func shell(live *unstructured.Unstructured) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(live.GroupVersionKind())
	u.SetNamespace(live.GetNamespace())
	u.SetName(live.GetName())
	return u
}
