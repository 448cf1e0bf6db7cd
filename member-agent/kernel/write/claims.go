package write

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/volumes"
)

// CreateClaim creates a claim of an owner. A claim that exists under the same controller, or like the one to create
// under none, is no error; one that is another's is a *volumes.Conflict and is not touched; one that is being deleted
// is waited for.
func (w *Writer) CreateClaim(ctx context.Context, owner types.UID, claim *corev1.PersistentVolumeClaim) error {
	err := w.claims().create(ctx, owner, claim)
	if apierrors.IsAlreadyExists(err) {
		return w.exists(ctx, owner, claim, err)
	}
	if err != nil {
		return fmt.Errorf("create claim %s: %w", client.ObjectKeyFromObject(claim), err)
	}
	return nil
}

// exists judges the claim that has the name of the one to create.
func (w *Writer) exists(ctx context.Context, owner types.UID, claim *corev1.PersistentVolumeClaim, cause error) error {
	key := client.ObjectKeyFromObject(claim)
	have := &corev1.PersistentVolumeClaim{}
	if err := w.Client.Get(ctx, key, have); err != nil {
		if apierrors.IsNotFound(err) {
			// The cache does not have it yet. The next pass waits for it.
			w.Claims.MaybeCreated(owner, key)
			return fmt.Errorf("create claim %s: %w", key, cause)
		}
		return fmt.Errorf("read claim %s, which exists: %w", key, err)
	}
	controller, wanted := metav1.GetControllerOf(have), metav1.GetControllerOf(claim)
	switch {
	case wanted == nil && controller != nil, wanted != nil && (controller == nil || controller.UID != owner):
		conflict := &volumes.Conflict{Claim: have, Set: "its set"}
		if wanted != nil {
			conflict.Set = wanted.Kind + " " + wanted.Name
		}
		return fmt.Errorf("create claim %s: %w", key, conflict)
	case have.DeletionTimestamp != nil:
		return fmt.Errorf("create claim %s: the claim of that name is being deleted; it is made again when that one is "+
			"gone", key)
	}
	return nil
}

// DeleteClaim deletes exactly this claim as it was seen, so that nobody's change since is lost with it: a claim that
// has changed is an error, one that is gone is none.
func (w *Writer) DeleteClaim(ctx context.Context, owner types.UID, claim *corev1.PersistentVolumeClaim) error {
	seen := client.Preconditions{UID: &claim.UID, ResourceVersion: &claim.ResourceVersion}
	if err := w.claims().remove(ctx, owner, claim, seen); err != nil {
		return fmt.Errorf("delete claim %s: %w", client.ObjectKeyFromObject(claim), err)
	}
	return nil
}

// OwnClaim gives a claim these owners and no others. A claim that has changed since it was seen is an error, one that
// is gone is none.
func (w *Writer) OwnClaim(ctx context.Context, owner types.UID, claim *corev1.PersistentVolumeClaim,
	owners []metav1.OwnerReference) error {
	key := client.ObjectKeyFromObject(claim)
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": claim.UID, "resourceVersion": claim.ResourceVersion, "ownerReferences": owners,
	}})
	if err != nil {
		return fmt.Errorf("change owners of claim %s: %w", key, err)
	}
	// A merge patch replaces the list of owners as a whole.
	if err := w.claims().patch(ctx, owner, claim, "", client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("change owners of claim %s: %w", key, err)
	}
	return nil
}

// GrowClaim makes a claim ask for more storage, and notes in the annotation who asked. A claim that is gone is no
// error.
func (w *Writer) GrowClaim(
	ctx context.Context, owner types.UID, growth volumes.Growth, annotation, value string,
) error {
	key := client.ObjectKeyFromObject(growth.Claim)
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": growth.Claim.UID, "annotations": map[string]string{annotation: value}},
		"spec": map[string]any{"resources": map[string]any{"requests": map[corev1.ResourceName]any{
			corev1.ResourceStorage: growth.Storage}}},
	})
	if err == nil {
		err = w.claims().patch(ctx, owner, growth.Claim, "", client.RawPatch(types.MergePatchType, patch))
	}
	if err != nil {
		return fmt.Errorf("resize claim %s to %s: %w", key, growth.Storage.String(), err)
	}
	return nil
}
