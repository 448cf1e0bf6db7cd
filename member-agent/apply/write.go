package apply

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/ownership"
)

// strict lets an API server refuse fields that it does not know. An older definition in the member then refuses a newer
// field instead of dropping it, and the object stays as it is.
const strict = client.FieldValidation(metav1.FieldValidationStrict)

// writeWhenReady writes the object, unless the order has to wait for its namespace or for other objects.
func (r *Reconciler) writeWhenReady(
	ctx context.Context, w *work.Work, m *memo, facts Facts, action Action,
) (ctrl.Result, error) {
	if action == Create && r.terminating(ctx, m.order.Ref.Namespace) {
		return r.awaitNamespace(w, m), nil
	}
	if wait, err := r.awaitNeeds(ctx, w, m); err != nil || wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, err
	}
	return r.write(ctx, w, m, facts, action)
}

// write creates the object, or makes it equal to the order.
func (r *Reconciler) write(
	ctx context.Context, w *work.Work, m *memo, facts Facts, action Action,
) (ctrl.Result, error) {
	correction := r.correction(ctx, m, facts, action)
	if action == Adopt {
		if changes, err := r.adoptionChanges(ctx, m, facts.Live); err != nil {
			return r.failed(w, m, err), nil
		} else if changes != "" {
			r.outcome(w, m, false, work.ReasonConflict, changes)
			return ctrl.Result{RequeueAfter: conflictAgain}, nil
		}
	}
	traced, end := r.Tracer.Start(ctx, w, "apply")
	answer, err := r.send(traced, m, facts.Live)
	if end(err); apierrors.IsAlreadyExists(err) {
		return ctrl.Result{RequeueAfter: retryFirst}, nil // created in between; the next attempt sees by whom
	}
	if err != nil && correction != nil {
		return r.failedCorrection(ctx, w, m, correction, facts.Live, err), nil
	}
	if err != nil {
		return r.failed(w, m, err), nil
	}
	if err := r.accept(m, answer); err != nil {
		return ctrl.Result{}, err
	}
	if correction != nil && answer.GetResourceVersion() != facts.Live.GetResourceVersion() {
		r.corrected(ctx, m, correction, answer)
	}
	r.applied(w, m)
	return ctrl.Result{}, r.Copies.KeepAccepted(ctx, w, m.accepted())
}

// send makes the object, with its namespace if that is missing, or replaces what of it belongs to the order.
func (r *Reconciler) send(
	ctx context.Context, m *memo, live *unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	if live != nil {
		return r.replace(ctx, m, live)
	}
	answer, err := r.create(ctx, m.order.Desired)
	if !namespaceMissing(err, m.order.Ref.Namespace) {
		return answer, err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: m.order.Ref.Namespace}}
	err = r.member.Create(ctx, namespace, client.FieldOwner(FieldManager))
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("create namespace %s: %w", namespace.Name, err)
	}
	return r.create(ctx, m.order.Desired)
}

func (r *Reconciler) create(
	ctx context.Context, desired *unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	answer := desired.DeepCopy() // Create writes the server's answer into it
	err := r.member.Create(ctx, answer, client.FieldOwner(FieldManager), strict)
	return answer, err
}

// replace makes what of the object belongs to the order equal to it. live may be older than the object: what the patch
// rests on is read anew then, once.
func (r *Reconciler) replace(
	ctx context.Context, m *memo, live *unstructured.Unstructured, options ...client.PatchOption,
) (*unstructured.Unstructured, error) {
	options = append(options, client.FieldOwner(FieldManager), strict)
	answer, err := r.patch(ctx, m, live, options)
	if !apierrors.IsInvalid(err) {
		return answer, err
	}
	fresh := shell(live)
	if r.reader.Get(ctx, client.ObjectKeyFromObject(live), fresh) != nil || fresh.GetUID() != live.GetUID() ||
		Owner(fresh) != Owner(live) || fresh.GetResourceVersion() == live.GetResourceVersion() {
		return answer, err
	}
	return r.patch(ctx, m, fresh, options)
}

func (r *Reconciler) patch(
	ctx context.Context, m *memo, live *unstructured.Unstructured, options []client.PatchOption,
) (*unstructured.Unstructured, error) {
	patch, err := ownership.Replace(live, m.order.Desired, m.previous)
	if err != nil {
		return nil, err
	}
	answer := shell(live)
	return answer, r.member.Patch(ctx, answer, client.RawPatch(types.JSONPatchType, patch), options...)
}

// accept remembers what the API server made of the order: that is what the object is compared with from now on.
func (r *Reconciler) accept(m *memo, answer *unstructured.Unstructured) error {
	digest, err := ownership.Digest(answer, m.order.Desired)
	if err != nil {
		return err
	}
	changes, err := ownership.Changes(m.order.Desired, answer, m.order.Desired)
	if err != nil {
		return err
	}
	note := ""
	if len(changes) > 0 {
		note = fmt.Sprintf("The member's API server, or a webhook of its admission, changed the object, and that is "+
			"accepted: %s.", ownership.Sentence(changes))
	}
	m.Memory = Memory{
		Applied: true, Hash: m.order.Hash, At: r.Clock.Now(), Digest: digest, Note: note, CorrectAt: m.CorrectAt,
		UID: answer.GetUID(), Generation: answer.GetGeneration(), Version: answer.GetResourceVersion(),
	}
	m.previous, m.admitted = ownership.PreviousOf(m.order.Desired), changes
	r.Generations.accept(m.order.Ref, answer.GetUID(), answer.GetGeneration())
	return nil
}
