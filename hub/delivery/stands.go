package delivery

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/placement"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// The API server is asked, not the cache, before a Work is made or goes. A cache may be older than what it is compared
// with: a server behind the others filled it, or the hub was put back to a backup, and the caches of some kinds show
// that before others do. A Work that is made of a workload which the hub does not know any more would soon be deleted,
// and the agent that sees that deletes what runs.

// decisionIsCurrent reports whether the API server has this decision, and if Works are to be made, its workload too.
func (r *Reconciler) decisionIsCurrent(ctx context.Context, s *state, making bool) (bool, error) {
	if s.placement == nil {
		return true, nil
	}
	live := &topology.WorkloadPlacement{}
	err := r.live.Get(ctx, client.ObjectKeyFromObject(s.placement), live)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("read the placement of %s: %w", s.key.Sentence(), err)
	}
	// A generation may come again in a hub that was put back: what it stands for is compared.
	if err != nil || live.UID != s.placement.UID || live.Generation != s.placement.Generation ||
		!equality.Semantic.DeepEqual(&live.Spec, &s.placement.Spec) {
		return false, nil
	}
	if !making {
		return true, nil
	}
	object, err := r.liveWorkload(ctx, s.key)
	return object != nil && object.GetUID() == live.Spec.Workload.UID, err
}

// liveWorkload returns the workload as the API server has it, nil if it has none.
func (r *Reconciler) liveWorkload(ctx context.Context, key wire.Key) (client.Object, error) {
	object := r.rules[key.GroupKind()].New()
	err := r.live.Get(ctx, key.Workload(), object)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", key.Sentence(), err)
	}
	return object, nil
}

// livePlacementBeingDeleted returns the placement as the API server has it, nil if it is not being deleted.
func (r *Reconciler) livePlacementBeingDeleted(ctx context.Context, s *state) (*topology.WorkloadPlacement, error) {
	live := &topology.WorkloadPlacement{}
	err := r.live.Get(ctx, client.ObjectKeyFromObject(s.placement), live)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read the placement of %s: %w", s.key.Sentence(), err)
	}
	if err != nil || live.UID != s.placement.UID || live.DeletionTimestamp == nil {
		return nil, nil
	}
	return live, nil
}

// workloadIsGone reports whether the Works are deleted with the placement: the workload is gone, withdrawn, or being
// deleted and not kept.
func (r *Reconciler) workloadIsGone(ctx context.Context, s *state) (bool, error) {
	object, err := r.liveWorkload(ctx, s.key)
	if err != nil {
		return false, err
	}
	if object == nil || object.GetUID() != s.placement.Spec.Workload.UID || wire.Withdrawn(object) {
		return true, nil
	}
	terminating, err := r.terminating(ctx, s.key.Namespace)
	if err != nil || object.GetDeletionTimestamp() == nil || terminating {
		return terminating, err
	}
	live, err := r.livePlacementBeingDeleted(ctx, s)
	if err != nil || live == nil {
		return false, err
	}
	return !placement.Keeps(object, live, terminating), nil
}

// terminating reports whether a namespace is being deleted, or gone. That of a cluster-scoped object, "", never is.
func (r *Reconciler) terminating(ctx context.Context, name string) (bool, error) {
	if name == "" {
		return false, nil
	}
	namespace := &corev1.Namespace{}
	if err := r.live.Get(ctx, client.ObjectKey{Name: name}, namespace); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("get namespace %s: %w", name, err)
	}
	return namespace.UID == "" || namespace.DeletionTimestamp != nil, nil
}

// dropStaleWorks takes out of the Works of a copied object those that only decisions ask for which the API server does
// not have, and reports whether there were any.
func (r *CopyReconciler) dropStaleWorks(
	ctx context.Context,
	f *copyFacts,
	works []*work.Work,
) (left []*work.Work, stale bool, err error) {
	for _, w := range works {
		member, _ := wire.MemberOf(w.Namespace)
		ok := f.have[member] != nil || f.own != nil && hasCell(f.own, member) // apply asks for the own one
		for i := 0; !ok && i < len(f.dependents); i++ {
			if !hasCell(&f.dependents[i], member) {
				continue
			}
			live := &topology.WorkloadPlacement{}
			err := r.live.Get(ctx, client.ObjectKeyFromObject(&f.dependents[i]), live)
			if client.IgnoreNotFound(err) != nil {
				return nil, false, fmt.Errorf(
					"read placement %s/%s, which needs %s: %w",
					f.dependents[i].Namespace,
					f.dependents[i].Name,
					f.key.Sentence(),
					err,
				)
			}
			ok = err == nil && live.DeletionTimestamp == nil && hasCell(live, member)
		}
		if ok {
			left = append(left, w)
		}
	}
	return left, len(left) < len(works), nil
}

func hasCell(p *topology.WorkloadPlacement, member string) bool {
	for i := range p.Spec.Cells {
		if p.Spec.Cells[i].Cluster == member {
			return true
		}
	}
	return false
}
