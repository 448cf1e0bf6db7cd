package delivery

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/store"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
)

// remove deletes one Work; its agent then deletes the member object.
func (r *Reconciler) remove(ctx context.Context, old *work.Work) error {
	if old.DeletionTimestamp != nil {
		return nil
	}
	uid := old.UID
	err := r.client.Delete(ctx, old.DeepCopy(), client.Preconditions{UID: &uid})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete Work %s/%s: %w", old.Namespace, old.Name, err)
	}
	return nil
}

func (r *Reconciler) removeAll(ctx context.Context, works []work.Work) error {
	var group errgroup.Group
	group.SetLimit(parallel)
	errs := make([]error, len(works))
	for i := range works {
		group.Go(func() error { errs[i] = r.remove(ctx, &works[i]); return nil })
	}
	_ = group.Wait() // the errors are in errs
	return errors.Join(errs...)
}

// removeOrphans deletes Works whose workload and placement are both gone, as a namespace that is deleted leaves them.
// It asks the API server, not the cache.
func (r *Reconciler) removeOrphans(ctx context.Context, s *state) error {
	if s.object != nil || len(s.works) == 0 {
		return nil
	}
	if live, err := r.liveWorkload(ctx, s.key); live != nil || err != nil {
		return err
	}
	if p, _, err := store.FindPlacement(ctx, r.live, s.key); p != nil || err != nil {
		return err
	}
	return r.removeAll(ctx, s.works)
}

// release lets a deleted placement go: with its Works where the workload goes too, else alone.
func (r *Reconciler) release(ctx context.Context, s *state) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(s.placement, topology.PlacementFinalizer) {
		return ctrl.Result{}, nil
	}
	if live, err := r.livePlacementBeingDeleted(ctx, s); err != nil {
		return ctrl.Result{}, err
	} else if live == nil {
		return ctrl.Result{RequeueAfter: staleRetry}, nil
	}
	gone, err := r.workloadIsGone(ctx, s)
	if err != nil {
		return ctrl.Result{}, err
	}
	if gone {
		if left, err := r.removeWorks(ctx, s); err != nil || left {
			return ctrl.Result{RequeueAfter: foregroundRetry}, err // the end of each Work is an event
		}
	}
	return r.removeFinalizer(ctx, s)
}

// removeWorks deletes the Works of a workload that goes. It tells whether the placement has to stay until they are
// gone.
func (r *Reconciler) removeWorks(ctx context.Context, s *state) (left bool, err error) {
	works, err := r.liveWorks(ctx, s)
	if err != nil {
		return false, err
	}
	if orphans, err := r.orphans(ctx, s); err != nil {
		return false, err
	} else if orphans {
		if err := r.preserve(ctx, works); err != nil {
			return false, err
		}
		if err := r.preserveNeeds(ctx, works); err != nil {
			return false, err
		}
	}
	foreground, err := r.foreground(ctx, s)
	if err != nil {
		return false, err
	}
	if foreground {
		if err := r.askForeground(ctx, works); err != nil {
			return false, err
		}
	}
	if err := r.removeAll(ctx, works); err != nil {
		return false, err
	}
	if !foreground {
		return false, nil
	}
	return r.leftInReady(ctx, works)
}

// liveWorks returns the Works of a placement. The API server is asked, not the cache alone: a Work that the cache has
// not seen yet must not stay behind.
func (r *Reconciler) liveWorks(ctx context.Context, s *state) ([]work.Work, error) {
	live := &work.WorkList{}
	if err := r.live.List(ctx, live, client.MatchingLabels{topology.LabelPlacement: string(s.placement.UID)}); err != nil {
		return nil, fmt.Errorf("list Works of %s: %w", s.key.Sentence(), err)
	}
	known := map[types.UID]bool{}
	for i := range live.Items {
		known[live.Items[i].UID] = true
	}
	for i := range s.works {
		if !known[s.works[i].UID] {
			live.Items = append(live.Items, s.works[i])
		}
	}
	return live.Items, nil
}

