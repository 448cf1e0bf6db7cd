package karmada

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/ownership"
)

// fieldManager owns, in the member, the fields that Works carry.
const fieldManager = "flotilla-agent"

// sent is what was written last for a Work, and what the member's API server made of it.
type sent struct {
	hash    uint64
	uid     types.UID
	version string
	digest  string
	keys    ownership.Previous
}

// outcome is what came of a Work. held: nothing was tried.
type outcome struct {
	applied, held bool
	message       string
}

const appliedMessage = "Applied."

// carryOut applies the object where it does not stand as ordered.
func (r *Reconciler) carryOut(
	ctx context.Context,
	w *work.Work,
	o *order,
	live *unstructured.Unstructured,
) (ctrl.Result, error) {
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
				"%s stands in the member and was not made by Karmada (it has no label %s=true); delete it there, or let Karmada "+
					"take it over with the annotation %s: %s",
				o.ref,
				LabelManaged,
				annotationConflict,
				overwrite,
			)})
		}
	}
	answer, err := r.write(ctx, key, o, live)
	if err != nil {
		failed := r.report(ctx, w, o, live, outcome{message: fmt.Sprintf("%s was not taken: %v", o.ref, err)})
		return ctrl.Result{}, errors.Join(fmt.Errorf("apply %s: %w", o.ref, err), failed)
	}
	digest, err := ownership.Digest(answer, o.desired)
	if err != nil {
		return ctrl.Result{}, err
	}
	r.mu.Lock()
	r.sent[key] = sent{
		hash: o.hash, uid: answer.GetUID(), version: answer.GetResourceVersion(), digest: digest,
		keys: ownership.PreviousOf(o.desired),
	}
	r.mu.Unlock()
	return ctrl.Result{}, r.report(ctx, w, o, answer, outcome{applied: true, message: appliedMessage})
}

// write makes the object, or replaces what of it belongs to the order. Objects of kinds that only Karmada brings are
// applied: what others assign in them is not known.
func (r *Reconciler) write(
	ctx context.Context,
	key types.NamespacedName,
	o *order,
	live *unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	if !ownership.Known(o.ref.GroupKind()) {
		answer := o.desired.DeepCopy() // Apply writes the server's answer into it
		return answer, r.member.Apply(
			ctx,
			client.ApplyConfigurationFromUnstructured(answer),
			client.FieldOwner(fieldManager),
			client.ForceOwnership,
		)
	}
	if live == nil {
		standing := shell(o.desired)
		err := r.live.Get(ctx, o.ref.NamespacedName, standing)
		switch {
		case apierrors.IsNotFound(err):
			answer := o.desired.DeepCopy() // Create writes the server's answer into it
			return answer, r.member.Create(ctx, answer, client.FieldOwner(fieldManager))
		case err != nil:
			return nil, fmt.Errorf("read %s: %w", o.ref, err)
		}
		live = standing // one without Karmada's label, which is taken over
	}
	patch, err := ownership.Replace(live, o.desired, r.previous(key, live))
	if err != nil {
		return nil, err
	}
	answer := shell(live)
	return answer, r.member.Patch(
		ctx,
		answer,
		client.RawPatch(types.JSONPatchType, patch),
		client.FieldOwner(fieldManager),
	)
}

// previous returns the labels and annotations of the order before: as this process wrote them, and as Karmada lists
// them on the object.
func (r *Reconciler) previous(key types.NamespacedName, live *unstructured.Unstructured) ownership.Previous {
	r.mu.Lock()
	keys := r.sent[key].keys
	r.mu.Unlock()
	listed := func(annotation string) []string {
		return strings.FieldsFunc(live.GetAnnotations()[annotation], func(c rune) bool { return c == ',' })
	}
	return keys.With(
		ownership.Previous{Labels: listed(annotationManagedLabels), Annotations: listed(annotationManagedAnnotations)},
	)
}

// stands tells whether what was written last is what is asked for and what is seen.
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
	if last.version == live.GetResourceVersion() {
		return true
	}
	digest, err := ownership.Digest(live, o.desired)
	return err == nil && digest == last.digest
}

func carries(have, want map[string]string) bool {
	for key, value := range want {
		if have[key] != value {
			return false
		}
	}
	return true
}

// foreign tells whether an object of the name stands that Karmada did not make. The API server is asked: those without
// Karmada's label are in no cache.
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
