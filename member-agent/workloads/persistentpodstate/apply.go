package persistentpodstate

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// apply deletes pods that were created with labels which no node has, so that their workload creates them without.
func (r *Reconciler) apply(ctx context.Context, s *scope) (bool, error) {
	for _, pod := range s.plan.Release {
		if err := r.release(ctx, s, pod); err != nil {
			s.Fail(reasonReleaseFailed, err)
		}
	}
	return true, nil
}

// release deletes the pod if it got required labels as a node selector, and no node has all of them. What its template
// selects is not deleted: the next pod would have it again. The cache does not have node selectors.
func (r *Reconciler) release(ctx context.Context, s *scope, cached *corev1.Pod) error {
	key := client.ObjectKeyFromObject(cached)
	pod := &corev1.Pod{}
	if err := r.Live.Get(ctx, key, pod); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("read pod %s: %w", key.Name, err)
	}
	needs := map[string]string{}
	for _, label := range given(pod, requiredOf(&s.state.Spec)) {
		if value, ok := pod.Spec.NodeSelector[label]; ok {
			needs[label] = value
		}
	}
	if pod.UID != cached.UID || pod.Spec.NodeName != "" || len(needs) == 0 || s.facts.anyNode(needs) {
		return nil
	}
	err := r.Client.Delete(ctx, pod, client.Preconditions{UID: &pod.UID, ResourceVersion: &pod.ResourceVersion})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil
	case err != nil:
		return fmt.Errorf("delete pod %s, which needs labels that no node has: %w", key.Name, err)
	}
	s.released++
	return nil
}