// removeFinalizer takes the finalizer off a placement that is being deleted.
func (r *Reconciler) removeFinalizer(ctx context.Context, s *state) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(s.placement, topology.PlacementFinalizer) {
		return ctrl.Result{}, nil
	}
	base := s.placement.DeepCopy()
	controllerutil.RemoveFinalizer(s.placement, topology.PlacementFinalizer)
	err := r.client.Patch(
		ctx,
		s.placement,
		client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}),
		store.ManagerDelivery,
	)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: staleRetry}, nil
	}
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("remove the finalizer of the placement of %s: %w", s.key.Sentence(), err)
	}
	return ctrl.Result{}, nil
}

// orphans tells whether the user withdrew the workload as an orphan, or deleted it with --cascade=orphan: what it made
// is to stay. The garbage collector takes the owner off the placement before it lets the workload go; on a hub without
// one the finalizer stays.
func (r *Reconciler) orphans(ctx context.Context, s *state) (bool, error) {
	uid := s.placement.Spec.Workload.UID
	if s.object != nil && s.object.GetUID() == uid {
		switch {
		case s.object.GetAnnotations()[topology.AnnotationWithdraw] == topology.WithdrawOrphan:
			return true, nil
		case s.object.GetDeletionTimestamp() == nil:
			return false, nil
		case conditions.Orphaning(s.object):
			return true, nil
		}
		// Another finalizer may hold the workload after the garbage collector has done its part.
	}
	live := &topology.WorkloadPlacement{}
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(s.placement), live); apierrors.IsNotFound(err) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("read the placement of %s: %w", s.key.Sentence(), err)
	}
	owned := slices.ContainsFunc(live.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == uid })
	return live.UID == s.placement.UID && !owned, nil
}

// preserve tells the agents to let the member objects stand when their Works go.
func (r *Reconciler) preserve(ctx context.Context, works []work.Work) error {
	var group errgroup.Group
	group.SetLimit(parallel)
	errs := make([]error, len(works))
	for i := range works {
		w := &works[i]
		if w.DeletionTimestamp != nil || preserves(w) {
			continue
		}
		group.Go(func() error {
			patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"preserveResourcesOnDeletion":true}}`))
			if err := r.client.Patch(ctx, w.DeepCopy(), patch, store.ManagerDelivery); client.IgnoreNotFound(err) != nil {
				errs[i] = fmt.Errorf("let the object of Work %s/%s stand: %w", w.Namespace, w.Name, err)
			}
			return nil
		})
	}
	_ = group.Wait() // the errors are in errs
	return errors.Join(errs...)
}

// preserveNeeds lets stand what was carried for some Works of one workload alone: the pods that run on need it. What
// another Work names too, or what was placed for itself, stays the hub's.
func (r *Reconciler) preserveNeeds(ctx context.Context, works []work.Work) error {
	own := map[types.UID]bool{}
	for i := range works {
		own[works[i].UID] = true
	}
	var needs []work.Work
	for i := range works {
		for _, name := range wire.DependsOn(&works[i]) {
			need := &work.Work{}
			err := r.client.Get(ctx, client.ObjectKey{Namespace: works[i].Namespace, Name: name}, need)
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				return fmt.Errorf("get Work %s/%s, which is needed: %w", works[i].Namespace, name, err)
			}
			others := &work.WorkList{}
			if err := r.client.List(ctx, others, client.MatchingFields{store.IndexWorkDependsOn: need.Namespace + "/" +
				need.Name}, client.UnsafeDisableDeepCopy); err != nil {
				return fmt.Errorf("list Works that need %s/%s: %w", need.Namespace, need.Name, err)
			}
			shared := slices.ContainsFunc(others.Items, func(w work.Work) bool { return !own[w.UID] })
			if !shared && need.Labels[topology.LabelPlacement] == "" {
				needs = append(needs, *need)
			}
		}
	}
	return r.preserve(ctx, needs)
}
