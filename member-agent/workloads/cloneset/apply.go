package cloneset

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
	"github.com/flotilla-dev/flotilla/member-agent/workload/ahead"
)

// apply carries out the plan.
func (r *Reconciler) apply(ctx context.Context, s *scope) (bool, error) {
	work := workload.Work{Actions: s.plan.Actions, Claims: s.plan.Claims, Fungible: true,
		Later: later(&s.plan)}
	if rolling := s.cs.Spec.UpdateStrategy.RollingUpdate; rolling != nil && rolling.InPlaceUpdateStrategy != nil {
		work.InPlace.Grace = time.Duration(rolling.InPlaceUpdateStrategy.GracePeriodSeconds) * time.Second
	}
	s.done = r.Act(ctx, s.pass, work, func(pace workload.Pace) int { return r.create(ctx, s, pace) })
	r.pullAhead(ctx, s)
	return true, nil
}

// pullAhead has the nodes of pods that are to be updated in place pull the new images.
func (r *Reconciler) pullAhead(ctx context.Context, s *scope) {
	rolling, limits := s.cs.Spec.UpdateStrategy.RollingUpdate, s.facts.Limits
	if rolling == nil {
		return
	}
	wish := ahead.Of(s.cs, rolling.InPlaceUpdateStrategy)
	wish.Kind, wish.Selector, wish.Revisions = v1beta1.CloneSetKind, s.cs.Spec.Selector, s.facts.Revisions
	wish.Pods = s.facts.Pods.Active
	wish.InPlace = rolling.PodUpdatePolicy == v1beta1.InPlaceIfPossiblePodUpdatePolicy ||
		rolling.PodUpdatePolicy == v1beta1.InPlaceOnlyPodUpdatePolicy
	wish.AtOnce = limits.Partition == 0 && limits.MaxUnavailable >= limits.Replicas
	ahead.Pull(ctx, r.Controller, s.pass, &s.Memory.ahead, wish)
}

// later returns how many pods of the plan are created in later passes.
func later(plan *Plan) int {
	n := int64(0)
	for _, c := range plan.Create {
		n += int64(c.Count)
	}
	return int(int64(plan.Later) + max(n-workload.CreatesPerPass, 0))
}

// trim deletes revisions that no pod uses, beyond the limit of the history.
func (r *Reconciler) trim(ctx context.Context, s *scope) (bool, error) {
	return r.Unused(ctx, s.pass, &s.facts.Revisions, s.facts.Pods, s.cs.Spec.RevisionHistoryLimit)
}

// prune takes the names of pods that are gone off podsToDelete. Somebody else may be writing the list: then the next
// pass does it.
func (r *Reconciler) prune(ctx context.Context, s *scope) (bool, error) {
	named := s.cs.Spec.ScaleStrategy.PodsToDelete
	if len(named) == 0 || s.Stalled != nil || s.Leaving != nil {
		return true, nil
	}
	exist := map[string]bool{}
	for _, list := range [][]*corev1.Pod{s.facts.Pods.Active, s.facts.Pods.Ended, s.facts.Pods.Terminating} {
		for _, pod := range list {
			exist[pod.Name] = true
		}
	}
	left := slices.DeleteFunc(slices.Clone(named), func(name string) bool { return !exist[name] })
	if len(left) == len(named) {
		return true, nil
	}
	changed := s.cs.DeepCopy()
	changed.Spec.ScaleStrategy.PodsToDelete = left
	patch := client.MergeFromWithOptions(s.cs, client.MergeFromWithOptimisticLock{})
	err := r.Client.Patch(ctx, changed, patch, workload.FieldOwner)
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return false, fmt.Errorf("shorten podsToDelete: %w", err)
	}
	return true, nil
}
