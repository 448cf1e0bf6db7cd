package aggregate

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/decision"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/placement"
	"github.com/flotilla-dev/flotilla/hub/store"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

func (r *Reconciler) gather(
	ctx context.Context,
	kind kinds.Kind,
	key wire.Key,
	object client.Object,
	outcome placement.Outcome,
) (*Facts, error) {
	f := &Facts{
		Key:        key,
		Kind:       kind,
		Kinds:      r.rules,
		HubID:      r.hubID,
		Outcome:    outcome,
		Generation: object.GetGeneration(),
		Deleting:   object.GetDeletionTimestamp() != nil,
		Works:      map[string]*work.Work{},
		NotReady:   map[string]bool{},
	}
	if kind.Observe != nil {
		f.Observed = kind.Observe(object)
	}
	if refusal, ok := r.outcomes.Undelivered(key); ok {
		f.Undelivered = &refusal
	}
	p, _, err := store.FindPlacement(ctx, r.client, key)
	switch {
	case err != nil:
		return nil, err
	case p == nil && f.Deleting:
		return f, r.gatherLeft(ctx, f)
	case p == nil:
		return f, r.gatherWithdrawn(ctx, f)
	}
	f.Placement = p
	works := &work.WorkList{}
	if err := r.client.List(ctx, works, client.MatchingFields{store.IndexWorkPlacement: string(p.UID)},
		client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Works of %s: %w", key.Sentence(), err)
	}
	for i := range works.Items {
		if cluster, ok := wire.MemberOf(works.Items[i].Namespace); ok && !wire.IsCheck(&works.Items[i]) {
			f.Works[cluster] = &works.Items[i]
		}
	}
	if err := r.gatherNeeded(ctx, f); err != nil {
		return nil, err
	}
	return f, r.gatherReady(ctx, f)
}

// gatherReady finds the members whose reports may be old.
func (r *Reconciler) gatherReady(ctx context.Context, f *Facts) error {
	members := &topology.MemberClusterList{}
	if err := r.client.List(ctx, members, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list MemberClusters: %w", err)
	}
	for cluster := range f.Works {
		f.NotReady[cluster] = true // also one whose MemberCluster is gone
	}
	for i := range members.Items {
		m := &members.Items[i]
		f.NotReady[m.Name] = !meta.IsStatusConditionTrue(m.Status.Conditions, topology.MemberReady)
	}
	return nil
}

// gatherWithdrawn finds whether a workload that the user withdrew is out of all members.
func (r *Reconciler) gatherWithdrawn(ctx context.Context, f *Facts) error {
	if f.Outcome.Reason != decision.Withdrawn {
		return nil
	}
	left := &work.WorkList{}
	if err := r.client.List(ctx, left, client.MatchingFields{store.IndexWorkWorkload: f.Key.String()}, client.Limit(1),
		client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list Works of %s: %w", f.Key.Sentence(), err)
	}
	f.Withdrawn = len(left.Items) == 0
	return nil
}

// gatherNeeded reads the Works of what goes with the workload, in the members that have a cell of it.
func (r *Reconciler) gatherNeeded(ctx context.Context, f *Facts) error {
	f.Needed = map[string][]*work.Work{}
	clusters := map[string]bool{}
	for i := range f.Placement.Spec.Cells {
		clusters[f.Placement.Spec.Cells[i].Cluster] = true
	}
	for _, key := range wire.DependenciesOf(f.Placement) {
		if refusal, ok := r.outcomes.Undelivered(key); ok && f.Undelivered == nil {
			f.Undelivered = &refusal
		}
		for cluster := range clusters {
			w := &work.Work{}
			switch err := r.client.Get(ctx, key.Work(cluster), w, client.UnsafeDisableDeepCopy); {
			case err == nil:
				f.Needed[cluster] = append(f.Needed[cluster], w)
			case !apierrors.IsNotFound(err):
				return fmt.Errorf("get Work of %s for %s: %w", key.Sentence(), cluster, err)
			}
		}
	}
	return nil
}
