package rollout

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
)

// target returns the revision to go back to: the one with the number, or for 0 the one that waves under way leave, whatever changed
// meanwhile, since most pods run it; where no waves are under way it is the newest one before the current.
func target(ctx context.Context, c client.Client, key wire.Key, object client.Object, revisions []Revision, number int64) (*Revision, error) {
	if number != 0 {
		return pick(key, revisions, number)
	}
	placement := &topology.WorkloadPlacement{}
	switch err := c.Get(ctx, key.Placement(), placement); {
	case err == nil:
		if left := leftBy(object, placement.Spec.Wave, revisions); left != nil {
			return left, nil
		}
	case !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err): // a cluster without a hub has no placements
		return nil, fmt.Errorf("get the placement of %s, which tells what its waves leave; name a revision with --to-revision: %w", key.Sentence(), err)
	}
	return pick(key, revisions, 0)
}

// leftBy returns the revision that waves under way leave; nil where none are, and where it is not kept any more.
func leftBy(object client.Object, p *topology.WaveProgress, revisions []Revision) *Revision {
	if p == nil || p.Number > p.Of || p.From == "" {
		return nil
	}
	name := history.Name(object.GetName(), p.From)
	if i := slices.IndexFunc(revisions, func(r Revision) bool { return r.Name == name && !r.Current }); i >= 0 {
		return &revisions[i]
	}
	return nil
}
