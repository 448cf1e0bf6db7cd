package cloneset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/inplace"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/write"
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

// apply carries out the plan: removals and updates side by side, then creations, so that there are never more pods than
// planned. Errors of pods are kept for the report.
func (r *Reconciler) apply(ctx context.Context, s *scope) (bool, error) {
	begun := r.clock.Now()
	late := func() bool { return r.clock.Since(begun) >= longestPass }
	width := r.pace.width(s.key, begun)
	steps := func(n, start int) write.Steps {
		return write.Steps{N: n, Start: max(start, width), Limit: write.InFlight, Stop: late}
	}

	var wg sync.WaitGroup
	var deleteErr, updateErr, openErr error
	wg.Go(func() {
		s.done.deleted, deleteErr = write.SlowStart(ctx, steps(len(s.plan.Delete), startDeletes), func(i int) error {
			return r.writer.DeletePod(ctx, s.cs.UID, s.plan.Delete[i].Pod)
		})
	})
	wg.Go(func() {
		s.done.updated, updateErr = write.SlowStart(ctx, steps(len(s.plan.Update), 1), func(i int) error {
			return r.update(ctx, s, s.plan.Update[i])
		})
	})
	wg.Go(func() {
		openErr = r.open(ctx, s, steps(len(s.plan.Open), startOpens))
	})
	wg.Wait()
	s.keep(v1beta1.CloneSetConditionFailedUpdate, errors.Join(updateErr, openErr))
	s.keep(v1beta1.CloneSetConditionFailedScale, deleteErr)
	if s.done.deleted == len(s.plan.Delete) {
		r.create(ctx, s, steps)
	}
	r.pace.reached(s.key, max(s.done.created, s.done.deleted, s.done.updated), len(s.failed) > 0, r.clock.Now())
	return true, nil
}

func (s *scope) keep(condition v1beta1.CloneSetConditionType, err error) {
	if err != nil {
		s.failed[condition] = err
	}
}

// open opens the gates of pods that are new or whose update has arrived.
func (r *Reconciler) open(ctx context.Context, s *scope, steps write.Steps) error {
	if steps.N == 0 {
		return nil
	}
	patch, err := inplace.OpenGate(r.clock.Now())
	if err != nil {
		return err
	}
	_, err = write.SlowStart(ctx, steps, func(i int) error {
		return r.writer.PatchPodStatus(ctx, s.cs.UID, s.plan.Open[i], patch)
	})
	return err
}

// update makes the two first writes of an update in place; the third opens the gate in a later pass.
func (r *Reconciler) update(ctx context.Context, s *scope, u Update) error {
	now := r.clock.Now()
	patch, err := inplace.Patch(u.Pod, u.Change, u.To, now)
	if err != nil {
		return err
	}
	// Without a new image no container restarts, and the pod serves on.
	if inplace.HasGate(u.Pod) && len(u.Change.Images) > 0 {
		shut, err := inplace.ShutGate(now)
		if err != nil {
			return err
		}
		if err := r.writer.PatchPodStatus(ctx, s.cs.UID, u.Pod, shut); err != nil {
			return err
		}
	}
	return r.writer.PatchPod(ctx, s.cs.UID, u.Pod, patch)
}

// create creates the pods of the plan.
func (r *Reconciler) create(ctx context.Context, s *scope, steps func(n, start int) write.Steps) {
	revisions := toCreate(s.plan.Create)
	if len(revisions) == 0 {
		return
	}
	opened, err := inplace.OpenGate(r.clock.Now())
	if err != nil {
		s.keep(v1beta1.CloneSetConditionFailedScale, err)
		return
	}
	s.done.created, err = write.SlowStart(ctx, steps(len(revisions), 1), func(i int) error {
		pod := newPod(s.cs, revisions[i], r.clock.Now())
		return r.createPod(ctx, s, pod, opened)
	})
	s.keep(v1beta1.CloneSetConditionFailedScale, err)
	if apierrors.IsInvalid(err) {
		s.stalled = &conditions.Cause{Reason: "InvalidTemplate", Message: "the API server refuses pods of this template; correct it: " + err.Error()}
		s.wake = retryInvalid
	}
}

// createsPerPass bounds what one pass begins, whatever the user asks for: a typo of 2 000 000 000 replicas must not take the
// memory of the agent. A pass stops after 2 s anyway, and no API server makes more than 2 500 pods a second; the events of
// the created pods bring the next pass.
const createsPerPass = 5000

// toCreate returns the revision of each pod that this pass creates, in the order of the plan.
func toCreate(plan []Creation) []Revision {
	var revisions []Revision
	for _, c := range plan {
		for range min(int(c.Count), createsPerPass-len(revisions)) {
			revisions = append(revisions, c.Revision)
		}
	}
	return revisions
}

// retryInvalid is when a template that was refused is tried again though nobody changed it: a webhook may have.
const retryInvalid = 5 * time.Minute

// createPod creates a pod. Its error does not hold the pod's random name, so that the same failure reads the same again.
func (r *Reconciler) createPod(ctx context.Context, s *scope, pod *corev1.Pod, opened []byte) error {
	name := pod.Name
	err := r.writer.CreatePod(ctx, s.cs.UID, pod, opened)
	if err == nil {
		return nil
	}
	return namelessError{err: err, text: strings.ReplaceAll(err.Error(), name, s.cs.Name+"-*")}
}

// namelessError is an error with another text.
type namelessError struct {
	err  error
	text string
}

func (e namelessError) Error() string { return e.text }
func (e namelessError) Unwrap() error { return e.err }

// trim deletes revisions that no pod uses, beyond the limit of the history.
func (r *Reconciler) trim(ctx context.Context, s *scope) (bool, error) {
	limit := defaultHistoryLimit
	if s.cs.Spec.RevisionHistoryLimit != nil {
		limit = int(*s.cs.Spec.RevisionHistoryLimit)
	}
	if len(s.facts.Revisions) <= limit {
		return true, nil
	}
	used := map[string]bool{s.facts.Update.Hash: true, s.facts.Current.Hash: true}
	for _, list := range [][]*corev1.Pod{s.facts.Pods.Active, s.facts.Pods.Terminating} {
		for _, pod := range list {
			used[history.ShortName(pod.Labels[podset.LabelRevision])] = true
		}
	}
	inUse := func(r *appsv1.ControllerRevision) bool { return used[history.ShortHash(r)] }
	if err := r.history.Delete(ctx, history.Excess(s.facts.Revisions, inUse, limit)); err != nil {
		return false, fmt.Errorf("trim the history: %w", err)
	}
	return true, nil
}

// defaultHistoryLimit is the published default of revisionHistoryLimit.
const defaultHistoryLimit = 10

// prune takes the names of pods that are gone off podsToDelete. Somebody else may be writing the list: then the next
// pass does it.
func (r *Reconciler) prune(ctx context.Context, s *scope) (bool, error) {
	named := s.cs.Spec.ScaleStrategy.PodsToDelete
	if len(named) == 0 || s.stalled != nil {
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
	err := r.client.Patch(ctx, changed, client.MergeFromWithOptions(s.cs, client.MergeFromWithOptimisticLock{}), fieldOwner)
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return false, fmt.Errorf("shorten podsToDelete: %w", err)
	}
	return true, nil
}
