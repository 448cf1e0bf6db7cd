package persistentpodstate

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// ruling returns the name of the PersistentPodState that is for the workload: the oldest.
func (r *Reconciler) ruling(ctx context.Context, state *v1beta1.PersistentPodState) (string, error) {
	var list v1beta1.PersistentPodStateList
	err := r.Client.List(ctx, &list, client.InNamespace(state.Namespace), client.UnsafeDisableDeepCopy)
	if err != nil {
		return "", fmt.Errorf("list PersistentPodStates: %w", err)
	}
	ref := state.Spec.TargetReference
	if first := Ruling(list.Items, func(other v1beta1.PersistentPodStateTarget) bool {
		return kindOf(other) == kindOf(ref) && other.Name == ref.Name
	}); first != nil {
		return first.Name, nil
	}
	return state.Name, nil
}

// Ruling returns the PersistentPodState that holds for a workload: the oldest whose target is the workload and that is
// not being deleted; nil if there is none.
func Ruling(
	states []v1beta1.PersistentPodState, is func(v1beta1.PersistentPodStateTarget) bool,
) *v1beta1.PersistentPodState {
	var first *v1beta1.PersistentPodState
	for i := range states {
		state := &states[i]
		if state.DeletionTimestamp != nil || !is(state.Spec.TargetReference) {
			continue
		}
		if first == nil || state.CreationTimestamp.Before(&first.CreationTimestamp) ||
			state.CreationTimestamp.Equal(&first.CreationTimestamp) && state.Name < first.Name {
			first = state
		}
	}
	return first
}
