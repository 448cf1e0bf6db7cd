package store

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// OfPlacement returns the workload of a WorkloadPlacement.
func OfPlacement(_ context.Context, o client.Object) []wire.Key {
	return []wire.Key{wire.KeyOfPlacement(o.(*topology.WorkloadPlacement))}
}

// OfWork returns the workload of a Work, none for a Work of others.
func OfWork(_ context.Context, o client.Object) []wire.Key {
	if key, ok := wire.OwnerOf(o); ok {
		return []wire.Key{key}
	}
	return nil
}

// DeletionBegan lets through that an object gets a deletion timestamp.
func DeletionBegan() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			return (e.ObjectOld.GetDeletionTimestamp() == nil) != (e.ObjectNew.GetDeletionTimestamp() == nil)
		},
	}
}
