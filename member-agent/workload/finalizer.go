package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TakeFinalizer takes the finalizer of an OpenKruise manager off an object that is being deleted: our controllers
// clean up without one, so nothing is waited for. It reports whether the object had it. An object that changed
// meanwhile is an error.
func TakeFinalizer(ctx context.Context, c client.Client, object client.Object, finalizer string) (bool, error) {
	if object.GetDeletionTimestamp() == nil || !slices.Contains(object.GetFinalizers(), finalizer) {
		return false, nil
	}
	left := slices.DeleteFunc(slices.Clone(object.GetFinalizers()), func(name string) bool { return name == finalizer })
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": object.GetUID(), "resourceVersion": object.GetResourceVersion(), "finalizers": left,
	}})
	if err != nil {
		return true, fmt.Errorf("encode its finalizers: %w", err)
	}
	// The object is the cache's, and the answer is written to what is patched.
	target, _ := object.DeepCopyObject().(client.Object)
	err = c.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch), FieldOwner)
	if client.IgnoreNotFound(err) != nil {
		return true, fmt.Errorf("take its finalizer away: %w", err)
	}
	return true, nil
}
