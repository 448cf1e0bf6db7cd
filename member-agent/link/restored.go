package link

import (
	"context"
	"errors"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// errRestored ends the agent. What it has cached of the hub is of a time that the hub does not know any more, and its
// watches, which begin after that time, tell nothing until the hub has come as far again. Started anew it lists all.
var errRestored = errors.New(
	"the hub stores an older state than before, as after a restore from a backup; the agent ends, to begin anew with " +
		"what stands there now",
)

// lookBack takes up how the Lease stands, after it was not as it was written last. An older one, or none, is that of a
// hub that was put back to an older state. A newer one is a write whose answer was lost.
func (l *Link) lookBack(ctx context.Context, lease *coordinationv1.Lease) error {
	stands := &coordinationv1.Lease{}
	err := l.client.Get(ctx, client.ObjectKeyFromObject(lease), stands)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read Lease %s/%s on the hub: %w", lease.Namespace, lease.Name, err)
	}
	older, unreadable := resourceversion.CompareResourceVersion(stands.ResourceVersion, l.version)
	if apierrors.IsNotFound(err) || unreadable == nil && older < 0 {
		l.end(errRestored)
		return errRestored
	}
	l.version = stands.ResourceVersion
	return nil
}
