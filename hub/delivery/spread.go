package delivery

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/placement"
)

// spread returns the WorkloadSpread by which a placement was decided, nil for none. It returns false where it is another one by now: the
// placement that answers that comes.
func (r *Reconciler) spread(ctx context.Context, p *topology.WorkloadPlacement) (*apps.WorkloadSpread, bool, error) {
	ref := p.Spec.Spread
	if ref == nil {
		return nil, true, nil
	}
	ws := &apps.WorkloadSpread{}
	if err := r.client.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: ref.Name}, ws); apierrors.IsNotFound(err) {
		return nil, false, nil
	} else if err != nil {
		return nil, false, fmt.Errorf("get WorkloadSpread %s/%s: %w", p.Namespace, ref.Name, err)
	}
	hash, err := placement.SpreadHash(ws)
	return ws, err == nil && hash == ref.Hash, err
}
