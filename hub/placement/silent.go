package placement

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// toldSilent returns the workload of a Work whose member is silent: what the member held is lent to others once its lower order
// stands there. Orders to members that answer change nothing by being written.
func (w *watches) toldSilent(ctx context.Context, o client.Object) []wire.Key {
	name, ok := wire.MemberOf(o.GetNamespace())
	if !ok {
		return nil
	}
	member := &topology.MemberCluster{}
	if err := w.client.Get(ctx, client.ObjectKey{Name: name}, member, client.UnsafeDisableDeepCopy); err != nil {
		if client.IgnoreNotFound(err) != nil {
			log.FromContext(ctx).Error(err, "get MemberCluster", "member", name)
		}
		return nil
	}
	if !meta.IsStatusConditionTrue(member.Status.Conditions, topology.MemberSilent) {
		return nil
	}
	return workKey(ctx, o)
}

// orderChanged lets through Works whose order changed.
func orderChanged() predicate.Predicate {
	return predicate.Funcs{
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool { return wire.SequenceOf(e.ObjectOld) != wire.SequenceOf(e.ObjectNew) },
	}
}
