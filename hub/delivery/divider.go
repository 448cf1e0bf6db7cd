package delivery

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
)

// divider returns the object by which the replicas of a placement were divided, nil for none. It returns false where that
// object has changed: a placement that answers the change follows.
func (r *Reconciler) divider(ctx context.Context, kind kinds.Kind, p *topology.WorkloadPlacement) (client.Object, bool, error) {
	ref := p.Spec.Spread
	if ref == nil || kind.Divider == nil {
		return nil, true, nil
	}
	object := kind.Divider.New()
	if err := r.client.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: ref.Name}, object); apierrors.IsNotFound(err) {
		return nil, false, nil
	} else if err != nil {
		return nil, false, fmt.Errorf("get %s %s/%s: %w", kind.Divider.GVK.Kind, p.Namespace, ref.Name, err)
	}
	hash, err := kind.Divider.Hash(object)
	return object, err == nil && hash == ref.Hash, err
}
