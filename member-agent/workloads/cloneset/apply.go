package cloneset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/inplace"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/write"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// longestPass is after what time a pass begins no more writes: it reports, looks at the world again, and goes on.
// Two seconds without news is what a person puts up with; shorter passes wait more often for the cache.
const longestPass = 2 * time.Second

// Deletions and openings of gates need no slow start from one: hardly anything refuses them, and a refused one costs
// nothing but its request.
const (
	startDeletes = 32
	startOpens   = 32
)

// outcome counts what a pass has done.
type outcome struct{ created, deleted, updated int }

// apply carries out the plan: first what happens to claims whose pods leave, then removals and updates side by side,
// then creations, so that there are never more pods than planned. Errors of pods are kept for the report.
func (r *Reconciler) apply(ctx context.Context, s *scope) (bool, error) {
	begun := r.Clock.Now()
	late := func() bool { return r.Clock.Since(begun) >= longestPass }
	width := s.Width(begun)
	steps := func(n, start int) write.Steps {
		return write.Steps{N: n, Start: max(start, width), Limit: write.InFlight, Stop: late}
	}

	// A claim that is to go with its pod must have it as its owner before the pod is gone.
	transferred := r.transfer(ctx, s, steps)
	var wg sync.WaitGroup
	var deleteErr, updateErr, openErr, prepareErr, releaseErr error
	var replaced atomic.Int32 // pods that still count, though others are to take their places
	if transferred {
		wg.Go(func() {
			s.done.deleted, deleteErr = write.SlowStart(ctx, steps(len(s.plan.Delete), startDeletes), func(i int) error {
				return r.Writer.DeletePod(ctx, s.cs.UID, s.plan.Delete[i].Pod)
			})
		})
	}
	wg.Go(func() {
		s.done.updated, updateErr = write.SlowStart(ctx, steps(len(s.plan.Update), 1), func(i int) error {
			return workload.IgnoreStale(r.update(ctx, s, s.plan.Update[i]))
		})
	})
	wg.Go(func() {
		openErr = errors.Join(r.OpenGates(ctx, s.pass, s.plan.Open, steps(len(s.plan.Open), startOpens)),
			r.CarryOn(ctx, s.pass, s.plan.Carry, steps(len(s.plan.Carry), startOpens)))
	})
	for _, p := range s.plan.Prepare {
		if p.Replaced {
			replaced.Add(1)
		}
	}
	wg.Go(func() {
		_, prepareErr = write.SlowStart(ctx, steps(len(s.plan.Prepare), startOpens), func(i int) error {
			err := r.Prepare(ctx, s.pass, s.plan.Prepare[i].Pod, s.plan.Prepare[i].Step)
			if err == nil && s.plan.Prepare[i].Replaced {
				replaced.Add(-1)
			}
			return workload.IgnoreStale(err)
		})
	})
	wg.Go(func() {
		_, releaseErr = write.SlowStart(ctx, steps(len(s.plan.Release), startDeletes), func(i int) error {
			return r.Writer.ReleasePod(ctx, s.cs.UID, s.plan.Release[i])
		})
	})
	wg.Wait()
	s.Fail(string(v1beta1.CloneSetConditionFailedUpdate), errors.Join(updateErr, openErr, prepareErr))
	s.Fail(string(v1beta1.CloneSetConditionFailedScale), errors.Join(deleteErr, releaseErr))
	if transferred && s.done.deleted == len(s.plan.Delete) && replaced.Load() == 0 {
		r.create(ctx, s, steps)
	}
	s.Reached(max(s.done.created, s.done.deleted, s.done.updated), r.Clock.Now())
	return true, nil
}

// transfer gives claims their new owners, deletes those that nobody needs, and makes again what pods wait for. It tells
// whether all of the first is done.
func (r *Reconciler) transfer(ctx context.Context, s *scope, steps func(n, start int) write.Steps) bool {
	own, remove := s.plan.Claims.Own, s.plan.Claims.Delete
	owned, ownErr := write.SlowStart(ctx, steps(len(own), startDeletes), func(i int) error {
		return r.Writer.OwnClaim(ctx, s.cs.UID, own[i].Claim, own[i].Owners)
	})
	_, removeErr := write.SlowStart(ctx, steps(len(remove), startDeletes), func(i int) error {
		return r.Writer.DeleteClaim(ctx, s.cs.UID, remove[i].Claim)
	})
	lost := s.plan.Claims.Make
	_, makeErr := write.SlowStart(ctx, steps(len(lost), 1), func(i int) error {
		return r.Writer.CreateClaim(ctx, s.cs.UID, lost[i])
	})
	s.Fail(string(v1beta1.CloneSetConditionFailedScale), errors.Join(ownErr, removeErr, makeErr))
	return owned == len(own)
}

// update begins an update in place.
func (r *Reconciler) update(ctx context.Context, s *scope, u Update) error {
	var options inplace.Options
	if rolling := s.cs.Spec.UpdateStrategy.RollingUpdate; rolling != nil && rolling.InPlaceUpdateStrategy != nil {
		options.Grace = time.Duration(rolling.InPlaceUpdateStrategy.GracePeriodSeconds) * time.Second
	}
	return r.UpdateInPlace(ctx, s.pass, u.Pod, u.Step, u.Change, u.To, options)
}

// trim deletes revisions that no pod uses, beyond the limit of the history.
func (r *Reconciler) trim(ctx context.Context, s *scope) (bool, error) {
	if s.Leaving != nil {
		return true, nil
	}
	used := sync.OnceValue(func() map[string]bool { // it costs as much as there are pods
		out := map[string]bool{s.facts.Update.Hash: true, s.facts.Current.Hash: true}
		for _, list := range [][]*corev1.Pod{s.facts.Pods.Active, s.facts.Pods.Terminating} {
			for _, pod := range list {
				out[history.ShortName(pod.Labels[podset.LabelRevision])] = true
			}
		}
		return out
	})
	inUse := func(r *appsv1.ControllerRevision) bool { return used()[history.ShortHash(r)] }
	return true, r.Trim(ctx, s.facts.Stored, s.cs.Spec.RevisionHistoryLimit, inUse)
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
